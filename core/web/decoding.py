"""Bodies and queries as typed values. Every mistake is named by a dotted path; nothing is guessed."""

from __future__ import annotations

import asyncio
import re
import types
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from aiohttp import web

from core.domain.errors import InvalidInputError, Mistake
from core.web.problems import HttpError

BODY_BYTES = 1024 * 1024
BODY_DEADLINE_S = 30.0

_WHERE = re.compile(r"(?P<reason>.*?)(?: - at `(?P<path>.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.+)`")


async def decode_body(raw: web.Request, kind: Any) -> Any:
    """The JSON body as `kind`. HttpError for what is not JSON, InvalidInputError naming every wrong field."""
    data = await _read(raw)
    if not data:
        if _takes_none(kind):
            return None
        raise HttpError(400, "a JSON body is needed")
    if raw.content_type != "application/json":
        raise HttpError(415, f"this path takes application/json, not {raw.content_type}")
    try:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError as err:
            # The rest of the body has not been looked at yet; it may not even be JSON.
            raise InvalidInputError(mistakes=_all_mistakes(msgspec.json.decode(data), kind, err)) from err
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise HttpError(400, f"the body is not JSON: {err}") from err


async def _read(raw: web.Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_DEADLINE_S):
            return await raw.read()
    except TimeoutError as err:
        raise HttpError(408, f"the body did not arrive within {BODY_DEADLINE_S:.0f} s") from err
    except web.HTTPRequestEntityTooLarge as err:
        raise HttpError(413, f"the body is larger than {BODY_BYTES} bytes") from err


def _all_mistakes(raw: Any, kind: Any, first: msgspec.ValidationError) -> tuple[Mistake, ...]:
    """msgspec stops at the first mistake; the fields of a plain struct are tried one by one to find the others."""
    if not (isinstance(raw, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return (to_mistake(first),)
    found: list[Mistake] = []
    for field in msgspec.structs.fields(kind):
        if field.encode_name in raw:
            found += _mistakes_of_field(field.encode_name, raw[field.encode_name], field.type)
        elif field.required:
            found.append(Mistake(field=field.encode_name, reason="is missing"))
    return tuple(found) or (to_mistake(first),)


def _mistakes_of_field(name: str, value: Any, kind: Any) -> list[Mistake]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as err:
        return [to_mistake(err, name)]
    return []


def to_mistake(err: msgspec.ValidationError, prefix: str = "") -> Mistake:
    """The place and reason in a message of msgspec, e.g. "Expected `int`, got `str` - at `$.a[0].b`" -> a.0.b"""
    match = _WHERE.fullmatch(str(err))
    reason, path = (match["reason"], match["path"] or "$") if match else (str(err), "$")
    parts = [prefix] if prefix else []
    parts += [part for part in re.split(r"[.\[\]]+", path.removeprefix("$")) if part]
    for pattern, said in ((_MISSING, "is missing"), (_UNKNOWN, "is not known")):
        named = pattern.fullmatch(reason)
        if named is not None:
            parts.append(named["name"])
            reason = said
    return Mistake(field=".".join(parts) or "body", reason=reason)


def decode_query(query: Mapping[str, str], kind: type[msgspec.Struct] | None) -> Any:
    """The query (a multidict) as `kind`: repeated keys are lists, times are ISO 8601 with an offset. Unknown and
    repeated keys are refused: a filter that is silently ignored shows the wrong rows."""
    given = _grouped(query)
    if kind is None:
        if given:
            raise InvalidInputError(mistakes=tuple(Mistake(field=k, reason="is not known") for k in given))
        return None
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    found = [Mistake(field=name, reason="is not known") for name in given if name not in fields]
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in given:
            try:
                values[field.name] = _query_value(given[name], field.type)
            except ValueError as err:  # msgspec.ValidationError is one
                found.append(Mistake(field=name, reason=_reason(err)))
        elif field.required:
            found.append(Mistake(field=name, reason="is missing"))
    if found:
        raise InvalidInputError(mistakes=tuple(found))
    try:
        return kind(**values)
    except ValueError as err:  # a rule over several fields, in __post_init__
        raise InvalidInputError.of("query", str(err)) from err


def _grouped(query: Mapping[str, str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    pairs: Iterable[tuple[str, str]] = query.items()
    for name, value in pairs:
        grouped.setdefault(name, []).append(value)
    return grouped


def _query_value(texts: list[str], kind: Any) -> Any:
    if is_list(kind):
        return msgspec.convert(texts, kind, strict=False)
    if len(texts) > 1:
        raise ValueError("is given more than once")
    value = msgspec.convert(texts[0], kind, strict=False)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("needs an offset from UTC, e.g. 2026-06-01T08:00:00Z (a '+' in a URL is written %2B)")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise ValueError("is outside the years 1 to 9999") from None
    return value


def _reason(err: ValueError) -> str:
    return to_mistake(err).reason if isinstance(err, msgspec.ValidationError) else str(err)


def is_list(kind: Any) -> bool:
    """Whether a query field takes its key repeatedly."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in {Union, types.UnionType}:
        return any(is_list(part) for part in get_args(kind))
    return get_origin(kind) in {list, tuple, set, frozenset} or kind in {list, tuple, set, frozenset}


def _takes_none(kind: Any) -> bool:
    return kind is None or type(None) in get_args(kind)
