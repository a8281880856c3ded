"""A Bluetooth port and one emulated mower, joined by memory: bytes as on the air, and no radio in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from core.domain.errors import BondLostError, LinkLostError, NotInPairingModeError, OutOfRangeError, PairingRefusedError
from core.platform.bluetooth import Advertisement, Undo, never
from core.platform.emulation import REMOTE_USER_ENDED, EmulatedPeer


class MemorySession:
    """One connection, seen from both ends: a MowerSession and a GattConnection."""

    central = "F0:00:00:00:00:01"

    def __init__(self, peer: EmulatedPeer, address: str, *, is_bonded: bool) -> None:
        self.peer = peer
        self.address = address
        self.is_encrypted = self.is_bonded = is_bonded
        self.listeners: list[Callable[[bytes], None]] = []
        self._closed = asyncio.Event()
        self._notes: list[bytes] = []

    # Both

    @property
    def mtu(self) -> int:
        return self.peer.mtu

    @property
    def is_open(self) -> bool:
        return not self._closed.is_set()

    def end(self) -> None:
        if self.is_open:
            self._closed.set()
            self.peer.closed(self)

    # The mower's end

    def notify(self, characteristic: str, data: bytes) -> None:
        assert len(data) <= self.mtu - 3
        for listener in self.listeners:
            asyncio.get_running_loop().call_soon(listener, data)

    def disconnect(self, reason: int = REMOTE_USER_ENDED) -> None:
        asyncio.get_running_loop().call_soon(self.end)

    # The box's end

    async def read(self, characteristic: str) -> bytes:
        self._check(characteristic)
        return self.peer.read(self, characteristic)

    async def write(self, characteristic: str, data: bytes, *, with_response: bool = True) -> None:
        self._check(characteristic)
        assert len(data) <= self.mtu - 3
        self.peer.write(self, characteristic, data)
        await asyncio.sleep(0)

    async def subscribe(self, characteristic: str, on_data: Callable[[bytes], None]) -> None:
        self._check(characteristic)
        self.listeners.append(on_data)
        self.peer.subscribed(self, characteristic, True)

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def _check(self, characteristic: str) -> None:
        if not self.is_open:
            raise LinkLostError("the connection ended")
        found = [one for service in self.peer.services for one in service.characteristics if one.uuid == characteristic]
        if not self.is_bonded and any(one.security != "open" for one in found):
            raise BondLostError("the mower wants a bond")


class MemoryRadio:
    """A BluetoothPort, and the MowerHost of its one mower."""

    def __init__(self, peer: EmulatedPeer, *, is_bonded: bool = True) -> None:
        self.peer = peer
        peer.host = self
        self.is_bonded = is_bonded
        self.is_in_range = True
        self.connections = 0
        self.passkeys: list[int | None] = []
        """Of each attempt to pair."""
        self.open: set[MemorySession] = set()
        self.hurry = 0.0
        """Added to the mower's time."""
        self._timers: set[asyncio.TimerHandle] = set()

    # MowerHost

    def now(self) -> float:
        return asyncio.get_running_loop().time() + self.hurry

    def later(self, delay_s: float, action: Callable[[], None]) -> Undo:
        timer = asyncio.get_running_loop().call_later(delay_s, action)
        self._timers.add(timer)
        return timer.cancel

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()

    # BluetoothPort

    def latest(self, address: str) -> Advertisement | None:
        if address != self.peer.address or not self.is_in_range:
            return None
        said = self.peer.advertising()
        return Advertisement(
            address=address,
            name=said.name,
            rssi_dbm=-61,
            service_uuids=said.service_uuids,
            manufacturer_data=said.manufacturer_data,
        )

    def listen(self, on_advertisement: Callable[[Advertisement], None], *, address: str | None = None) -> Undo:
        def tell() -> None:
            heard = self.latest(self.peer.address)
            if heard is not None and address in (None, heard.address):
                on_advertisement(heard)
            timer[0] = asyncio.get_running_loop().call_later(0.02, tell)

        timer = [asyncio.get_running_loop().call_soon(tell)]
        return lambda: timer[0].cancel()

    @asynccontextmanager
    async def connect(
        self,
        address: str,
        *,
        bond: Literal["none", "existing", "pair"] = "none",
        passkey: int | None = None,
        deadline_s: float = 60.0,
        on_wanted: Callable[[], None] | None = None,
        is_urgent: Callable[[], bool] = never,
    ) -> AsyncIterator[MemorySession]:
        if address != self.peer.address or not self.is_in_range:
            raise OutOfRangeError(f"{address} is not heard")
        if bond == "pair":
            if not self.peer.pairing().is_open:
                raise NotInPairingModeError("the mower does not pair now")
            self.passkeys.append(passkey)
            if self.peer.pairing().passkey not in (None, passkey):
                raise PairingRefusedError("the passkey was wrong")
            self.is_bonded = True
        if bond == "existing" and not self.is_bonded:
            raise BondLostError("the mower does not know this box")
        await asyncio.sleep(0)
        session = MemorySession(self.peer, address, is_bonded=bond != "none" and self.is_bonded)
        self.connections += 1
        self.open.add(session)
        self.peer.opened(session)
        try:
            yield session
        finally:
            self.open.discard(session)
            session.end()

    async def forget(self, address: str) -> None:
        self.is_bonded = False

    def cut(self) -> None:
        for session in list(self.open):
            session.end()
