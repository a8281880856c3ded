"""Reading telemetry, on a real SQLite store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from core.domain import limits
from core.domain.commands import CommandResult, CommandStatus
from core.domain.ids import CommandId, MowerId
from core.domain.mower import Activity, MowerState, Position
from core.telemetry.rows import TimelineRow
from core.web.telemetry_routes import History, LatestList, LatestView, Timeline
from core.web.track_routes import Track
from tests.core.web.world import OWNER, STRANGER, VIEWER, World, problem
from tests.fakes.clock import START

FRONT = MowerId("front")
STATES = ("state", "history", "positions", "timeline")


async def record(world: World, *states: MowerState, mower_id: MowerId = FRONT) -> None:
    account_id = (STRANGER if mower_id == "other" else OWNER).account_id
    await world.store.record_states([(mower_id, account_id, s) for s in states], received_at=world.clock.now())


def state(at: datetime = START, n: int = 0, **more: Any) -> MowerState:
    place = Position(lat=48.0 + n * 1e-5, lon=11.0)
    return MowerState(observed_at=at, activity=Activity.MOWING, battery_percent=90 - n % 50, position=place, **more)


async def read(world: World, path: str, kind: Any, **params: str) -> Any:
    response = await world.get(f"/telemetry/mowers/front/{path}", params=params)
    assert response.status == 200, await response.text()
    return msgspec.json.decode(await response.read(), type=kind)


# -- latest


async def test_the_newest_state_with_its_age(world: World) -> None:
    await record(world, state())
    world.clock.advance(60)
    found = await read(world, "state", LatestView)
    assert (found.state.activity, found.age_s, found.stale, found.received_at) == (Activity.MOWING, 60.0, False, START)
    world.clock.advance(0.1)
    assert (await read(world, "state", LatestView)).stale


async def test_a_state_from_a_clock_behind_looks_old_and_one_from_a_clock_ahead_is_not_negative(world: World) -> None:
    await record(world, state(START - timedelta(minutes=5)))
    assert (await read(world, "state", LatestView)).age_s == 300
    await record(world, state(START + timedelta(seconds=5)))
    assert (await read(world, "state", LatestView)).age_s == 0


async def test_a_mower_that_never_reported_is_told_from_one_that_is_not_there(world: World) -> None:
    assert (await problem(await world.get("/telemetry/mowers/front/state"))).code == "no-telemetry-yet"
    for mower_id in ("other", "nonsense"):
        assert (await problem(await world.get(f"/telemetry/mowers/{mower_id}/state"))).code == "not-found"


async def test_the_newest_states_of_all_that_one_may_see(world: World) -> None:
    for mower_id in ("front", "back", "other"):
        await record(world, state(), mower_id=MowerId(mower_id))
    seen = {}
    for who in (OWNER, VIEWER, STRANGER):
        response = await world.get("/telemetry/states", who)
        found = msgspec.json.decode(await response.read(), type=LatestList)
        seen[who.subject] = {s.mower_id for s in found.items}
    assert seen == {"owner": {"front", "back"}, "viewer": {"front"}, "stranger": {"other"}}


# -- history


async def test_history_in_bins_of_the_step_asked_for(world: World) -> None:
    await record(world, *(state(START + timedelta(seconds=n * 30), n) for n in range(4)))
    found = await read(
        world, "history", History, **{"from": "2026-06-01T08:00:00Z", "to": "2026-06-01T09:00:00Z", "step": "1m"}
    )
    assert (found.step, found.rows, len(found.bins)) == ("1m", None, 2)
    assert [b.samples for b in found.bins] == [2, 2]


async def test_without_a_range_it_is_the_last_day_in_a_step_that_suits(world: World) -> None:
    found = await read(world, "history", History)
    assert (found.end - found.start, found.end, found.step) == (timedelta(hours=24), START, "1m")
    week = await read(world, "history", History, **{"from": "2026-05-25T08:00:00Z"})
    assert week.step == "15m"


async def test_raw_history_is_cut_with_a_cursor_that_goes_on(world: World) -> None:
    total = limits.MAX_RAW_ROWS + 10
    world.clock.advance(total)
    await record(world, *(state(START + timedelta(seconds=n), n) for n in range(total)))
    first = await read(world, "history", History, step="raw")
    assert (len(first.rows), first.truncated) == (limits.MAX_RAW_ROWS, True)
    rest = await read(world, "history", History, step="raw", **{"from": first.cursor.isoformat()})
    assert (len(rest.rows), rest.truncated, rest.cursor) == (10, False, None)


async def test_a_step_that_is_too_fine_names_one_that_fits(world: World) -> None:
    found = await problem(
        await world.get("/telemetry/mowers/front/history", params={"from": "2026-05-25T08:00:00Z", "step": "5s"})
    )
    assert (found.status, found.code, found.fitting_step) == (422, "too-many-bins", "5m")


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"from": "2026-04-30T07:59:59Z"}, "from"),
        ({"from": "2026-06-01T08:00:00Z"}, "from"),
        ({"from": "yesterday"}, "from"),
        ({"from": "2026-06-01T00:00:00"}, "from"),
        ({"to": "1969-12-31T23:59:59Z"}, "to"),
        ({"to": "9999-12-31T23:59:59-23:00"}, "to"),
        ({"from": "0001-01-01T00:00:00+23:00"}, "from"),
        ({"step": "2m"}, "step"),
        ({"start": "2026-05-31T08:00:00Z"}, "start"),
    ],
)
async def test_wrong_questions_name_the_field(world: World, params: dict[str, str], field: str) -> None:
    response = await world.get("/telemetry/mowers/front/history", params=params)
    assert response.status == 422
    assert [m.field for m in (await problem(response)).mistakes] == [field]


# -- track and timeline


async def test_the_track_is_never_simplified_in_silence(world: World) -> None:
    await record(world, *(state(START + timedelta(seconds=n), n) for n in range(25)))
    world.clock.advance(60)
    whole = await read(world, "positions", Track, max_points="25")
    assert (len(whole.positions), whole.simplified, whole.truncated, whole.max_error_m) == (25, False, False, 0.0)
    found = await read(world, "positions", Track, max_points="10")
    assert (found.simplified, found.truncated) == (True, False)
    assert 2 <= len(found.positions) <= 10
    assert [found.positions[0], found.positions[-1]] == [whole.positions[0], whole.positions[-1]]
    assert 0.0 < found.max_error_m <= 0.01, "a straight line needs no more than its ends"


async def test_a_thinned_track_states_its_error(world: World) -> None:
    world.clock.advance(3600)
    await record(world, *(state(START + timedelta(seconds=n), n, blades_on=True) for n in range(700)))
    whole = await read(world, "positions", Track)
    assert (len(whole.positions), whole.max_error_m) == (700, 0.0)
    for number in await world.store.thinner.tracks(world.clock.now()):
        await world.store.thinner.thin_slice(number, START + timedelta(minutes=5))
    thinned = await read(world, "positions", Track)
    assert len(thinned.positions) < 700
    assert 0.0 < thinned.max_error_m <= 0.051
    later = await read(world, "positions", Track, **{"from": (START + timedelta(minutes=5)).isoformat()})
    assert (len(later.positions), later.max_error_m) == (400, 0.0)


@pytest.mark.parametrize("max_points", ["1", "20001", "x"])
async def test_max_points_has_bounds(world: World, max_points: str) -> None:
    response = await world.get("/telemetry/mowers/front/positions", params={"max_points": max_points})
    assert response.status == 422


async def test_the_timeline_of_commands(world: World) -> None:
    result = CommandResult(command_id=CommandId("c1"), mower_id=FRONT, status=CommandStatus.EXECUTED, at=START)
    await world.store.record_results([TimelineRow(result=result)])
    world.clock.advance(1)
    found = await read(world, "timeline", Timeline)
    assert [row.status for row in found.transitions] == [CommandStatus.EXECUTED]


@pytest.mark.parametrize("what", STATES)
async def test_a_foreign_mower_has_nothing(world: World, what: str) -> None:
    await record(world, state())
    for who, path in ((STRANGER, "front"), (VIEWER, "back"), (OWNER, "other")):
        assert (await world.get(f"/telemetry/mowers/{path}/{what}", who)).status == 404
