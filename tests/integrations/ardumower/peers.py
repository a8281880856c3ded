"""Emulated mowers where a test can reach them: over real HTTP on loopback, and behind a GATT connection in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from aiohttp import web

from core.domain.clock import SystemClock
from core.domain.errors import LinkLostError, OutOfRangeError, PeerBusyError
from core.domain.ids import EntryId
from core.platform.bluetooth import Advertisement
from core.platform.emulation import EmulatedPeer
from core.platform.integration import Entry, IntegrationContext
from integrations.ardumower.emulated_peer import SunrayPeer
from integrations.ardumower.emulator import SunrayBrain

ADDRESS = "C0:11:22:33:44:55"


class HttpMower:
    """Serves a brain as the firmware does: an empty body to what it does not understand."""

    def __init__(self, brain: SunrayBrain) -> None:
        self.brain = brain
        self.url = ""
        self.requests = 0
        self.drop_on: str | None = None
        """Cuts the connection after obeying a request that begins like this."""
        self.status = 200
        self.body: bytes | None = None
        """Answered instead of what the mower says."""
        self._released = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        line = (await request.read()).strip(b"\r\n")
        if self.body is not None or self.status != 200:
            return web.Response(status=self.status, body=self.body or b"", headers={"Location": self.url})
        count = len(self.brain.heard)
        reply = self.brain.hear(line, SystemClock().monotonic())
        if self.drop_on is not None and any(body.startswith(self.drop_on) for body in self.brain.heard[count:]):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if self.brain.faults.is_silent:
            with suppress(TimeoutError):
                async with asyncio.timeout(30):
                    await self._released.wait()
        if self.brain.faults.reply_delay_s > 0:
            await asyncio.sleep(self.brain.faults.reply_delay_s)
        return web.Response(body=reply or b"", content_type="text/html")

    def release(self) -> None:
        self._released.set()


@asynccontextmanager
async def serve(brain: SunrayBrain) -> AsyncIterator[HttpMower]:
    """The mower at `url` until the block ends."""
    mower = HttpMower(brain)
    application = web.Application()
    application.router.add_post("/", mower.handle)
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    mower.url = f"http://127.0.0.1:{port}/"
    try:
        yield mower
    finally:
        mower.release()
        await runner.cleanup()


class MemoryConnection:
    """A GattConnection and, seen from the mower, its MowerSession."""

    def __init__(self, peer: EmulatedPeer, *, takes_responses: bool = True) -> None:
        self.address = peer.address
        self.central = "C0:00:00:00:00:01"
        self.mtu = peer.mtu
        self.is_open = True
        self.is_encrypted = self.is_bonded = False
        self.writes: list[bytes] = []
        self._peer = peer
        self._takes_responses = takes_responses
        self._on_data: Callable[[bytes], None] | None = None
        self._closed = asyncio.Event()
        self.gate = asyncio.Event()
        """Clear: a write hangs in the radio."""
        self.gate.set()

    async def read(self, characteristic: str) -> bytes:
        return self._peer.read(self, characteristic)

    async def write(self, characteristic: str, data: bytes, *, with_response: bool = True) -> None:
        if not self.is_open:
            raise LinkLostError
        if with_response and not self._takes_responses:
            raise OutOfRangeError("write not permitted")
        assert len(data) <= self.mtu - 3
        await self.gate.wait()
        await asyncio.sleep(0)
        self.writes.append(data)
        self._peer.write(self, characteristic, data)

    async def subscribe(self, characteristic: str, on_data: Callable[[bytes], None]) -> None:
        self._on_data = on_data
        self._peer.subscribed(self, characteristic, True)

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def notify(self, characteristic: str, data: bytes) -> None:
        if len(data) > self.mtu - 3:
            raise ValueError
        if self._on_data is not None and self.is_open:
            asyncio.get_running_loop().call_soon(self._on_data, data)

    def disconnect(self, reason: int = 0x13) -> None:
        if self.is_open:
            self.is_open = False
            self._closed.set()
            self._peer.closed(self)


class MemoryPort:
    """A BluetoothPort around one emulated peer, with time of the loop."""

    def __init__(self, peer: SunrayPeer, *, takes_responses: bool = True) -> None:
        self.peer = peer
        self.takes_responses = takes_responses
        self.connections: list[MemoryConnection] = []
        self.is_near = True
        peer.host = self

    def now(self) -> float:
        return SystemClock().monotonic()

    def later(self, delay_s: float, action: Callable[[], None]) -> Callable[[], None]:
        return asyncio.get_running_loop().call_later(delay_s, action).cancel

    def refresh(self) -> None:
        pass

    def latest(self, address: str) -> Advertisement | None:
        if not self.is_near:
            return None
        return Advertisement(address=self.peer.address, name=self.peer.name, rssi_dbm=-61)

    def listen(self, on_advertisement, *, address=None):
        return lambda: None

    @asynccontextmanager
    async def connect(self, address, *, bond="none", deadline_s=60.0):
        if not self.is_near or address != self.peer.address:
            raise OutOfRangeError
        if any(connection.is_open for connection in self.connections):
            raise PeerBusyError
        connection = MemoryConnection(self.peer, takes_responses=self.takes_responses)
        self.connections.append(connection)
        self.peer.opened(connection)
        try:
            yield connection
        finally:
            connection.disconnect()

    async def forget(self, address: str) -> None:
        pass


def lan_entry(url: str, **options: object) -> Entry:
    return Entry(
        entry_id=EntryId("e1"),
        domain="ardumower",
        unique_id="0a1b2c3d4e5f",
        title="Ardumower",
        data={"link": "lan", "url": url, "name": "Rob", "model": "Ardumower Sunray", "robot_id": "0a1b2c3d4e5f"},
        options=options,
    )


def ble_entry(**options: object) -> Entry:
    return Entry(
        entry_id=EntryId("e2"),
        domain="ardumower",
        unique_id="ble-c01122334455",
        title="Ardumower",
        data={"link": "ble", "address": ADDRESS, "name": "Rob", "robot_id": "0a1b2c3d4e5f"},
        options=options,
    )


def with_password(context: IntegrationContext, password: str = "123456") -> IntegrationContext:
    context.secrets.put("password", password)
    return context


def with_bluetooth(context: IntegrationContext, port: MemoryPort) -> IntegrationContext:
    return replace(with_password(context), bluetooth=port)
