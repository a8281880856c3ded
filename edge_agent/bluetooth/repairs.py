"""What is put right around connections: after a failure, and before the next attempt. Each repair is done once, not in a loop.

* The services that the system remembers are not those of the mower any more: forgotten once, at the next connect.
* A bond that failed: once more than once it is forgotten here, so that the entry asks for pairing; and whenever a person
  pairs anew, the old half is out of the way first.
* The system is busy with an attempt of old: that attempt is cleared once per connect, then there is a rest.
* An adapter that stays stuck: see `last_resort`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import structlog
from bleak.exc import BleakError

from core.domain.clock import Clock
from core.domain.errors import BondLostError, IntegrationError, RadioStuckError, ServicesChangedError
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.failures import Bond
from edge_agent.bluetooth.sightings import Sightings
from edge_agent.bluetooth.station import Station

log = structlog.get_logger(__name__)

REMOVE_DEADLINE_S = 5.0
STUCK_REST_S = 10.0
"""After an attempt of old was cleared; BlueZ and the controller need it."""
FORGET_SERVICES_EVERY_S = 3600.0
BOND_FAILURES = 2
"""So many in a row, and this box's half of the bond is dropped."""


class Repairs:
    """Part of the connector."""

    def __init__(
        self, stations: Mapping[str, Station], sightings: Sightings, bonds: BondBook, clock: Clock, *, rest_s: float
    ) -> None:
        self._stations = stations
        self._sightings = sightings
        self._bonds = bonds
        self._clock = clock
        self._rest_s = rest_s
        self._stale_services: set[str] = set()
        self._services_forgotten_at: dict[str, float] = {}
        self._bond_failures: dict[str, int] = {}

    def note_failure(self, address: str, err: IntegrationError) -> None:
        """A connection, or a call over one, has failed."""
        if isinstance(err, ServicesChangedError):
            now = self._clock.monotonic()
            last_at = self._services_forgotten_at.get(address)
            if last_at is None or now - last_at >= FORGET_SERVICES_EVERY_S:
                self._stale_services.add(address)
        elif isinstance(err, BondLostError):
            self._bond_failures[address] = self._bond_failures.get(address, 0) + 1

    def note_good(self, address: str) -> None:
        """A connection with a bond was of use to its end."""
        self._bond_failures.pop(address, None)

    async def prepare(self, address: str, bond: Bond) -> None:
        """Before a connect: does what earlier failures have left to do. The peer is then heard anew first."""
        if address in self._stale_services:
            self._stale_services.discard(address)
            self._services_forgotten_at[address] = self._clock.monotonic()
            await self._forget_services(address)
        failures = self._bond_failures.get(address, 0)
        if failures >= (1 if bond == "pair" else BOND_FAILURES) and bond != "none":
            log.warning("a bond that failed is dropped: the mower has to be paired anew", address=address)
            await self.forget(address)

    async def forget(self, address: str) -> None:
        """Drops the bond on every adapter that hears the peer, or that may hold a bond."""
        self._bond_failures.pop(address, None)
        heard = {path.source for path in self._sightings.paths(address, self._clock.monotonic())}
        for name in heard | self._bonds.sources(address):
            station = self._stations.get(name)
            if station is not None:
                await self.forget_on(station, address)
        await self._bonds.remove(address)

    async def forget_on(self, station: Station, address: str) -> None:
        """Drops the bond on one adapter. BlueZ's handle of the peer is dead then."""
        care = station.adapter.care
        if care is not None:
            await care.remove(address)
            self._sightings.drop_path(address, station.name)
        else:
            await self._unpair(station, address)
        await self._bonds.remove(address, station.name)

    async def _unpair(self, station: Station, address: str) -> None:
        for path in self._sightings.paths(address, self._clock.monotonic()):
            if path.source == station.name:
                client = station.adapter.make_client(path.device, lambda: None, REMOVE_DEADLINE_S)
                with contextlib.suppress(BleakError, TimeoutError, OSError, EOFError):
                    async with asyncio.timeout(REMOVE_DEADLINE_S):
                        await client.unpair()

    async def _forget_services(self, address: str) -> None:
        for station in list(self._stations.values()):
            if station.adapter.forget_services is not None:
                station.adapter.forget_services(address)
            care = station.adapter.care
            if care is None or await care.is_bonded(address):
                continue  # with a bond, BlueZ asks the mower itself whether its services have changed
            log.warning("forgetting the services of a mower: it has others now", address=address, adapter=station.name)
            await care.remove(address)
            self._sightings.drop_path(address, station.name)

    async def unstick(self, address: str, station: Station, err: RadioStuckError, deadline_at: float) -> None:
        """Clears the attempt that the adapter is busy with, and rests. The error itself when there is no time for it,
        or nothing that could be cleared."""
        care = station.adapter.care
        if care is None:
            raise err
        await care.clear_attempt(address)
        self._sightings.drop_path(address, station.name)
        if deadline_at - asyncio.get_running_loop().time() <= self._rest_s:
            raise err
        await asyncio.sleep(self._rest_s)

    async def try_last_resort(self, station: Station) -> None:
        """Switches an adapter off and on that has been stuck for long, if nothing hangs on it."""
        care, now = station.adapter.care, self._clock.monotonic()
        station.last_resort.note_stuck(now)
        if care is None or not station.last_resort.is_due(now, connections=len(station.held)):
            return
        async with station.turns.taken():
            connections = await care.connections()
            if station.held or not station.last_resort.is_due(now, connections=connections):
                return
            station.last_resort.note_used(now)
            await care.power_cycle()
        self._sightings.drop_source(station.name)
        station.scan.restart()
