"""The path over Bluetooth: one characteristic of a serial bridge, lines cut into packets of 20 bytes.

Requests carry no number, so an answer that comes late could be taken for the answer to the next request of the same
name. For commands that matters: a late `C` of a start that was given up must not pass for the `C` of a stop. The line
therefore remembers whom it still owes an answer, and says silence rather than guess.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from core.domain.clock import Clock
from core.domain.errors import BluetoothError, LinkLostError
from core.platform.bluetooth import BluetoothPort, GattConnection
from integrations.ardumower.line import Answer
from integrations.ardumower.protocol import END, Damage, LineReader, Reply

SERVICE = "0000ffe0-0000-1000-8000-00805f9b34fb"
CHARACTERISTIC = "0000ffe1-0000-1000-8000-00805f9b34fb"
PACKET_BYTES = 20
"""What every bridge takes, whatever the MTU."""
_ACKNOWLEDGING = frozenset({"C"})
"""Replies that stand for something being done."""


class BleLine:
    """A Line over one GATT connection."""

    def __init__(self, connection: GattConnection, monotonic: Callable[[], float]) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self._reader = LineReader()
        self._asked: str | None = None
        self._answer: asyncio.Future[Reply | Damage] | None = None
        self._damage: Damage | None = None
        self._owed: list[tuple[str, float]] = []
        self._is_half_written = False
        self._may_be_heard = False
        self._with_response: bool | None = None
        self.strays = 0
        """Replies that nobody waited for."""

    async def start(self) -> None:
        """Begins to listen."""
        await self._connection.subscribe(CHARACTERISTIC, self._on_data)

    async def ask(self, request: bytes, name: str, deadline_s: float) -> Answer:
        if not self._connection.is_open:
            raise LinkLostError("the Bluetooth connection has ended")
        until = self._monotonic() + deadline_s
        answer: asyncio.Future[Reply | Damage] = asyncio.get_running_loop().create_future()
        self._asked, self._answer, self._damage = name, answer, None
        self._may_be_heard = False
        is_over = False
        try:
            async with asyncio.timeout(deadline_s):
                await self._write(request)
                reply = await answer
            is_over = True
            return reply
        except TimeoutError:
            is_over = self._monotonic() >= until
            return self._damage
        finally:
            self._asked = self._answer = None
            if not is_over and self._may_be_heard and name in _ACKNOWLEDGING:
                self._owed.append((name, until))

    async def wait_closed(self) -> None:
        await self._connection.wait_closed()

    async def _write(self, request: bytes) -> None:
        # What was cut off half way would swallow this request; ended, it is a line without a sound checksum.
        data = END + request if self._is_half_written else request
        self._is_half_written = True
        size = max(1, min(PACKET_BYTES, self._connection.mtu - 3))
        for at in range(0, len(data), size):
            self._may_be_heard = at + size >= len(data)
            await self._write_packet(data[at : at + size])
        self._is_half_written = False

    async def _write_packet(self, packet: bytes) -> None:
        """With a response where the bridge has that; the very first packet, of a greeting, finds it out."""
        if self._with_response is None:
            try:
                await self._connection.write(CHARACTERISTIC, packet, with_response=True)
                self._with_response = True
                return
            except BluetoothError:
                if not self._connection.is_open:
                    raise
                self._with_response = False
        await self._connection.write(CHARACTERISTIC, packet, with_response=self._with_response)

    def _on_data(self, data: bytes) -> None:
        for item in self._reader.feed(data):
            self._take(item)

    def _take(self, item: Reply | Damage) -> None:
        if isinstance(item, Damage):
            self._damage = item
            return
        is_late = self._pay(item.name)
        if item.name != self._asked or is_late or self._answer is None or self._answer.done():
            self.strays += 1
            return
        self._answer.set_result(item)

    def _pay(self, name: str) -> bool:
        """Whether the reply may be the late one of a request that was given up."""
        now = self._monotonic()
        self._owed = [debt for debt in self._owed if debt[1] > now]
        for debt in self._owed:
            if debt[0] == name:
                self._owed.remove(debt)
                return True
        return False


@asynccontextmanager
async def open_ble_line(
    port: BluetoothPort, address: str, clock: Clock, *, is_bonded: bool = False, deadline_s: float = 60.0
) -> AsyncIterator[BleLine]:
    """Connects for as long as the block lasts. Most mowers need no bond; BondLostError from one that does."""
    async with port.connect(address, bond="existing" if is_bonded else "none", deadline_s=deadline_s) as connection:
        yield await start_line(connection, clock)


async def start_line(connection: GattConnection, clock: Clock) -> BleLine:
    """A line over an open connection, listening."""
    line = BleLine(connection, clock.monotonic)
    await line.start()
    return line
