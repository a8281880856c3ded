"""The Bluetooth service of the box: adapters, who is near, and connections over the best path.

async with BluetoothService(adapters, clock=clock, bonds=bonds) as bluetooth:
    port = bluetooth.port()        # what an integration gets
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Self

import structlog
from bleak.backends.device import BLEDevice
from bleak.backends.scanner import AdvertisementData

from core.domain.clock import Clock
from core.domain.errors import BluetoothError, ConflictError, PeerBusyError
from core.platform.bluetooth import Advertisement, GattConnection, Undo, never
from edge_agent.bluetooth.adapter import BluetoothAdapter
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.connection import BleakConnection
from edge_agent.bluetooth.connector import Connector, Opened
from edge_agent.bluetooth.failures import Bond
from edge_agent.bluetooth.port import EntryBluetooth
from edge_agent.bluetooth.repairs import STUCK_REST_S
from edge_agent.bluetooth.sightings import Path, Sightings
from edge_agent.bluetooth.slots import Asked
from edge_agent.bluetooth.station import Station, StationStatus

log = structlog.get_logger(__name__)

EXPIRY_S = 5.0
RELEASE_MINUTES_MAX = 24 * 60

OnAdvertisement = Callable[[Advertisement], None]


class BluetoothService:
    """Implements `core.platform.bluetooth.BluetoothPort` for the box itself; entries get a `port` of their own."""

    def __init__(
        self, adapters: Sequence[BluetoothAdapter], *, clock: Clock, bonds: BondBook, stuck_rest_s: float = STUCK_REST_S
    ) -> None:
        self._clock = clock
        self._bonds = bonds
        self._sightings = Sightings()
        self._stations = {a.name: Station(a, self._heard, self._down) for a in adapters}
        for station in self._stations.values():
            if station.adapter.care is not None:
                station.adapter.care.on_reset(partial(self._reset, station))
        self._listeners: dict[object, tuple[str | None, OnAdvertisement]] = {}
        self._gone_listeners: dict[object, Callable[[str], None]] = {}
        self._connector = Connector(
            self._stations, self._sightings, bonds, clock, self._check_released, stuck_rest_s=stuck_rest_s
        )
        self._locks: dict[str, asyncio.Lock] = {}
        self._open: dict[str, Opened] = {}
        self._released: dict[str | None, float] = {}
        self._group = asyncio.TaskGroup()
        self._scans: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._bonds.load)
        await self._group.__aenter__()
        for station in self._stations.values():
            self._start(station)
        self._tasks.append(self._group.create_task(self._expire(), name="bluetooth expiry"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        for opened in list(self._open.values()):
            await self._connector.close(opened)
        for task in (*self._scans.values(), *self._tasks):
            task.cancel()
        # The group learns of a cancellation, which may be its own doing; other failures are not its to wrap.
        is_cancelled = isinstance(err, asyncio.CancelledError)
        await self._group.__aexit__(*((kind, err, trace) if is_cancelled else (None, None, None)))

    def add_adapter(self, adapter: BluetoothAdapter) -> None:
        """One more, from now on. ConflictError when one of that name is here."""
        if adapter.name in self._stations:
            raise ConflictError(f"{adapter.name} is here already")
        station = self._stations[adapter.name] = Station(adapter, self._heard, self._down)
        self._start(station)

    async def remove_adapter(self, name: str) -> None:
        """It is gone, with all that it heard and every handle that belonged to it. Its connections have ended or
        end by themselves; whoever held one looks for another path. Idempotent."""
        scan = self._scans.pop(name, None)
        if scan is None:
            return
        del self._stations[name]
        self._sightings.drop_source(name)
        self._connector.wake()
        scan.cancel()
        await asyncio.wait({scan})

    def slots_changed(self) -> None:
        """An adapter says that it has another number of connections free."""
        self._connector.wake()

    def title_of(self, source: str) -> str:
        """What people call an adapter."""
        station = self._stations.get(source)
        return source if station is None else station.adapter.title or source

    def latest(self, address: str) -> Advertisement | None:
        """The newest advertisement of a peer that is near."""
        return self._sightings.latest(address, self._clock.monotonic())

    def listen(self, on_advertisement: OnAdvertisement, *, address: str | None = None) -> Undo:
        """Calls back with each advertisement; a callback that raises is logged and taken off."""
        token = object()
        self._listeners[token] = (address.upper() if address else None, on_advertisement)
        return lambda: self._listeners.pop(token, None) and None

    def listen_gone(self, on_gone: Callable[[str], None]) -> Undo:
        """Calls back with the address of a peer that is no longer near."""
        token = object()
        self._gone_listeners[token] = on_gone
        return lambda: self._gone_listeners.pop(token, None) and None

    def connect(
        self,
        address: str,
        *,
        bond: Bond = "none",
        passkey: int | None = None,
        deadline_s: float = 60.0,
        on_wanted: Callable[[], None] | None = None,
        is_urgent: Callable[[], bool] = never,
    ) -> AbstractAsyncContextManager[GattConnection]:
        """See BluetoothPort.connect. One connection per peer at a time; a second asker waits for its turn."""
        asked = Asked(address=address.upper(), bond=bond, passkey=passkey, on_wanted=on_wanted, is_urgent=is_urgent)
        return self._connect(asked, deadline_s)

    async def forget(self, address: str) -> None:
        """Drops the bond with a peer on every adapter, and the connection to it."""
        address = address.upper()
        await self._hang_up(address)
        await self._connector.repairs.forget(address)

    async def close_stale(self, addresses: Collection[str]) -> None:
        """Ends the connections that a former life of the box has left to these peers: a mower that is held so does not
        advertise, and is never heard again."""
        for station in list(self._stations.values()):
            care = station.adapter.care
            if care is None or not addresses:
                continue
            await (
                station.scan.tried.wait()
            )  # bleak misses what changes in the moment in which it reads all for the first time
            for address in addresses:
                if address.upper() not in self._open:
                    await care.close_stale(address.upper())

    async def release(self, minutes: float, *, address: str | None = None) -> None:
        """Leaves one mower (or all) alone for a while, so that the vendor's app can connect."""
        minutes = min(max(minutes, 0.0), RELEASE_MINUTES_MAX)
        address = address.upper() if address else None
        self._released[address] = self._clock.monotonic() + minutes * 60
        log.info("bluetooth released", address=address, minutes=minutes)
        for held in [address] if address else list(self._open):
            await self._hang_up(held)

    def take_back(self, *, address: str | None = None) -> None:
        """Ends a release before its time."""
        self._released.pop(address.upper() if address else None, None)
        self._connector.wake()

    def released_for_s(self, address: str | None = None) -> float:
        """Seconds until the box may connect again; 0 when it may now."""
        keys = {None, address.upper() if address else None}
        until = max((self._released.get(key, 0.0) for key in keys), default=0.0)
        return max(0.0, until - self._clock.monotonic())

    def nearby(self) -> list[Advertisement]:
        """Every peer that is near, the strongest first."""
        return sorted(self._sightings.near(self._clock.monotonic()), key=lambda near: -near.rssi_dbm)

    def has_bond(self, address: str) -> bool:
        """Whether an adapter of this box has a bond with the peer."""
        return bool(self._bonds.sources(address.upper()))

    def paths(self, address: str) -> list[Path]:
        """Every adapter that hears a peer, the strongest first."""
        return self._sightings.paths(address, self._clock.monotonic())

    def is_connected(self, address: str) -> bool:
        """Whether this box holds a connection to a peer; it may not advertise then."""
        return address.upper() in self._open

    def port(self) -> EntryBluetooth:
        """What one config entry gets; closed with it."""
        return EntryBluetooth(self)

    def status(self) -> list[StationStatus]:
        """The adapters."""
        return [station.status(self._clock.monotonic()) for station in self._stations.values()]

    @property
    def bonds_problem(self) -> str | None:
        """What was wrong with the file of bonds when it was loaded, for a person."""
        return self._bonds.problem

    @asynccontextmanager
    async def _connect(self, asked: Asked, deadline_s: float) -> AsyncIterator[BleakConnection]:
        address = asked.address
        deadline_at = asyncio.get_running_loop().time() + deadline_s
        self._check_released(address)
        lock = self._locks.setdefault(address, asyncio.Lock())
        try:
            async with asyncio.timeout_at(deadline_at):
                await lock.acquire()
        except TimeoutError as err:
            raise PeerBusyError(f"{address} is connected to another part of this box") from err
        try:
            opened = await self._connector.open(asked, deadline_at=deadline_at)
            self._open[address] = opened
            try:
                yield opened.connection
            finally:
                self._open.pop(address, None)
                await self._connector.close(opened)
        finally:
            lock.release()

    async def _hang_up(self, address: str) -> None:
        opened = self._open.get(address)
        if opened is not None:
            await self._connector.close(opened)

    def _check_released(self, address: str) -> None:
        seconds = self.released_for_s(address)
        if seconds > 0:
            raise BluetoothError(
                f"Bluetooth is released for {seconds / 60:.0f} more minutes",
                hint="End the release, or wait: the vendor's app may be using the mower.",
            )

    def _heard(self, source: str, device: BLEDevice, data: AdvertisementData) -> None:
        if source not in self._stations:
            return  # a last word of an adapter that is gone
        advertisement = self._sightings.hear(source, device, data, self._clock.monotonic())
        self._connector.heard(advertisement.address)
        for token, (address, callback) in list(self._listeners.items()):
            if address not in (None, advertisement.address):
                continue
            try:
                callback(advertisement)
            except Exception:  # one listener's bug must not silence the others or stop the scan
                log.exception("advertisement listener failed and was taken off", address=address)
                self._listeners.pop(token, None)

    def _reset(self, station: Station) -> None:
        """The system's Bluetooth service was started anew: what it knew of us is gone."""
        self._sightings.drop_source(station.name)
        for opened in self._open.values():
            if opened.station is station:
                opened.connection.break_off()
        station.scan.restart()

    def _start(self, station: Station) -> None:
        scan = station.scan.run()
        self._scans[station.name] = self._group.create_task(scan, name=f"bluetooth scan {station.name}")

    def _down(self, source: str) -> None:
        self._sightings.drop_source(source)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_S)
            now = self._clock.monotonic()
            for address in self._open:
                self._sightings.keep(address, now)
            for key in [key for key, until in self._released.items() if until <= now]:
                del self._released[key]
            for address in self._sightings.expire(now):
                log.debug("bluetooth peer is gone", address=address)
                self._tell_gone(address)

    def _tell_gone(self, address: str) -> None:
        for token, callback in list(self._gone_listeners.items()):
            try:
                callback(address)
            except Exception:  # as above
                log.exception("listener failed and was taken off", address=address)
                self._gone_listeners.pop(token, None)
