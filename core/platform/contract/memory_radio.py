"""A Bluetooth port and one emulated mower, joined by memory: bytes as on the air, and no radio in between.

For contract worlds and tests. What goes wrong on the air is set from outside and raised as the box's own service does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from core.domain.errors import (
    AdapterOffError,
    BluetoothError,
    BondLostError,
    LinkLostError,
    NoFreeSlotError,
    NotInPairingModeError,
    OutOfRangeError,
    PairingRefusedError,
    PeerBusyError,
)
from core.platform.bluetooth import Advertisement, Undo, never
from core.platform.contract.fault import Fault
from core.platform.emulation import REMOTE_USER_ENDED, AttRefusedError, EmulatedPeer

RSSI_DBM = -61
_ADVERTISING_S = 0.02
_FAILURES: dict[Fault, type[BluetoothError]] = {
    Fault.SLOT_TAKEN: NoFreeSlotError,
    Fault.PHONE_CONNECTED: PeerBusyError,
    Fault.ADAPTER_OFF: AdapterOffError,
}


class MemorySession:
    """One connection, seen from both ends: a MowerSession and a GattConnection."""

    central = "F0:00:00:00:00:01"

    def __init__(self, peer: EmulatedPeer, address: str, *, is_bonded: bool) -> None:
        self.peer = peer
        self.address = address
        self.is_encrypted = self.is_bonded = is_bonded
        self._listeners: dict[str, list[Callable[[bytes], None]]] = {}
        self._closed = asyncio.Event()

    # Both

    @property
    def mtu(self) -> int:
        return self.peer.mtu

    @property
    def is_open(self) -> bool:
        return not self._closed.is_set()

    def end(self) -> None:
        """The connection is gone, for whatever reason."""
        if self.is_open:
            self._closed.set()
            self.peer.closed(self)

    # The mower's end

    def notify(self, characteristic: str, data: bytes) -> None:
        if len(data) > self.mtu - 3:
            raise ValueError(f"{len(data)} bytes do not fit into an MTU of {self.mtu}")
        for listener in self._listeners.get(characteristic, ()):
            asyncio.get_running_loop().call_soon(self._deliver, listener, data)

    def _deliver(self, listener: Callable[[bytes], None], data: bytes) -> None:
        if self.is_open:
            listener(data)

    def disconnect(self, reason: int = REMOTE_USER_ENDED) -> None:  # noqa: ARG002  (the port names it)
        asyncio.get_running_loop().call_soon(self.end)

    # The box's end

    async def read(self, characteristic: str) -> bytes:
        self._check(characteristic)
        try:
            return self.peer.read(self, characteristic)
        except AttRefusedError as err:
            raise BluetoothError(f"the mower refuses: {err.code.name}") from err

    async def write(self, characteristic: str, data: bytes, *, with_response: bool = True) -> None:
        self._check(characteristic)
        if len(data) > self.mtu - 3:
            raise ValueError(f"{len(data)} bytes do not fit into an MTU of {self.mtu}")
        try:
            self.peer.write(self, characteristic, data)
        except AttRefusedError as err:
            if with_response:
                raise BluetoothError(f"the mower refuses: {err.code.name}") from err
        await asyncio.sleep(0)

    async def subscribe(self, characteristic: str, on_data: Callable[[bytes], None]) -> None:
        self._check(characteristic)
        self._listeners.setdefault(characteristic, []).append(on_data)
        self.peer.subscribed(self, characteristic, is_on=True)

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
        self.is_pairing_closed = False
        """It takes no new bond, whatever the mower's own policy says."""
        self.is_in_range = True
        self.failure: type[BluetoothError] | None = None
        """Every attempt to connect ends with it."""
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
        def due() -> None:
            self._timers.discard(timer)
            action()

        timer = asyncio.get_running_loop().call_later(delay_s, due)
        self._timers.add(timer)

        def undo() -> None:
            self._timers.discard(timer)
            timer.cancel()

        return undo

    def refresh(self) -> None:
        """What is advertised is read each time anyway."""

    def close(self) -> None:
        """Nothing happens by itself any more."""
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
            rssi_dbm=RSSI_DBM,
            service_uuids=said.service_uuids,
            manufacturer_data=said.manufacturer_data,
        )

    def listen(self, on_advertisement: Callable[[Advertisement], None], *, address: str | None = None) -> Undo:
        def tell() -> None:
            heard = self.latest(self.peer.address)
            if heard is not None and address in (None, heard.address):
                on_advertisement(heard)
            timer[0] = asyncio.get_running_loop().call_later(_ADVERTISING_S, tell)

        timer: list[asyncio.Handle] = [asyncio.get_running_loop().call_soon(tell)]
        return lambda: timer[0].cancel()  # noqa: PLW0108  (each time another timer)

    @asynccontextmanager
    async def connect(
        self,
        address: str,
        *,
        bond: Literal["none", "existing", "pair"] = "none",
        passkey: int | None = None,
        deadline_s: float = 60.0,  # noqa: ARG002  (the port names it)
        on_wanted: Callable[[], None] | None = None,  # noqa: ARG002
        is_urgent: Callable[[], bool] = never,  # noqa: ARG002
    ) -> AsyncIterator[MemorySession]:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        if address != self.peer.address or not self.is_in_range:
            raise OutOfRangeError(f"{address} is not heard")
        if bond == "pair":
            if self.is_pairing_closed or not self.peer.pairing().is_open:
                raise NotInPairingModeError("the mower does not pair now")
            self.passkeys.append(passkey)
            if self.peer.pairing().passkey not in (None, passkey):
                raise PairingRefusedError("the passkey was wrong")
            self.is_bonded = True
        if bond == "existing" and not self.is_bonded:
            raise BondLostError("the mower does not know this box")
        session = MemorySession(self.peer, address, is_bonded=bond != "none" and self.is_bonded)
        self.connections += 1
        self.open.add(session)
        self.peer.opened(session)
        try:
            yield session
        finally:
            self.open.discard(session)
            session.end()

    async def forget(self, address: str) -> None:  # noqa: ARG002  (the port names it)
        self.is_bonded = False

    # What happens to it

    def cut(self) -> None:
        """Every connection ends, at once."""
        for session in list(self.open):
            session.end()

    def reboot(self) -> None:
        """The mower loses its power and is back."""
        self.cut()
        self.peer.rebooted()

    def spoil(self, fault: Fault) -> bool:
        """Begins a fault of the air, the adapter or the bond; False when it is none of these but the mower's."""
        match fault:
            case Fault.NOT_PAIRABLE | Fault.BOND_LOST:
                self.is_bonded = False
                self.is_pairing_closed = fault is Fault.NOT_PAIRABLE
            case Fault.WEAK_SIGNAL:
                self.is_in_range = False
            case Fault.SLOT_TAKEN | Fault.PHONE_CONNECTED | Fault.ADAPTER_OFF:
                self.failure = _FAILURES[fault]
            case Fault.REBOOT:
                self.reboot()
            case _:
                return False
        self.cut()
        return True

    def heal(self) -> None:
        """All is well with air, adapter and bond."""
        self.is_bonded, self.is_pairing_closed, self.is_in_range, self.failure = True, False, True, None
