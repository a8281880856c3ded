"""Emulated mowers where a test can reach them: over real HTTP on loopback, and behind a GATT connection in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from core.domain.clock import SystemClock
from core.domain.errors import LinkLostError, OutOfRangeError, PeerBusyError
from core.domain.ids import EntryId
from core.domain.mower import LinkKind
from core.platform.bluetooth import Advertisement
from core.platform.emulation import EmulatedPeer
from core.platform.integration import Entry, IntegrationContext
from integrations.ardumower.emulator import SunrayPeer
from integrations.ardumower.exchange import Patience
from integrations.ardumower.frame import LocalFrame
from integrations.ardumower.line import OpenLine
from integrations.ardumower.link import ArdumowerLink, Mower, Rhythm
from integrations.ardumower.mapping import Garden
from integrations.ardumower.notebook import Notebook
from tests.contract.integration_contract import Running as ContractRunning

ADDRESS = "C0:11:22:33:44:55"


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
        self.hang_after: int | None = None
        """After so many more packets a write hangs in the radio."""

    async def read(self, characteristic: str) -> bytes:
        return self._peer.read(self, characteristic)

    async def write(self, characteristic: str, data: bytes, *, with_response: bool = True) -> None:
        if not self.is_open:
            raise LinkLostError
        if with_response and not self._takes_responses:
            raise OutOfRangeError("write not permitted")
        assert len(data) <= self.mtu - 3
        if self.hang_after is not None:
            self.hang_after -= 1
            if self.hang_after < 0:
                await asyncio.Event().wait()
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


QUICK_RHYTHM = Rhythm(
    moving_s=0.05, standing_s=0.05, docked_s=0.05, after_order_s=0.02, after_silence_s=0.02, statistics_s=0.2,
    obstacles_s=0.1,
)  # fmt: skip
QUICK_PATIENCE = Patience(greeting_s=2.0, question_s=0.6, order_s=0.6, drive_s=0.4)


def make_link(
    context: IntegrationContext,
    open_line: OpenLine,
    *,
    link: LinkKind = LinkKind.LAN,
    password: int = 123456,
    robot_id: str | None = "0a1b2c3d4e5f",
    notebook: Notebook | None = None,
    rhythm: Rhythm = QUICK_RHYTHM,
    patience: Patience = QUICK_PATIENCE,
) -> ArdumowerLink:
    """A link with little patience, so that what goes wrong does so soon."""
    mower = Mower(
        identities=("under-test",),
        robot_id=robot_id,
        password=password,
        garden=Garden(link=link, frame=LocalFrame(), patches=(), cells=7),
        notebook=notebook or Notebook(),
        open_line=open_line,
        rssi_dbm=lambda: None,
        rhythm=rhythm,
        patience=patience,
    )
    return ArdumowerLink(mower, context)


@asynccontextmanager
async def running(link: ArdumowerLink, first_s: float = 5.0) -> AsyncIterator[Running]:
    """The link with its first state there; ended with the block."""
    found = Running(link)
    task = asyncio.get_running_loop().create_task(link.run(found.report), name="link under test")
    found.task = task
    try:
        waiting = asyncio.get_running_loop().create_task(found.until(lambda _: True, first_s, "a first state"))
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await task
        await waiting
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Running(ContractRunning):
    """Also knows the task of the link."""

    task: asyncio.Task[None]

    async def ended(self, timeout_s: float = 5.0) -> BaseException | None:
        """How the link ended by itself."""
        done, _ = await asyncio.wait({self.task}, timeout=timeout_s)
        assert done, "the link goes on"
        return self.task.exception()


async def wait_for(is_so: Callable[[], bool], what: str, timeout_s: float = 5.0) -> None:
    """Looks again and again, for what no callback tells."""
    try:
        async with asyncio.timeout(timeout_s):
            while not is_so():
                await asyncio.sleep(0.005)
    except TimeoutError:
        pytest.fail(f"{what}: not within {timeout_s:g} s")
