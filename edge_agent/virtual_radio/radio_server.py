"""Lets other processes put an adapter on a virtual radio: one controller per connection, HCI over a stream.

Stock: bumble's own servers take one client, and a dead client's controller goes on advertising.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog
from bumble.transport.common import StreamPacketSink, StreamPacketSource

from edge_agent.virtual_radio.radio_controller import RadioController
from edge_agent.virtual_radio.radio_link import RadioLink
from edge_agent.virtual_radio.radio_spec import RadioSpec

log = structlog.get_logger(__name__)

CLIENTS_MAX = 32


class _Client(StreamPacketSource):
    """One process on the other end; its station is named `remote-N`, the lowest N that is free."""

    def __init__(self, server: RadioServer) -> None:
        super().__init__()
        self._server = server
        self.transport: asyncio.WriteTransport | None = None
        self.controller: RadioController | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        if len(self._server.clients) >= CLIENTS_MAX:
            transport.abort()
            return
        self.transport = transport
        name = self._server.free_name()
        sink = StreamPacketSink(transport)
        self.controller = RadioController(name, link=self._server.link, host_source=self, host_sink=sink)
        self._server.clients[name] = self
        log.info("radio client came", station=name)

    def connection_lost(self, _exc: Exception | None) -> None:
        if self.controller is None:
            return
        self.on_transport_lost()
        self._server.link.remove_controller(self.controller)
        self._server.clients.pop(self.controller.name, None)
        log.info("radio client is gone", station=self.controller.name)


class RadioServer:
    """`async with RadioServer(air.link, spec) as server: server.spec` (with the port that was taken)."""

    def __init__(self, link: RadioLink, spec: RadioSpec) -> None:
        self.link = link
        self.spec = spec
        self.clients: dict[str, _Client] = {}
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self.spec.path is not None:
            await asyncio.to_thread(_remove_stale, self.spec.path)
            self._server = await loop.create_unix_server(lambda: _Client(self), self.spec.path)
            await asyncio.to_thread(os.chmod, self.spec.path, 0o600)
        else:
            self._server = await loop.create_server(lambda: _Client(self), self.spec.host, self.spec.port)
            port = self._server.sockets[0].getsockname()[1]
            self.spec = RadioSpec(host=self.spec.host, port=port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for client in list(self.clients.values()):
            if client.transport is not None:
                client.transport.abort()
        await self._server.wait_closed()
        # connection_lost is called by the loop, not by abort
        await asyncio.sleep(0)
        if self.spec.path is not None:
            await asyncio.to_thread(_remove_stale, self.spec.path)

    def free_name(self) -> str:
        """The name of the next station."""
        return next(f"remote-{n}" for n in range(1, CLIENTS_MAX + 2) if f"remote-{n}" not in self.clients)


def _remove_stale(path: str) -> None:
    """Only ever a socket: a mistyped path must not cost a file."""
    file = Path(path)
    with contextlib.suppress(FileNotFoundError):
        if file.is_socket():
            file.unlink()
