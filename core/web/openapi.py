"""The OpenAPI 3.1 document, made from the route table: the types that decode are the types that are described."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

import msgspec

from core.domain.errors import (
    ForbiddenError,
    InvalidInputError,
    MowdeckError,
    NotFoundError,
    UnauthenticatedError,
)
from core.web.decoding import is_list
from core.web.host_routes import HostInfo
from core.web.problems import CONTENT_TYPE, HTTP_CODES, Problem, status_of
from core.web.route import Decided, Guard, OnAccount, OnObject, Public, Route, SignedIn
from core.web.route_table import API_ROOT, parameters_of, plain_path

_REF = "#/components/schemas/{name}"
_BODY_PROBLEMS = (400, 413, 415)


def document_of(routes: Sequence[Route], *, host: HostInfo) -> dict[str, Any]:
    """The document for a table. WebSocket routes are described as a GET that answers 101."""
    schemas, components = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = plain_path(route)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, path, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Mowdeck",
            "version": host.version,
            "description": "One API of the box at home and of the relay. Errors are RFC 9457 problems; `code` is stable.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in sorted({route.tag for route in routes})],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An access or a service token."}
            },
        },
    }


Schemas = dict[int, dict[str, Any]]
"""Schema by the identity of the type in the table (types such as `tuple[X, ...]` need not be hashable)."""


def _schemas(routes: Sequence[Route]) -> tuple[Schemas, dict[str, Any]]:
    kinds: list[Any] = [Problem]
    for route in routes:
        kinds += [kind for kind in (route.body, route.answer, *route.other_answers.values()) if kind is not None]
        kinds += [field.type for field in _query_fields(route)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    return {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}, components


def _query_fields(route: Route) -> Iterable[msgspec.structs.FieldInfo]:
    return () if route.query is None else _fields(route.query)


_known_fields: dict[type, tuple[msgspec.structs.FieldInfo, ...]] = {}


def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Fields of a struct, the same objects at every call: their types are looked up by identity."""
    if kind not in _known_fields:
        _known_fields[kind] = msgspec.structs.fields(kind)
    return _known_fields[kind]


def _operation(route: Route, path: str, schemas: Schemas) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _operation_id(route, path),
        "summary": route.summary,
        "tags": [route.tag],
        "responses": _responses(route, schemas),
        "security": [] if isinstance(route.guard, Public) else [{"bearer": []}],
        "x-mowdeck-guard": describe_guard(route.guard),
    }
    parameters = [_path_parameter(name) for name in parameters_of(route)]
    parameters += [_query_parameter(field, schemas) for field in _query_fields(route)]
    if parameters:
        found["parameters"] = parameters
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schemas[id(route.body)]}}}
    return found


def _operation_id(route: Route, path: str) -> str:
    words = [word for word in re.split(r"[^A-Za-z0-9]+", path.removeprefix(API_ROOT)) if word]
    return "_".join([route.method.lower(), *words])


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameter(field: msgspec.structs.FieldInfo, schemas: Schemas) -> dict[str, Any]:
    schema = dict(schemas[id(field.type)])
    if field.default is not msgspec.NODEFAULT:
        schema["default"] = msgspec.to_builtins(field.default)
    parameter = {"name": field.encode_name, "in": "query", "required": field.required, "schema": schema}
    if is_list(field.type):
        parameter |= {"style": "form", "explode": True}
    return parameter


def _responses(route: Route, schemas: Schemas) -> dict[str, Any]:
    status = "101" if route.is_stream else str(route.status)
    success: dict[str, Any] = {"description": route.summary}
    if route.answer is not None and not route.is_stream:
        files = {media: {"schema": {"type": "string"}} for media in route.media}
        success["content"] = {"application/json": {"schema": schemas[id(route.answer)]}, **files}
    problem = {CONTENT_TYPE: {"schema": schemas[id(Problem)]}}
    problems: dict[str, dict[str, Any]] = {
        code: {"description": description, "content": problem} for code, description in _problems(route).items()
    }
    for other, kind in route.other_answers.items():
        content = problems.setdefault(str(other), {"description": route.summary, "content": {}})["content"]
        problems[str(other)]["content"] = {**content, "application/json": {"schema": schemas[id(kind)]}}
    return {status: success, **problems}


def _problems(route: Route) -> Mapping[str, str]:
    """Description by status of every problem that the guard, the input or the handler can answer."""
    kinds: list[type[MowdeckError]] = [*route.errors]
    match route.guard:
        case Public():
            pass
        case SignedIn():
            kinds += [UnauthenticatedError]
        case OnAccount():
            kinds += [UnauthenticatedError, ForbiddenError]
        case OnObject() | Decided():
            kinds += [UnauthenticatedError, ForbiddenError, NotFoundError]
        case _:
            assert_never(route.guard)
    if not route.is_absolute or route.body is not None or route.query is not None:
        kinds += [InvalidInputError]
    codes: dict[int, set[str]] = {}
    for kind in kinds:
        codes.setdefault(status_of(kind)[0], set()).add(kind.code)
    if route.body is not None:
        for status in _BODY_PROBLEMS:
            codes.setdefault(status, set()).add(HTTP_CODES[status][0])
    found = {str(status): f"Problem: {', '.join(sorted(names))}" for status, names in sorted(codes.items())}
    return {**found, "default": "Problem"}


def describe_guard(guard: Guard) -> dict[str, Any]:
    """A guard in words, for the document and for people who review the table."""
    match guard:
        case Public(reason=reason):
            return {"kind": "public", "reason": reason}
        case SignedIn(reason=reason):
            return {"kind": "signed_in", "reason": reason}
        case OnAccount(relation=relation):
            return {"kind": "account", "relation": relation.value}
        case OnObject(relation=relation, type=kind, parameter=parameter):
            return {"kind": "object", "relation": relation.value, "type": kind.value, "parameter": parameter}
        case Decided(relations=relations, reason=reason):
            return {"kind": "decided", "relations": [relation.value for relation in relations], "reason": reason}
        case _:
            assert_never(guard)
