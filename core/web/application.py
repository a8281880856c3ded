"""The route table at work: an aiohttp application that runs every route behind its guard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from core.access.authorizer import Authorizer
from core.domain.clock import Clock
from core.domain.errors import NotFoundError, UnavailableError
from core.domain.ids import is_safe_id
from core.web.cors import Cors
from core.web.decoding import BODY_BYTES, decode_body, decode_query
from core.web.gate import Gate
from core.web.host_routes import HostInfo, HostRoutes, ReadyCheck
from core.web.openapi import document_of
from core.web.ports import TokenVerifier
from core.web.route import Answer, Request, Route
from core.web.route_table import check_table, full_path
from core.web.streamed import Streamed, send_streamed
from core.web.tracing import CORRELATION, REMOTE, SUBJECT, RequestHandler, Tracing

HANDLER_DEADLINE_S = 60.0
"""No handler of a plain request takes longer; streams have deadlines of their own."""

ROUTES = web.AppKey("mowdeck_routes", tuple)
"""All routes of an application, the host's own included."""

Hook = Callable[[], Awaitable[None]]


def build_application(
    routes: Sequence[Route],
    *,
    verifier: TokenVerifier,
    authorizer: Authorizer,
    clock: Clock,
    host: HostInfo,
    trusted_proxies: Sequence[str] = (),
    ready_checks: Mapping[str, ReadyCheck] | None = None,
    registry: CollectorRegistry | None = None,
    metrics_token: str | None = None,
    cors_origins: Sequence[str] = (),
    on_startup: Sequence[Hook] = (),
    on_shutdown: Sequence[Hook] = (),
    handler_deadline_s: float = HANDLER_DEADLINE_S,
) -> web.Application:
    """The API of a host. `routes` are the shared and the host's own; health, metrics, host and OpenAPI are added.

    `trusted_proxies` are addresses or networks whose X-Forwarded-For is believed; `metrics_token` opens /metrics to
    others than this machine; `on_shutdown` runs while connections are still open (close sockets there).
    ValueError for a table that contradicts itself. Run it with `access_log=None`: it has a log of its own.
    """
    registry = CollectorRegistry() if registry is None else registry
    own = HostRoutes(
        host,
        ready_checks=ready_checks or {},
        registry=registry,
        metrics_token=metrics_token,
        document=lambda: document,
    ).routes()
    table = (*routes, *own)
    check_table(table)
    document = msgspec.json.encode(document_of([route for route in table if not route.is_page], host=host))

    tracing = Tracing(clock=clock, registry=registry, trusted_proxies=trusted_proxies)
    middlewares = [_middleware(tracing.handle)]
    if cors_origins:
        middlewares.insert(0, _middleware(Cors(cors_origins).handle))  # outermost: errors are answers too
    app = web.Application(client_max_size=BODY_BYTES, middlewares=middlewares)
    app[ROUTES] = table
    runner = _Runner(Gate(verifier, authorizer), clock, handler_deadline_s)
    for route in table:
        handler = partial(runner.run, route)
        app.router.add_route(route.method, full_path(route), handler)
        if route.method == "GET" and not route.is_stream:
            app.router.add_route("HEAD", full_path(route), handler)
    app.on_startup.extend(_signal(hook) for hook in on_startup)
    app.on_shutdown.extend(_signal(hook) for hook in on_shutdown)
    return app


class _Runner:
    """From an HTTP request to a handler's answer."""

    def __init__(self, gate: Gate, clock: Clock, deadline_s: float) -> None:
        self._gate = gate
        self._clock = clock
        self._deadline_s = deadline_s

    async def run(self, route: Route, raw: web.Request) -> web.StreamResponse:
        if route.is_stream:
            return await self._stream(route, raw)
        try:
            async with asyncio.timeout(self._deadline_s) as deadline:
                answer = await route.handler(await self._request(route, raw))
        except TimeoutError as err:
            if not deadline.expired():
                raise  # a handler's own, which it should have translated
            raise UnavailableError(f"no answer within {self._deadline_s:.0f} s") from err
        return await send_streamed(answer, raw) if isinstance(answer, Streamed) else to_response(route, answer)

    async def _stream(self, route: Route, raw: web.Request) -> web.StreamResponse:
        response = await route.handler(await self._request(route, raw))
        if not isinstance(response, web.StreamResponse):
            raise TypeError(f"the handler of {route.path} must return the response that it sent")
        return response

    async def _request(self, route: Route, raw: web.Request) -> Request:
        """Everything checked, in this order: token and guard, path, query, body. A caller without the right learns
        nothing about the rest."""
        principal = await self._gate.admit(route, raw)
        if principal is not None:
            raw[SUBJECT] = principal.subject
            structlog.contextvars.bind_contextvars(subject=principal.subject)
        for name, value in raw.match_info.items():
            if name.endswith("_id") and not is_safe_id(value):
                raise NotFoundError(f"no such {name.removesuffix('_id')}")
        query = None if route.is_page else decode_query(raw.query, route.query)
        body = None if route.body is None else await decode_body(raw, route.body)
        return Request(
            principal=principal,
            path=dict(raw.match_info),
            body=body,
            query=query,
            now=self._clock.now(),
            correlation_id=raw[CORRELATION],
            remote=raw[REMOTE],
            raw=raw,
        )


def to_response(route: Route, answer: Any) -> web.Response:
    """The response for a handler's answer: plain values as JSON with the route's status."""
    if not isinstance(answer, Answer):
        answer = Answer(value=answer)
    status = route.status if answer.status is None else answer.status
    if status == 204:
        response = web.Response(status=204)
    elif answer.content_type == "application/json" and not isinstance(answer.value, bytes):
        response = web.Response(status=status, body=msgspec.json.encode(answer.value))
        response.content_type = "application/json"
    else:
        value = answer.value.encode() if isinstance(answer.value, str) else answer.value
        response = web.Response(status=status, body=value, headers={"Content-Type": answer.content_type})
    response.headers.update(answer.headers)
    return response


def _middleware(handle: Callable[[web.Request, RequestHandler], Awaitable[web.StreamResponse]]) -> Any:
    @web.middleware
    async def middleware(request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        return await handle(request, handler)

    return middleware


def _signal(hook: Hook) -> Callable[[web.Application], Awaitable[None]]:
    async def run(_: web.Application) -> None:
        await hook()

    return run
