"""Rules about a table of routes as a whole."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.web.route import OnObject, Route

API_ROOT = "/api/v1"
_PARAMETER = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


def full_path(route: Route) -> str:
    """Where the route is mounted."""
    return route.path if route.is_absolute else API_ROOT + route.path


def plain_path(route: Route) -> str:
    """The mounted path with parameters as `{name}`, without their patterns."""
    return _PARAMETER.sub(r"{\1}", full_path(route))


def parameters_of(route: Route) -> tuple[str, ...]:
    """Names of the path's parameters, in order."""
    return tuple(_PARAMETER.findall(route.path))


def check_table(routes: Sequence[Route]) -> None:
    """ValueError for two routes of one method and path, or a guard on a parameter that the path lacks."""
    seen: set[tuple[str, str]] = set()
    for route in routes:
        shape = (route.method, _PARAMETER.sub("{}", full_path(route)))
        if shape in seen:
            raise ValueError(f"two routes for {route.method} {full_path(route)}")
        seen.add(shape)
        if isinstance(route.guard, OnObject) and route.guard.parameter not in parameters_of(route):
            raise ValueError(f"{route.method} {full_path(route)} has no parameter {route.guard.parameter}")
