"""What a person types into the forms of an Ardumower: checked, and by field what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import voluptuous as vol

from core.platform.bluetooth_address import read_address
from integrations.ardumower.areas import read_areas
from integrations.ardumower.settings import read_password, read_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """`path` is a URL or a Bluetooth address, empty where the form asks for none. `garden` are an entry's options."""

    name: str
    path: str
    password: int | None = field(repr=False)
    garden: dict[str, Any]
    shown: dict[str, Any]
    """As typed, without the password: for the form when it comes again."""

    @property
    def secrets(self) -> dict[str, str]:
        return {} if self.password is None else {"password": str(self.password)}

    def without_password(self) -> Self:
        """For the form, once the mower has refused the password."""
        return replace(self, password=None)

    def at(self, path: str) -> Self:
        """The same with another path."""
        return replace(self, path=path)


def read_answers(given: Mapping[str, Any], path_field: str | None) -> tuple[Answers, dict[str, str]]:
    """The answers, which count only when there are no errors, and the errors by field."""
    errors: dict[str, str] = {}
    path, password = "", None
    if path_field is not None:
        try:
            path = read_url(str(given[path_field])) if path_field == "host" else read_address(given[path_field])
        except vol.Invalid:
            errors[path_field] = f"invalid_{path_field}"
    if given.get("password"):
        try:
            password = read_password(given["password"])
        except vol.Invalid:
            errors["password"] = "invalid_password"  # noqa: S105  (a translation key)
    name = str(given.get("name", "")).strip()
    if "name" in given and not 1 <= len(name) <= 64:
        errors["name"] = "invalid_name"
    garden = _read_garden(given, errors) if "cells" in given else {}
    shown = {key: value for key, value in given.items() if key != "password"}
    return Answers(name=name, path=path, password=password, garden=garden, shown=shown), errors


def _read_garden(given: Mapping[str, Any], errors: dict[str, str]) -> dict[str, Any]:
    lat, lon = given.get("datum_lat"), given.get("datum_lon")
    if (lat is None) != (lon is None):
        errors["datum_lon" if lon is None else "datum_lat"] = "half_a_place"
    elif lat is not None and not (abs(lat) <= 85 and abs(lon or 0.0) <= 180):  # NaN passes the form's own check
        errors["datum_lat"] = "invalid_place"
    if not abs(given["rotation_deg"]) <= 360:
        errors["rotation_deg"] = "invalid_rotation"
    areas = str(given.get("areas") or "")
    try:
        read_areas(areas)
    except ValueError:
        errors["areas"] = "invalid_areas"
    datum = None if lat is None or lon is None else {"lat": lat, "lon": lon}
    return {"cells": given["cells"], "datum": datum, "rotation_deg": given["rotation_deg"], "areas": areas}


def garden_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """An entry's options as the form shows them; what is not set is left out."""
    datum = options.get("datum") or {}
    shown = {
        "cells": options.get("cells"),
        "rotation_deg": options.get("rotation_deg"),
        "areas": options.get("areas") or None,
        "datum_lat": datum.get("lat"),
        "datum_lon": datum.get("lon"),
    }
    return {name: value for name, value in shown.items() if value is not None}
