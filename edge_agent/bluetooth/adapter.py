"""One Bluetooth adapter as the service uses it: bleak's two classes, bound to it, and how much it can carry."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from bleak import BleakClient, BleakScanner
from bleak.backends.client import BaseBleakClient
from bleak.backends.device import BLEDevice
from bleak.backends.scanner import AdvertisementData, BaseBleakScanner

SLOTS = 3
"""What the on-board radio of a Raspberry Pi carries without trouble; more is for dongles and proxies."""
OnHeard = Callable[[BLEDevice, AdvertisementData], None]


class PairingAgent(Protocol):
    """Answers the questions of pairing, and only for the one peer that a person is pairing now."""

    def expecting(self, address: str, passkey: int | None) -> AbstractAsyncContextManager[None]:
        """Inside, pairing with this peer is agreed to, with the passkey that it shows if it shows one."""
        ...


@dataclass(slots=True)
class Aborts:
    """How often a connection broke off while it came up."""

    count: int = 0
    is_over: bool = False
    """It is up (or given up): what ends from now on was not broken off."""


class AdapterCare(Protocol):
    """What the system's own Bluetooth service needs beside bleak, on one adapter. Nothing here raises: what cannot be
    done is logged, and the next attempt tells."""

    def on_reset(self, callback: Callable[[], None]) -> None:
        """Calls back when that service was started anew: scans, handles and connections of before are dead."""
        ...

    async def close_stale(self, address: str) -> None:
        """Ends a connection that was left from a former life of the box."""
        ...

    async def clear_attempt(self, address: str) -> None:
        """Ends an attempt that the system is still busy with; a bond is kept. Bounded."""
        ...

    async def is_bonded(self, address: str) -> bool: ...

    async def remove(self, address: str) -> None:
        """Forgets a peer: its bond, its services, its handle."""
        ...

    def watch(self, address: str) -> AbstractContextManager[Aborts]:
        """Counts inside."""
        ...

    async def connections(self) -> int | None:
        """All connections of the adapter, whoever has made them; None is unknown."""
        ...

    async def power_cycle(self) -> bool:
        """Off and on again; whether it is on. One that is off stays off."""
        ...

    async def uses_wifi_24_ghz(self) -> bool | None:
        """Whether this machine uses Wi-Fi on 2.4 GHz now; None is unknown."""
        ...


class SlotMeter(Protocol):
    """An adapter that says itself how many connections it can carry: a proxy, which others may be using too."""

    @property
    def limit(self) -> int:
        """Connections at the same time."""
        ...

    def left(self, ours: Collection[str]) -> int:
        """How many more fit, beside the addresses in `ours`, which are taken by this box or about to be."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BluetoothAdapter:
    """A real adapter has no backend classes: bleak's own are taken, with `name` as BlueZ knows it (hci0).

    `name` stays the same for as long as the adapter holds its bonds; `title` is what people call it.
    `scanning`: active by default, because many mowers put their name in the scan response and BlueZ offers
    passive scans only as an experiment.
    """

    name: str
    title: str | None = None
    slots: int = SLOTS
    meter: SlotMeter | None = None
    """Says how many slots there are, in place of `slots`."""
    can_connect: bool = True
    """False: it hears only. Never a path to a mower."""
    can_pair: bool = True
    takes_passkey: bool = True
    """Whether a passkey can be given while pairing."""
    forget_services: Callable[[str], None] | None = None
    """Drops what it remembers of a peer's services, so that the next connection asks the peer itself."""
    is_bond_resumed_on_demand: bool = False
    """The link to a bonded peer is encrypted only when it is told to; `pair` does that with the bond that is there."""
    client: type[BaseBleakClient] | None = None
    scanner: type[BaseBleakScanner] | None = None
    scanning: Literal["active", "passive"] = "active"
    agent: PairingAgent | None = None
    care: AdapterCare | None = None

    def make_scanner(self, on_heard: OnHeard) -> BleakScanner:
        """A scanner that is not started yet."""
        if self.scanner is not None:
            return BleakScanner(on_heard, scanning_mode=self.scanning, backend=self.scanner)
        return BleakScanner(on_heard, scanning_mode=self.scanning, bluez={"adapter": self.name})

    def make_client(self, device: BLEDevice, on_closed: Callable[[], None], timeout_s: float) -> BleakClient:
        """A client that is not connected yet; `on_closed` is called once per connection."""

        def closed(_client: BleakClient) -> None:
            on_closed()

        options: dict[str, Any] = {"disconnected_callback": closed, "timeout": timeout_s}
        if self.client is not None:
            return BleakClient(device, backend=self.client, **options)
        return BleakClient(device, bluez={"adapter": self.name}, **options)
