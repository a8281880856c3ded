"""Health and blades over the API, on a real store."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from core.domain.ids import MowerId
from core.telemetry.blades import BLADE_CARE, BLADE_CARE_KEY, BLADE_CHANGE
from core.telemetry.care import BladeReport
from core.telemetry.health_day import HEALTH_DAY, HealthDay
from core.telemetry.rows import RecordRow
from core.web.health_routes import ENTRIES_BURST, HealthDays, MowerHealth
from tests.core.web.world import OWNER, STRANGER, VIEWER, World, problem
from tests.fakes.clock import START

FRONT = MowerId("front")
HEALTH = "/telemetry/mowers/front/health"
BLADES = "/fleet/mowers/front/blades"


async def keep(world: World, *numbers: int, hours: int = 2) -> None:
    """Days counted back from the first of June, in a zone ahead of UTC."""
    rows = []
    for number in numbers:
        starts_at = datetime(2026, 5, 31, 22, 0, tzinfo=UTC) - timedelta(days=number)
        day = HealthDay(
            day=date(2026, 6, 1) - timedelta(days=number),
            time_zone="Europe/Berlin",
            starts_at=starts_at,
            ends_at=starts_at + timedelta(days=1),
            mowing_s=7_200.0,
            blades_by_hour_s=(0.0,) * 8 + (3_600.0,) * hours,
        )
        at = min(START, day.ends_at)
        rows.append(HEALTH_DAY.make(FRONT, day.day.isoformat(), day, at=day.starts_at, updated_at=at))
    await world.store.records.put(OWNER.account_id, rows)


async def read(world: World, path: str, kind: Any, **params: str) -> Any:
    response = await world.get(path, params=params)
    assert response.status == 200, await response.text()
    return msgspec.json.decode(await response.read(), type=kind)


async def test_a_mower_of_which_nothing_is_known(world: World) -> None:
    found = await read(world, HEALTH, MowerHealth)
    assert (found.days, found.since, found.updated_at, found.totals.distance_m) == (0, None, None, None)
    assert found.battery.mowing.direction == "unknown"
    assert (await read(world, f"{HEALTH}/days", HealthDays)).items == ()


async def test_days_are_summed_up(world: World) -> None:
    await keep(world, *range(1_200))
    found = await read(world, HEALTH, MowerHealth)
    assert (found.days, found.since) == (1_200, date(2026, 6, 1) - timedelta(days=1_199))
    assert found.updated_at == START
    assert (found.totals.mowing_s, found.blades.used_h, found.blades.is_due) == (1_200 * 7_200, 2_400, True)


async def test_days_of_a_range_both_ends_included(world: World) -> None:
    await keep(world, *range(40))
    found = await read(world, f"{HEALTH}/days", HealthDays, **{"from": "2026-05-30", "to": "2026-06-01"})
    assert [day.day.isoformat() for day in found.items] == ["2026-05-30", "2026-05-31", "2026-06-01"]
    assert len((await read(world, f"{HEALTH}/days", HealthDays)).items) == 31
    for wrong in (
        {"from": "2026-06-02", "to": "2026-06-01"},
        {"from": "2020-01-01"},
        {"to": "0001-01-01"},
        {"to": "x"},
    ):
        assert (await world.get(f"{HEALTH}/days", params=wrong)).status == 422


async def test_new_blades_begin_again_and_the_interval_is_the_mowers(world: World) -> None:
    await keep(world, 0, 1, 2)
    response = await world.post(f"{BLADES}/changed", {"at": "2026-05-31T07:30:00Z", "note": "steel"})
    assert response.status == 201
    report = msgspec.json.decode(await response.read(), type=BladeReport)
    assert (report.used_h, report.interval_h, report.changed_by, report.note) == (2.5, 100, OWNER.name, "steel")
    world.clock.advance(1)
    assert (await world.put(f"{BLADES}/interval", {"interval_h": 2.5})).status == 200
    found = await read(world, HEALTH, MowerHealth)
    assert (found.blades.interval_h, found.blades.is_due) == (2.5, True)
    assert world.entered == [(OWNER.account_id, FRONT)] * 2
    world.clock.advance(1)
    await world.post(f"{BLADES}/changed", {})
    assert (await read(world, HEALTH, MowerHealth)).blades.used_h == 0
    ever = (START - timedelta(days=99), START + timedelta(days=99))
    changes, _ = await world.store.records.list_kind(OWNER.account_id, FRONT, BLADE_CHANGE.name, *ever, limit=9)
    assert len(changes) == 2, "every change is kept"


async def test_the_last_word_on_the_interval_stands_although_the_other_clock_was_ahead(world: World) -> None:
    await world.put(f"{BLADES}/interval", {"interval_h": 50})
    world.clock.jump(-300)
    assert (await world.put(f"{BLADES}/interval", {"interval_h": 40})).status == 200
    row = await world.store.records.get(OWNER.account_id, FRONT, BLADE_CARE.name, BLADE_CARE_KEY)
    assert row is not None
    assert BLADE_CARE.read(row) == BLADE_CARE.body(interval_h=40)


async def test_who_only_looks_changes_nothing_and_a_stranger_finds_nothing(world: World) -> None:
    assert (await world.post(f"{BLADES}/changed", {}, VIEWER)).status == 403
    assert (await world.get(HEALTH, VIEWER)).status == 200
    assert (await world.post(f"{BLADES}/changed", {}, STRANGER)).status == 404
    assert world.entered == []


async def test_wrong_entries_are_refused_and_many_are_held_up(world: World) -> None:
    for wrong in ({"at": "2026-06-01T08:00:01Z"}, {"at": "2026-05-01T08:00:00"}, {"at": "1999-01-01T00:00:00Z"}):
        assert (await problem(await world.post(f"{BLADES}/changed", wrong))).code == "invalid-input"
    assert (await world.post(f"{BLADES}/changed", {"note": "x" * 501})).status == 422
    assert (await world.put(f"{BLADES}/interval", {"interval_h": 0})).status == 422
    for _ in range(ENTRIES_BURST):
        assert (await world.post(f"{BLADES}/changed", {})).status == 201
    assert (await world.post(f"{BLADES}/changed", {})).status == 429


async def test_a_day_of_a_newer_version_is_left_out_of_sums(world: World) -> None:
    await keep(world, 0)
    row = RecordRow(mower_id=FRONT, kind=HEALTH_DAY.name, key="d", at=START, updated_at=START, body=b'{"day":7}')
    await world.store.records.put(OWNER.account_id, [row])
    assert (await read(world, HEALTH, MowerHealth)).days == 1
