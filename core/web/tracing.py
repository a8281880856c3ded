"""Around every request: correlation id, error to problem, security headers, access log, metrics."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Histogram

from core.domain.clock import Clock
from core.domain.errors import MowdeckError
from core.domain.ids import is_safe_id, make_id
from core.web.problems import HTTP_CODES, HttpError, problem_of, problem_response

log = structlog.get_logger(__name__)

CORRELATION_HEADER = "X-Correlation-ID"
CORRELATION = web.RequestKey("mowdeck_correlation_id", str)
REMOTE = web.RequestKey("mowdeck_remote", str)
SUBJECT = web.RequestKey("mowdeck_subject", str)
_QUIET = frozenset({"/health", "/health/ready", "/metrics"})
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Tracing:
    """The outermost middleware. It is the API's fire door: nothing but a response leaves it."""

    def __init__(self, *, clock: Clock, registry: CollectorRegistry, trusted_proxies: Sequence[str] = ()) -> None:
        self._clock = clock
        self._proxies: tuple[Network, ...] = tuple(ipaddress.ip_network(text) for text in trusted_proxies)
        self._seconds = Histogram(
            "mowdeck_http_request_seconds",
            "Time from the request's head to its answer",
            ["method", "route", "status"],
            registry=registry,
            buckets=_BUCKETS,
        )

    async def handle(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        """Runs the handler within the request's context."""
        correlation_id = _correlation_id(request, self._clock.now())
        request[CORRELATION] = correlation_id
        request[REMOTE] = remote_address(request, self._proxies)
        started = self._clock.monotonic()
        # Keep-alive requests share one task and so one context: bind and unbind around each.
        with structlog.contextvars.bound_contextvars(correlation_id=correlation_id, subject=None):
            response = await self._answer(request, handler, correlation_id)
            if not response.prepared:
                response.headers[CORRELATION_HEADER] = correlation_id
                secure(request, response)
            self._note(request, response, self._clock.monotonic() - started)
        return response

    async def _answer(self, request: web.Request, handler: RequestHandler, correlation_id: str) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as err:
            if err.status < 400:
                raise
            return _http_problem(err, correlation_id)
        except MowdeckError as err:
            problem = problem_of(err, correlation_id)
            if problem.status >= 500:
                log.warning("request failed", code=problem.code, detail=err.detail, route=_template(request))
            return problem_response(problem)
        except Exception as err:  # the API's outermost handler: a bug in one request must not end others
            log.exception("request broke", route=_template(request), method=request.method)
            return problem_response(problem_of(err, correlation_id))

    def _note(self, request: web.Request, response: web.StreamResponse, seconds: float) -> None:
        template = _template(request)
        if response.status != 101:  # a socket's life is not a request's time
            self._seconds.labels(_method(request), template, str(response.status)).observe(seconds)
        level = log.debug if template in _QUIET else log.info
        level(
            "request",
            method=request.method,
            route=template,
            status=response.status,
            duration_ms=round(seconds * 1000, 1),
            remote=request[REMOTE],
            subject=request.get(SUBJECT),
        )


def _correlation_id(request: web.Request, now: datetime) -> str:
    given = request.headers.get(CORRELATION_HEADER, "")
    return given if is_safe_id(given) else make_id(now)


def _template(request: web.Request) -> str:
    """The route's pattern, so that metrics and logs do not grow with ids."""
    resource = request.match_info.route.resource
    return "unmatched" if resource is None else resource.canonical


def _method(request: web.Request) -> str:
    known = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
    return request.method if request.method in known else "other"


def _http_problem(err: web.HTTPException, correlation_id: str) -> web.Response:
    """aiohttp's own refusals as problems."""
    status = err.status if err.status in HTTP_CODES else 400
    detail = "no such path" if status == 404 else err.reason
    response = problem_response(problem_of(HttpError(status, detail), correlation_id))
    if "Allow" in err.headers:
        response.headers["Allow"] = err.headers["Allow"]
    return response


def secure(request: web.Request, response: web.StreamResponse) -> None:
    """Headers that keep browsers from doing harm; what a handler has set itself stays."""
    headers = response.headers
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Referrer-Policy", "no-referrer")
    if request.path.startswith("/api/") or response.content_type.endswith("json"):
        headers.setdefault("Cache-Control", "no-store")
        headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
    else:
        headers.setdefault("Content-Security-Policy", "frame-ancestors 'none'")


def remote_address(request: web.Request, proxies: Sequence[Network]) -> str:
    """The caller's address. `X-Forwarded-For` is read from its right end, and only past trusted proxies: what
    stands further left was written by the caller."""
    address = request.remote or ""
    if not proxies:
        return address
    hops = [hop.strip() for line in request.headers.getall("X-Forwarded-For", []) for hop in line.split(",")]
    while hops and _is_within(address, proxies):
        following = hops.pop()
        if not _is_address(following):
            break
        address = following
    return address


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_within(text: str, networks: Sequence[Network]) -> bool:
    return _is_address(text) and any(ipaddress.ip_address(text) in network for network in networks)
