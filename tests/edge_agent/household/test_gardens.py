"""Zones of gardens, and what the fleet says was entered about a mower."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from core.domain.ids import AccountId, MowerId
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.sync.messages import EnteredRecord, Registration, Registrations
from core.telemetry.blades import BLADE_CARE, BLADE_CARE_KEY, BLADE_CHANGE
from edge_agent.household.gardens import Gardens, machine_zone
from tests.fakes.clock import START, ManualClock

HOME = AccountId("home")
FRONT, BACK = MowerId("front"), MowerId("back")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteTelemetryStore]:
    store = SqliteTelemetryStore(tmp_path / "box.db", clock=ManualClock(), is_journal=True)
    await store.open()
    await store.put_directory([DirectoryEntry(mower_id=FRONT, account_id=HOME, edge_id=None, name="Front")])
    yield store
    await store.close()


def said(*mowers: Registration) -> Registrations:
    return Registrations(version=1, account_id=AccountId("of-the-relay"), sent_at=START, mowers=mowers)


def mower(mower_id: MowerId = FRONT, zone: str | None = None, *entered: EnteredRecord) -> Registration:
    return Registration(
        mower_id=mower_id, account_id=AccountId("of-the-relay"), name="x", time_zone=zone, entered=entered
    )


def interval(hours: float, *, kind: str = BLADE_CARE.name, minutes: int = 0) -> EnteredRecord:
    at = START + timedelta(minutes=minutes)
    body = msgspec.Raw(b'{"interval_h":%g}' % hours)
    return EnteredRecord(kind=kind, key=BLADE_CARE_KEY, at=at, updated_at=at, body=body)


async def test_a_chosen_zone_goes_before_the_boxs_and_the_default_of_a_site_does_not(
    store: SqliteTelemetryStore,
) -> None:
    gardens = Gardens("Europe/Berlin")
    assert gardens.zone_of(FRONT).key == "Europe/Berlin"
    for zone, expected in (
        ("Pacific/Auckland", "Pacific/Auckland"),
        ("UTC", "Europe/Berlin"),
        ("Mars/Olympus", "Europe/Berlin"),
        (None, "Europe/Berlin"),
    ):
        await gardens.take(said(mower(FRONT, zone)), store.records, lambda: HOME)
        assert gardens.zone_of(FRONT).key == expected
    assert gardens.zone_of(BACK).key == "Europe/Berlin"


async def test_entries_are_merged_under_the_boxs_own_account(store: SqliteTelemetryStore) -> None:
    gardens = Gardens("UTC")
    for hours, minutes in ((50, 5), (40, 1)):
        await gardens.take(said(mower(FRONT, None, interval(hours, minutes=minutes))), store.records, lambda: HOME)
    row = await store.records.get(HOME, FRONT, BLADE_CARE.name, BLADE_CARE_KEY)
    assert row is not None
    assert row.body == b'{"interval_h":50}'
    assert (await store.journal_head()).last_seq == 1


async def test_what_is_no_entry_of_a_person_is_not_taken_and_a_bad_one_keeps_no_other_from_it(
    store: SqliteTelemetryStore,
) -> None:
    bad, good = interval(1, minutes=99), interval(2)
    foreign = interval(3, kind="health_day")
    gardens = Gardens("UTC")
    await store.put_directory([DirectoryEntry(mower_id=BACK, account_id=HOME, edge_id=None, name="Back")])
    await gardens.take(said(mower(FRONT, None, bad), mower(BACK, None, good, foreign)), store.records, lambda: HOME)
    assert await store.records.get(HOME, FRONT, BLADE_CARE.name, BLADE_CARE_KEY) is None
    assert await store.records.get(HOME, BACK, BLADE_CARE.name, BLADE_CARE_KEY) is not None
    assert (await store.counts())["mower_records"] == 1
    assert await store.records.get(HOME, BACK, BLADE_CHANGE.name, BLADE_CARE_KEY) is None


def test_the_zone_of_the_machine(tmp_path: Path) -> None:
    zones = tmp_path / "zoneinfo" / "Europe"
    zones.mkdir(parents=True)
    (zones / "Berlin").touch()
    link = tmp_path / "localtime"
    link.symlink_to(zones / "Berlin")
    assert machine_zone(link).key == "Europe/Berlin"
    assert machine_zone(tmp_path / "none").key == "UTC"
