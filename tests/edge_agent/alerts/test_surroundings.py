"""What the box knows beside a mower's own words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.domain.errors import NotFoundError
from core.domain.ids import AccountId, EntryId, MowerId
from core.domain.mower import LinkKind, MowerState
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.telemetry.alert_rules import Look
from core.telemetry.blades import BLADE_CARE, BLADE_CARE_KEY, BladeCare
from edge_agent.alerts.surroundings import Outlook, has_interface
from tests.core.telemetry.alert_world import GARDEN
from tests.fakes.clock import START, ManualClock

HOME, FRONT, BACK = AccountId("home"), MowerId("front"), MowerId("back")


@dataclass
class Household:
    """Two mowers as the registry knows them, and the links that are up."""

    up: dict[MowerId, list[LinkKind]] = field(default_factory=dict)

    def mowers(self) -> list[Any]:
        return [self.get(FRONT), self.get(BACK)]

    def get(self, mower_id: MowerId) -> Any:
        if mower_id not in {FRONT, BACK}:
            raise NotFoundError("no such mower")
        links = {"e1": (LinkKind.BLE,), "e2": (LinkKind.LAN,)}
        return SimpleNamespace(mower_id=mower_id, areas=GARDEN, links=links)

    def open_links(self, mower_id: MowerId) -> list[Any]:
        return [SimpleNamespace(kind=kind, says_offline=False) for kind in self.up.get(mower_id, [])]


class Seen:
    """An outlook on a household."""

    def __init__(self, store: SqliteTelemetryStore, clock: ManualClock, folder: Path) -> None:
        self.store, self.clock, self.household = store, clock, Household()
        self.interfaces = folder / "net"
        self.is_relay_reached = False
        self.released = {EntryId("e2")}
        parts: Any = self.household
        self.outlook = Outlook(
            registry=parts,
            supervisor=parts,
            book=store.records,
            clock=clock,
            account_id=lambda: HOME,
            database=folder / "box.db",
            is_relay_reached=lambda: self.is_relay_reached,
            is_released=lambda entry_ids: set(entry_ids) <= self.released,
            interfaces=self.interfaces,
        )

    def plug(self, name: str, state: str) -> None:
        (self.interfaces / name).mkdir(parents=True, exist_ok=True)
        (self.interfaces / name / "operstate").write_text(f"{state}\n")

    def look(self, mower_id: MowerId = FRONT) -> Look:
        return self.outlook.look(mower_id, MowerState(observed_at=START), self.clock.now(), self.clock.monotonic())


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Seen]:
    clock = ManualClock()
    store = SqliteTelemetryStore(tmp_path / "box.db", clock=clock, is_journal=True)
    await store.open()
    await store.put_directory([DirectoryEntry(mower_id=FRONT, account_id=HOME, edge_id=None, name="Front")])
    yield Seen(store, clock, tmp_path)
    await store.close()


async def test_links_areas_and_the_time_since_the_start(seen: Seen) -> None:
    seen.household.up[FRONT] = [LinkKind.BLE]
    seen.clock.advance(7)
    look = seen.look()
    assert look.around.links == {LinkKind.BLE: True, LinkKind.LAN: False}
    assert (look.areas, look.around.up_s) == (GARDEN, 7.0)
    assert look.around.is_network_up is None, "nothing tells"
    assert seen.look(MowerId("gone")).around.links == {}


async def test_the_network_is_known_by_its_interfaces_by_the_relay_and_by_other_mowers(seen: Seen) -> None:
    seen.plug("lo", "unknown")
    seen.plug("eth0", "up")
    await seen.outlook.refresh()
    assert seen.look().around.is_network_up is None
    seen.is_relay_reached = True
    assert seen.look().around.is_network_up is True
    seen.is_relay_reached = False
    seen.household.up[BACK] = [LinkKind.LAN]
    assert seen.look().around.is_network_up is True
    seen.plug("eth0", "down")
    await seen.outlook.refresh()
    assert seen.look().around.is_network_up is False


async def test_a_release_counts_for_what_goes_over_bluetooth(seen: Seen) -> None:
    assert not seen.look().around.is_ble_released, "another link's entry"
    seen.released = {EntryId("e1")}
    assert seen.look().around.is_ble_released


async def test_disk_and_wear_are_figures_and_unknown_until_read(seen: Seen) -> None:
    assert (seen.look().free_percent, seen.look().wear) == (None, None)
    care = BLADE_CARE.make(FRONT, BLADE_CARE_KEY, BladeCare(interval_h=50), at=START, updated_at=START)
    await seen.store.records.put(HOME, [care])
    await seen.outlook.refresh()
    look = seen.look()
    assert look.free_percent is not None
    assert 0 <= look.free_percent <= 100
    assert look.wear is not None
    assert (look.wear.blades_interval_h, look.wear.blades_used_h) == (50, None), "no day of health is no hours"


def test_a_kernel_that_does_not_tell(tmp_path: Path) -> None:
    assert has_interface(tmp_path / "none") is None
    assert has_interface(tmp_path) is None
