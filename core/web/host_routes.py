"""What every host answers about itself: health, readiness, metrics, what it is, and its OpenAPI document."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec
import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from core.domain.errors import NotFoundError, UnauthenticatedError
from core.web.gate import bearer_token
from core.web.route import Answer, Public, Request, Route

log = structlog.get_logger(__name__)

READY_DEADLINE_S = 5.0
_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP")

ReadyCheck = Callable[[], Awaitable[None]]
"""Returns when the part is ready; any error says that it is not."""


class HostInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a client has to know before anybody signs in."""

    kind: Literal["box", "relay"]
    version: str
    name: str
    features: tuple[str, ...] = ()
    """Words for what this host can do beyond the shared API, e.g. `flows`, `register`, `invites`."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Whether each part is there. Why not stands in the log only: anybody may read this."""

    status: Literal["ready", "unready"]
    checks: dict[str, bool]


class HostRoutes:
    """Handlers of the host's own routes."""

    def __init__(
        self,
        host: HostInfo,
        *,
        ready_checks: Mapping[str, ReadyCheck],
        registry: CollectorRegistry,
        metrics_token: str | None,
        document: Callable[[], bytes],
    ) -> None:
        self._host = host
        self._ready_checks = dict(ready_checks)
        self._registry = registry
        self._metrics_token = metrics_token
        self._document = document
        self._was_ready: dict[str, bool] = {}

    def routes(self) -> tuple[Route, ...]:
        """The routes, for the table."""
        return (
            _public("/health", self._health, "Whether the process answers", Health, "supervisors ask without a token"),
            _public(
                "/health/ready", self._ready, "Whether all parts are there", Readiness, "balancers ask without a token"
            ),
            _public("/metrics", self._metrics, "Prometheus metrics", None, "this machine only, or a token of its own"),
            _public("/api/v1/host", self._describe, "What this host is", HostInfo, "asked before anybody signs in"),
            _public("/api/v1/openapi.json", self._openapi, "This document", Any, "describes the API, holds no data"),
        )

    async def _health(self, _: Request) -> Health:
        return Health(version=self._host.version)

    async def _ready(self, _: Request) -> Answer:
        names = list(self._ready_checks)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._check(name), name=f"ready-{name}") for name in names]
        checks = {name: task.result() for name, task in zip(names, tasks, strict=True)}
        is_ready = all(checks.values())
        value = Readiness(status="ready" if is_ready else "unready", checks=checks)
        return Answer(value=value, status=200 if is_ready else 503)

    async def _check(self, name: str) -> bool:
        try:
            async with asyncio.timeout(READY_DEADLINE_S):
                await self._ready_checks[name]()
        except Exception as err:  # noqa: BLE001  (whatever a part's check raises means that it is not ready)
            is_ready, why = False, f"{type(err).__name__}: {err}"
        else:
            is_ready, why = True, ""
        if self._was_ready.get(name) is not is_ready:
            self._was_ready[name] = is_ready
            log.info("readiness changed", part=name, is_ready=is_ready, why=why)
        return is_ready

    async def _metrics(self, request: Request) -> Answer:
        if self._metrics_token is not None:
            if not hmac.compare_digest(bearer_token(request.raw).encode(), self._metrics_token.encode()):
                raise UnauthenticatedError("not the token for metrics")
        elif not _is_local(request):
            raise NotFoundError("no such path")
        return Answer(value=generate_latest(self._registry), content_type=CONTENT_TYPE_LATEST)

    async def _describe(self, _: Request) -> HostInfo:
        return self._host

    async def _openapi(self, _: Request) -> Answer:
        return Answer(value=self._document(), content_type="application/json")


def _public(path: str, handler: Callable[[Request], Awaitable[Any]], summary: str, answer: Any, reason: str) -> Route:
    return Route(
        method="GET",
        path=path,
        guard=Public(reason=reason),
        handler=handler,
        summary=summary,
        tag="host",
        answer=answer,
        is_absolute=True,
    )


def _is_local(request: Request) -> bool:
    """Whether the caller is on this machine itself, not behind a proxy on this machine that says so."""
    if any(name in request.raw.headers for name in _FORWARDED):
        return False
    peer = request.raw.remote
    return peer is not None and ipaddress.ip_address(peer).is_loopback
