"""Form fields: a voluptuous schema as JSON, mistakes as errors by field, suggested values put back into a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import voluptuous as vol
import voluptuous_serialize

BASE = "base"
"""The key of errors that belong to no single field."""

Field = dict[str, Any]
"""One field as voluptuous_serialize writes it: name, type, required, default, valueMin, options, ..."""


class Password:
    """A validator for text that is masked on screen and never sent back: `vol.Required("pin"): Password()`."""

    def __call__(self, value: Any) -> str:
        if not isinstance(value, str):
            raise vol.Invalid("expected a string")
        return value


def serialize_schema(schema: vol.Schema) -> tuple[Field, ...]:
    """The schema's fields in order. ValueError for a schema that has no form (nested, unknown validators)."""
    fields = voluptuous_serialize.convert(schema, custom_serializer=_serialize_own)
    if not isinstance(fields, list):
        raise ValueError("a form's schema must be a mapping")  # noqa: TRY004  (like the serializer's own)
    msgspec.json.encode(fields)  # a default that is not JSON is the form's mistake, found here
    return tuple(fields)


def _serialize_own(validator: Any) -> Any:
    if isinstance(validator, Password):
        return {"type": "string", "format": "password"}
    return voluptuous_serialize.UNSUPPORTED


def errors_of(err: vol.Invalid) -> dict[str, str]:
    """Field -> reason of everything that a schema refused; the first reason of each field."""
    found: dict[str, str] = {}
    for mistake in err.errors if isinstance(err, vol.MultipleInvalid) else [err]:
        field = str(mistake.path[0]) if mistake.path else BASE
        found.setdefault(field, str(mistake.msg))
    return found


def suggest(fields: tuple[Field, ...], values: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields with `suggested_value` from `values`; passwords are never suggested."""
    return tuple(
        {**field, "suggested_value": values[field["name"]]}
        if field["name"] in values and field.get("format") != "password"
        else field
        for field in fields
    )
