"""Walks a route table as a stranger: nobody without a token gets in, and the owner of another account finds nothing.

Box and relay run it on their whole table. Every check returns what it found wrong, in words; an empty list is good.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp.test_utils import TestClient

from core.web.route import Decided, OnAccount, OnObject, Public, Route, SignedIn
from core.web.route_table import full_path, parameters_of


def name_of(route: Route) -> str:
    """How failures and `bodies` name a route, e.g. `POST /fleet/mowers/{mower_id}/commands`."""
    return f"{route.method} {route.path}"


@dataclass(kw_only=True)
class RouteWalk:
    """`values` are ids of the victim by path parameter; `bodies` are bodies that would be right for the victim, by
    route name (needed only where the guard is Decided and the route takes a body)."""

    client: TestClient[Any, Any]
    routes: Sequence[Route]
    values: Mapping[str, str]
    bodies: Mapping[str, Any] = field(default_factory=dict)

    def find_unguarded(self) -> list[str]:
        """Routes without a guard, or whose guard does not say what or why."""
        wrong = []
        for route in self.routes:
            match route.guard:
                case Public(reason=reason) | SignedIn(reason=reason) if len(reason) < 10:
                    wrong.append(f"{name_of(route)}: says no reason")
                case Decided(reason=reason, relations=relations) if len(reason) < 10 or not relations:
                    wrong.append(f"{name_of(route)}: says no reason or no relation")
                case Public() | SignedIn() | Decided() | OnAccount() | OnObject():
                    pass
                case _:
                    wrong.append(f"{name_of(route)}: has no guard")
        return wrong

    async def find_open_to_nobody(self) -> list[str]:
        """Guarded routes that answer anything but 401 without a token, with a wrong one, or with one in the query."""
        wrong = []
        for route in self.routes:
            if isinstance(route.guard, Public):
                continue
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic d3Jvbmc="}):
                status, _ = await self._call(route, headers)
                if status != 401:
                    wrong.append(f"{name_of(route)}: {status} with {headers or 'no token'}")
        return wrong

    async def find_open_to_stranger(self, token: str, *, foreign_ids: Iterable[str]) -> list[str]:
        """As the owner of another account (`token`, with every right there): 404 for every object of the victim, and
        no id of the victim in any answer. SignedIn routes and those on the caller's own account are only read: they
        concern the stranger alone."""
        secrets = set(foreign_ids)
        wrong = []
        for route in self.routes:
            if isinstance(route.guard, Public):
                continue
            names_object = bool(set(parameters_of(route)) & self.values.keys())
            if not names_object and route.method != "GET" and not isinstance(route.guard, Decided):
                continue
            if isinstance(route.guard, Decided) and route.body is not None and name_of(route) not in self.bodies:
                wrong.append(f"{name_of(route)}: give the walk a body for it")
                continue
            status, text = await self._call(route, {"Authorization": f"Bearer {token}"})
            if names_object and status != 404:
                wrong.append(f"{name_of(route)}: {status} for an object of another account")
            if status >= 500:
                wrong.append(f"{name_of(route)}: {status}")
            said = secrets & set(re.findall(r"[A-Za-z0-9_-]+", text))
            if said and not names_object:
                wrong.append(f"{name_of(route)}: tells {sorted(said)}")
        return wrong

    async def find_smuggled(self, token: str, account_id: str, *, foreign_ids: Iterable[str]) -> list[str]:
        """Lists that change when the victim's account id is put into the query."""
        secrets = set(foreign_ids)
        wrong = []
        for route in self.routes:
            if route.method != "GET" or parameters_of(route) or isinstance(route.guard, Public) or route.is_stream:
                continue
            headers = {"Authorization": f"Bearer {token}"}
            status, text = await self._call(route, headers, query={"account_id": account_id})
            if status < 400 and secrets & set(re.findall(r"[A-Za-z0-9_-]+", text)):
                wrong.append(f"{name_of(route)}: obeys an account_id in the query")
        return wrong

    async def _call(
        self, route: Route, headers: Mapping[str, str], query: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        path = full_path(route)
        for name in parameters_of(route):
            path = re.sub(rf"\{{{name}(:[^{{}}]*)?\}}", self.values.get(name, "unknown"), path)
        body = self.bodies.get(name_of(route), {}) if route.body is not None else None
        data = None if body is None else json.dumps(body)
        sent = {**headers, **({} if data is None else {"Content-Type": "application/json"})}
        async with self.client.request(
            route.method, path, headers=sent, data=data, params=dict(query or {}), allow_redirects=False
        ) as response:
            return response.status, await response.text(errors="replace")
