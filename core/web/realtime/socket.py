"""The WebSocket route: handshake, limits of the transport, and the cut at the end."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from core.domain import limits
from core.domain.errors import ForbiddenError, RateLimitedError, UnavailableError
from core.domain.ids import make_id
from core.identity.rate_limit import network_of
from core.web.realtime.protocol import Conversation
from core.web.realtime.viewer import Viewer, ViewerParts
from core.web.route import Public, Request, Route

SEND_BUFFER_BYTES = 128 * 1024
"""Of the kernel: what it holds for a viewer that stopped reading is already too old when it reads again."""
TRANSPORT_FRAME_BYTES = 4 * limits.FRAME_BYTES
"""aiohttp cuts what is larger (1009) before buffering it; the protocol itself refuses above FRAME_BYTES."""
CLOSE_REPLY_S = 3.0


class RealtimeSocket:
    """Serves `GET /realtime/ws`. `allowed_origins` (if any) are the pages that may connect; clients that are not
    browsers send no Origin and are not concerned."""

    def __init__(self, parts: ViewerParts, *, allowed_origins: Sequence[str] = ()) -> None:
        self._parts = parts
        self._allowed_origins = frozenset(allowed_origins)

    def route(self) -> Route:
        """The route, for the table."""
        return Route(
            method="GET",
            path="/realtime/ws",
            guard=Public(reason="the token travels in the first message, never in a URL or header"),
            handler=self.serve,
            summary="Live states, command results and events over a WebSocket",
            tag="realtime",
            errors=(ForbiddenError, RateLimitedError, UnavailableError),
            is_stream=True,
        )

    async def serve(self, request: Request) -> web.StreamResponse:
        """Runs one connection to its end."""
        origin = request.raw.headers.get("Origin")
        if self._allowed_origins and origin is not None and origin not in self._allowed_origins:
            raise ForbiddenError("this origin may not connect", hint="Open the page from the service's own address.")
        remote = network_of(request.remote)
        self._parts.hub.demand_room(remote)
        connection: web.WebSocketResponse[Any] = web.WebSocketResponse(
            timeout=CLOSE_REPLY_S,
            autoping=False,
            compress=False,
            max_msg_size=TRANSPORT_FRAME_BYTES,
            writer_limit=sys.maxsize,  # the viewer looks after the transport itself
            decode_text=False,
        )
        await connection.prepare(request.raw)
        transport = request.raw.transport
        if transport is None:  # gone during the handshake
            return connection
        bound_buffers(transport)
        conversation = Conversation(make_id(request.now), now=self._parts.clock.monotonic())
        try:
            await Viewer(connection, transport, self._parts, conversation, remote=remote).run()
        finally:
            # Nothing that matters is left to flush: after a close handshake all has been read, and a peer that
            # does not read would hold the socket for ever.
            transport.abort()
        return connection


def bound_buffers(transport: asyncio.Transport) -> None:
    """A small buffer below the outbox, so that slowness is noticed there, where states are conflated."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
