"""What an integration may ask of Bluetooth: who is near, and one connection at a time. It never sees bleak or BlueZ.

Addresses are upper case `AA:BB:CC:DD:EE:FF`; UUIDs lower case with dashes; RSSI in dBm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

Undo = Callable[[], None]


def never() -> bool:
    """Nothing is urgent."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertisement:
    """The newest of a peer, merged over its packets. `source` is the adapter or proxy that heard it best."""

    address: str
    name: str | None
    rssi_dbm: int
    service_uuids: tuple[str, ...] = ()
    manufacturer_data: Mapping[int, bytes] = field(default_factory=dict)
    service_data: Mapping[str, bytes] = field(default_factory=dict)
    is_connectable: bool = True
    source: str = ""
    seen_at: float = 0.0
    """Monotonic seconds."""


class GattConnection(Protocol):
    """One open connection. Every call has a deadline; all failures are BluetoothErrors or LinkLostError."""

    address: str

    @property
    def mtu(self) -> int:
        """Bytes of one ATT packet (payload is three less)."""
        ...

    @property
    def is_open(self) -> bool: ...

    async def read(self, characteristic: str) -> bytes: ...

    async def write(self, characteristic: str, data: bytes, *, with_response: bool = True) -> None:
        """`data` fits in one packet; longer values are the caller's to split."""
        ...

    async def subscribe(self, characteristic: str, on_data: Callable[[bytes], None]) -> None:
        """Notifications until the connection ends; `on_data` is synchronous and must not block."""
        ...

    async def wait_closed(self) -> None:
        """Returns when the connection has ended, whoever ended it."""
        ...


class BluetoothPort(Protocol):
    """The box's Bluetooth service as one config entry sees it."""

    def latest(self, address: str) -> Advertisement | None:
        """The newest advertisement of a peer; None when it has not been heard for a while."""
        ...

    def listen(self, on_advertisement: Callable[[Advertisement], None], *, address: str | None = None) -> Undo:
        """Calls back synchronously with each advertisement (of one peer); returns the undo."""
        ...

    def connect(
        self,
        address: str,
        *,
        bond: Literal["none", "existing", "pair"] = "none",
        passkey: int | None = None,
        deadline_s: float = 60.0,
        on_wanted: Callable[[], None] | None = None,
        is_urgent: Callable[[], bool] = never,
    ) -> AbstractAsyncContextManager[GattConnection]:
        """A connection over the best path (strongest adapter or proxy with a free slot), one attempt at a time per
        adapter. `existing`: only with a bond that this box has; `pair`: bond now, a person has just asked for it,
        with the `passkey` that they read off the mower if it shows one. Leaving the block disconnects.

        An adapter holds few connections. `on_wanted` is called (synchronously, once) when another mower waits for
        the slot of this connection: a holder that can do without it for a while leaves the block. `is_urgent` is
        asked while this one waits: an emergency stop goes before all that wait, and every holder is asked for it."""
        ...

    async def forget(self, address: str) -> None:
        """Drops the bond with a peer on every adapter."""
        ...


class EntryPort(BluetoothPort, Protocol):
    """A port of one config entry."""

    def close(self) -> None:
        """The entry is unloaded: its listeners end, and nothing can be asked any more."""
        ...


MakePort = Callable[[], EntryPort]
"""A new port for an entry that is being set up."""
