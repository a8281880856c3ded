"""Opens and closes connections: waits for a path and a slot, tries, moves to the next path, pairs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import structlog
from bleak import BleakClient
from bleak.exc import BleakError

from core.domain.clock import Clock
from core.domain.errors import (
    AdapterOffError,
    BluetoothError,
    BondLostError,
    InterferenceError,
    NoFreeSlotError,
    NotInPairingModeError,
    OutOfRangeError,
    RadioStuckError,
)
from edge_agent.bluetooth.adapter import Aborts, BluetoothAdapter
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.connection import BleakConnection
from edge_agent.bluetooth.failures import Attempt, translate
from edge_agent.bluetooth.interference import Outcome
from edge_agent.bluetooth.path_choice import choose_path, is_in_reach
from edge_agent.bluetooth.repairs import STUCK_REST_S, Repairs
from edge_agent.bluetooth.sightings import Path, Sightings
from edge_agent.bluetooth.slots import ASK_AGAIN_S, Asked, Holding, SlotQueue, Waiter
from edge_agent.bluetooth.station import Station
from edge_agent.bluetooth.turns import GaveWay

log = structlog.get_logger(__name__)

ATTEMPTS = 3
ATTEMPT_DEADLINE_S = 20.0
PAIR_DEADLINE_S = 45.0
HANG_UP_DEADLINE_S = 5.0
PAUSE_S = 0.25
"""Between attempts, doubled each time; BlueZ needs it to clean up behind a failed one."""
NEAR_DBM = -80
"""A peer that was heard this strongly and does not answer is busy rather than away."""
PASSIVE_HINT = (
    "Only a passive Bluetooth proxy hears the mower. Set `active: true` under `bluetooth_proxy` in that proxy's ESPHome "
    "configuration, or move an adapter or an active proxy closer."
)
BOND_HINT = (
    "A bond belongs to the adapter or proxy that made it, and a proxy pairs without passkeys only. Move the mower near "
    "the one that it was paired over, or pair it again where it is now."
)
GAVE_WAY_HINT = "An emergency stop of another mower needed the adapter. Pair again."
FAILURES = (BleakError, TimeoutError, OSError, EOFError)


@dataclass(slots=True, kw_only=True)
class Opened:
    """One open connection and what it occupies."""

    connection: BleakConnection
    client: BleakClient
    station: Station
    holding: Holding
    is_closing: bool = False
    closed: asyncio.Event = field(default_factory=asyncio.Event)


class Connector:
    """Part of BluetoothService; `check_allowed` raises while a peer is released."""

    def __init__(
        self,
        stations: Mapping[str, Station],
        sightings: Sightings,
        bonds: BondBook,
        clock: Clock,
        check_allowed: Callable[[str], None],
        *,
        stuck_rest_s: float = STUCK_REST_S,
    ) -> None:
        self._stations = stations
        self._sightings = sightings
        self._bonds = bonds
        self._clock = clock
        self._check_allowed = check_allowed
        self.repairs = Repairs(stations, sightings, bonds, clock, rest_s=stuck_rest_s)
        self._last_source: dict[str, str] = {}
        self._queue = SlotQueue()

    def heard(self, address: str) -> None:
        """An advertisement: whoever waits for this peer looks again."""
        self._queue.heard(address)

    def wake(self) -> None:
        """A slot is free, or something else has changed for everybody."""
        self._queue.wake()

    async def open(self, asked: Asked, *, deadline_at: float) -> Opened:
        """A connection, or the failure of the last attempt. Retries what another try can help, on other paths first."""
        address, bond = asked.address, asked.bond
        failed: set[str] = set()
        lost: set[str] = set()
        failure: BluetoothError | None = None
        await self.repairs.prepare(address, bond)
        count = 0
        while count < ATTEMPTS:
            if count and failure is not None and not await _rest(PAUSE_S * 2**count, deadline_at):
                raise failure
            try:
                station, path = await self._wait_for_path(asked, failed, lost, deadline_at)
            except (OutOfRangeError, NoFreeSlotError) as err:
                raise failure or err from err
            try:
                return await self._try(asked, station, path, deadline_at)
            except GaveWay as err:
                _note_gave_way(asked, path, err)
                continue
            except (BondLostError, NotInPairingModeError) as err:
                is_last = count == ATTEMPTS - 1
                if not is_last and bond == "existing" and self._is_bonded_elsewhere(asked, {*lost, path.source}):
                    lost.add(path.source)
                elif not is_last and bond == "pair" and self._is_stale(err, station, address):
                    # A person wants to pair anew: the old half of a bond is in the way.
                    await self.repairs.forget_on(station, address)
                else:
                    self.repairs.note_failure(address, err)
                    raise
                failure = err
            except RadioStuckError as err:
                await self.repairs.try_last_resort(station)
                if isinstance(failure, RadioStuckError):
                    raise  # it was cleared a moment ago, and clearing it again and again only makes it worse
                await self.repairs.unstick(address, station, err, deadline_at)
                failure = err
            except BluetoothError as err:
                if not err.retryable:
                    raise
                _note_failed(address, station, err)
                failed.add(path.source)
                failure = err
            count += 1
        assert failure is not None
        raise failure

    async def close(self, opened: Opened) -> None:
        """Disconnects and frees the slot. Idempotent."""
        if opened.is_closing:
            await opened.closed.wait()
            return
        opened.is_closing = True
        opened.connection.break_off()
        self._queue.let_go(opened.holding)
        connection = opened.connection
        if connection.bond != "none" and connection.was_useful and not connection.has_failed:
            self.repairs.note_good(connection.address)
        try:
            await _hang_up(opened.client)
        finally:
            self._free(opened.station, opened.connection.address)
            opened.closed.set()

    def _is_stale(self, err: BluetoothError, station: Station, address: str) -> bool:
        """Whether an old half of a bond is why it did not pair. A proxy says no more than that it did not."""
        if isinstance(err, BondLostError):
            return True
        return station.adapter.is_bond_resumed_on_demand and station.name in self._bonds.sources(address)

    async def _wait_for_path(
        self, asked: Asked, failed: set[str], lost: set[str], deadline_at: float
    ) -> tuple[Station, Path]:
        """A path with a slot that is ours from now on."""
        loop = asyncio.get_running_loop()
        with self._queue.waiting(asked) as waiter:
            while True:
                self._check_allowed(asked.address)
                paths = self._paths(asked, lost)
                waiter.event.clear()
                again_at = deadline_at
                if is_in_reach(paths):
                    path = self._free_path(waiter, paths, failed)
                    if path is not None:
                        station = self._stations[path.source]
                        station.held.add(asked.address)
                        return station, path
                    self._queue.ask(waiter, {path.source for path in paths})
                    if asked.is_urgent():  # a connect that is under way holds a slot as well
                        for path in paths:
                            self._stations[path.source].turns.give_way()
                    again_at = min(deadline_at, loop.time() + ASK_AGAIN_S)
                try:
                    async with asyncio.timeout_at(again_at):
                        await waiter.event.wait()
                except TimeoutError as err:
                    if again_at == deadline_at:
                        raise self._why_no_path(asked.address, paths) from err

    def _free_path(self, waiter: Waiter, paths: list[Path], failed: set[str]) -> Path | None:
        free = [
            name
            for name, station in self._stations.items()
            if station.has_slot and not self._queue.stands_back(waiter, name)
        ]
        last = self._last_source.get(waiter.asked.address)
        return choose_path(paths, last_source=last, free=free, failed=failed)

    def _paths(self, asked: Asked, lost: set[str]) -> list[Path]:
        """The paths that may be taken: none over what only listens, none without what is needed of it."""
        paths = [path for path in self._heard_by(asked.address) if self._adapter(path).can_connect]
        if asked.bond == "pair":
            has_passkey = asked.passkey is not None
            return [path for path in paths if _pairs(self._adapter(path), has_passkey=has_passkey)]
        if asked.bond == "none":
            return paths
        holders = self._bonds.sources(asked.address)
        if not holders:
            raise BondLostError(f"this box has no bond with {asked.address}")
        return [path for path in paths if path.source in holders - lost]

    def _heard_by(self, address: str) -> list[Path]:
        paths = self._sightings.paths(address, self._clock.monotonic())
        return [path for path in paths if path.source in self._stations]

    def _adapter(self, path: Path) -> BluetoothAdapter:
        return self._stations[path.source].adapter

    def _is_bonded_elsewhere(self, asked: Asked, lost: set[str]) -> bool:
        """Whether a path that is there now holds another bond; one that is away is not waited for."""
        return bool(self._paths(asked, lost))

    def _why_no_path(self, address: str, paths: list[Path]) -> BluetoothError:
        if is_in_reach(paths):
            return NoFreeSlotError(f"no adapter that hears {address} has a free connection")
        others = self._heard_by(address)
        if not paths and is_in_reach(others):
            return _why_unfit(address, [self._adapter(path) for path in others])
        if paths:
            return OutOfRangeError(f"{address} is heard with {paths[0].rssi_dbm} dBm only")
        if self._stations and not any(station.scan.is_up for station in self._stations.values()):
            return AdapterOffError("no Bluetooth adapter is working")
        return OutOfRangeError(f"{address} is not heard")

    async def _try(self, asked: Asked, station: Station, path: Path, deadline_at: float) -> Opened:
        address, bond, passkey = asked.address, asked.bond, asked.passkey
        closed = asyncio.Event()
        attempt = Attempt(
            address=address,
            bond=bond,
            stage="connect",
            has_passkey=passkey is not None,
            is_heard=path.rssi_dbm >= NEAR_DBM,
        )
        try:
            client = station.adapter.make_client(path.device, closed.set, ATTEMPT_DEADLINE_S)
        except FAILURES as err:
            self._free(station, address)
            raise translate(err, attempt) from err
        care = station.adapter.care
        with care.watch(address) if care is not None else contextlib.nullcontext(Aborts()) as aborts:
            try:
                async with _turn(asked, station, client, deadline_at):
                    self._check_allowed(address)
                    async with asyncio.timeout(ATTEMPT_DEADLINE_S):
                        await client.connect()
                        if bond == "existing" and station.adapter.is_bond_resumed_on_demand:
                            await client.pair()
                    aborts.is_over = True
                    await self._note_radio(station, is_disturbed=aborts.count > 0)
                    if bond == "pair":
                        attempt = Attempt(address=address, bond=bond, stage="pair", has_passkey=passkey is not None)
                        await self._pair(client, station, address, passkey)
            except BaseException as err:
                aborts.is_over = True
                self._free(station, address)
                if isinstance(err, FAILURES):
                    failure = translate(err, replace(attempt, is_broken_off=aborts.count > 0))
                    if isinstance(failure, InterferenceError):
                        await self._note_radio(station, is_disturbed=True)
                    raise failure from err
                raise
        station.last_resort.note_good()
        if client.is_connected:
            closed.clear()  # bleak also tells of connections that broke off before this one came up
        self._last_source[address] = station.name
        connection = BleakConnection(
            address, client, bond=bond, closed=closed, on_failure=partial(self.repairs.note_failure, address)
        )
        holding = self._queue.hold(station.name, asked.on_wanted)
        return Opened(connection=connection, client=client, station=station, holding=holding)

    async def _note_radio(self, station: Station, *, is_disturbed: bool) -> None:
        care = station.adapter.care
        if care is not None:
            has_wifi = await care.uses_wifi_24_ghz()
            now = self._clock.monotonic()
            station.interference.note(Outcome(at=now, is_disturbed=is_disturbed, has_wifi=has_wifi))

    async def _pair(self, client: BleakClient, station: Station, address: str, passkey: int | None) -> None:
        agent = station.adapter.agent
        expecting = agent.expecting(address, passkey) if agent is not None else contextlib.nullcontext()
        async with asyncio.timeout(PAIR_DEADLINE_S), expecting:
            await client.pair()
        await self._bonds.add(address, station.name)

    def _free(self, station: Station, address: str) -> None:
        station.held.discard(address)
        self.wake()


def _pairs(adapter: BluetoothAdapter, *, has_passkey: bool) -> bool:
    return adapter.can_pair and (adapter.takes_passkey or not has_passkey)


def _why_unfit(address: str, adapters: list[BluetoothAdapter]) -> BluetoothError:
    """The peer is heard well, by nothing that could do what is asked."""
    names = ", ".join(adapter.title or adapter.name for adapter in adapters)
    if not any(adapter.can_connect for adapter in adapters):
        return OutOfRangeError(f"{address} is heard only by what cannot connect: {names}", hint=PASSIVE_HINT)
    return OutOfRangeError(
        f"{address} is heard only over other ways than the one that is needed: {names}", hint=BOND_HINT
    )


def _note_gave_way(asked: Asked, path: Path, err: GaveWay) -> None:
    """No failure of the mower, it is tried again. A pairing is half done then: the person who does it does it again."""
    log.info("bluetooth attempt gave way to an emergency stop", address=asked.address, adapter=path.source)
    if asked.bond == "pair":
        raise BluetoothError(f"pairing {asked.address} gave way to a stop", hint=GAVE_WAY_HINT) from err


def _note_failed(address: str, station: Station, err: BluetoothError) -> None:
    log.info("bluetooth attempt failed", address=address, adapter=station.name, code=err.code, why=err.detail)
    if isinstance(err, AdapterOffError):
        station.scan.restart()


@asynccontextmanager
async def _turn(asked: Asked, station: Station, client: BleakClient, deadline_at: float) -> AsyncIterator[None]:
    """The adapter for one connect, until it is up or hung up again; see Turn.abandonable. Whoever gets no turn was
    not tried: NoFreeSlotError."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            turn = await stack.enter_async_context(station.turns.taken(asked.is_urgent, deadline_at=deadline_at))
        except TimeoutError as err:
            raise NoFreeSlotError(f"{station.name} was busy with connects to other mowers") from err
        try:
            async with turn.abandonable(), asyncio.timeout_at(deadline_at):
                yield
        except BaseException:
            await _hang_up(client)
            raise


async def _hang_up(client: BleakClient) -> None:
    """Also when it never came up: a stale half-connection blocks the next one. Completes although cancelled."""
    with contextlib.suppress(*FAILURES):
        async with asyncio.timeout(HANG_UP_DEADLINE_S):
            await client.disconnect()


async def _rest(seconds: float, deadline_at: float) -> bool:
    """Whether there is time left after it."""
    left_s = deadline_at - asyncio.get_running_loop().time()
    if left_s <= seconds:
        return False
    await asyncio.sleep(seconds)
    return True
