"""Answers to browsers that ask from another origin. Off unless a host names origins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
_HEADERS = "Authorization, Content-Type, X-Correlation-ID"
_EXPOSED = "X-Correlation-ID, Location, Retry-After"


class Cors:
    """Lets the named origins (`https://host[:port]`) read answers. Cookies are never involved: tokens travel in a
    header that the page sets itself."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origins)

    async def handle(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """A middleware around all others, so that errors can be read too."""
        origin = request.headers.get("Origin")
        if origin not in self._origins or origin is None:
            return await handler(request)
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            response: web.StreamResponse = web.Response(status=204)
            response.headers["Access-Control-Allow-Methods"] = _METHODS
            response.headers["Access-Control-Allow-Headers"] = _HEADERS
            response.headers["Access-Control-Max-Age"] = "600"
        else:
            response = await handler(request)
        if not response.prepared:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = _EXPOSED
            response.headers.add("Vary", "Origin")
        return response
