"""One open connection over bleak."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
from bleak import BleakClient
from bleak.exc import BleakError

from core.domain.errors import IntegrationError, LinkLostError
from edge_agent.bluetooth.failures import Attempt, Bond, translate

log = structlog.get_logger(__name__)

CALL_DEADLINE_S = 15.0
"""One GATT call. A mower at the edge of reach needs seconds for one answer; ATT itself gives up after 30."""


class BleakConnection:
    """Implements `core.platform.bluetooth.GattConnection`."""

    def __init__(
        self,
        address: str,
        client: BleakClient,
        *,
        bond: Bond,
        closed: asyncio.Event,
        on_failure: Callable[[IntegrationError], None],
    ) -> None:
        self.address = address
        self._client = client
        self.bond: Bond = bond
        self._closed = closed
        self._broken = False
        self._on_failure = on_failure
        self.was_useful = False
        """Whether any call has succeeded."""
        self.has_failed = False
        """Whether any call was refused."""

    @property
    def mtu(self) -> int:
        """BlueZ tells bleak late or never, but knows for each characteristic what one write takes."""
        services = self._client.services if self.is_open else None
        if services is None:
            return 23
        sizes = [c.max_write_without_response_size for c in services.characteristics.values()]
        with warnings.catch_warnings(action="ignore"):  # bleak warns that BlueZ has not told it
            told = self._client.mtu_size
        return max([told, *(size + 3 for size in sizes)])

    @property
    def is_open(self) -> bool:
        return not self._closed.is_set() and self._client.is_connected

    async def read(self, characteristic: str) -> bytes:
        async with self._call():
            return bytes(await self._client.read_gatt_char(characteristic))

    async def write(self, characteristic: str, data: bytes, *, with_response: bool = True) -> None:
        async with self._call():
            room = self.mtu - 3
            if len(data) > room:
                raise ValueError(f"{len(data)} bytes do not fit in one packet of {room}")
            await self._client.write_gatt_char(characteristic, data, response=with_response)

    async def subscribe(self, characteristic: str, on_data: Callable[[bytes], None]) -> None:
        def received(_characteristic: object, data: bytearray) -> None:
            if self._broken:
                return
            try:
                on_data(bytes(data))
            except Exception:  # an integration's callback: its own connection ends, nobody else's
                log.exception("notification handler failed", address=self.address)
                self._broken = True
                self._closed.set()

        async with self._call():
            await self._client.start_notify(characteristic, received)

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def break_off(self) -> None:
        """From now on it counts as closed; whoever opened it disconnects."""
        self._closed.set()

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        if not self.is_open:
            raise LinkLostError(f"{self.address}: not connected")
        attempt = Attempt(address=self.address, bond=self.bond, stage="talk")
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                yield
        except (BleakError, TimeoutError, EOFError, BrokenPipeError) as err:
            if not self.is_open:
                raise LinkLostError(f"{self.address}: the connection ended") from err
            failure = translate(err, attempt)
            self.has_failed = True
            self._on_failure(failure)
            raise failure from err
        self.was_useful = True
