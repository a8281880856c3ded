"""What no sensor should say, on the way through the box's recording and the relay's ingest: what becomes of each value,
the reason that is counted, and that everything afterwards is as if it had never come.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.domain.mower import Activity, MowerState, Position
from core.telemetry.admission import JUMP_SLACK_M, JUMP_SPEED_MPS
from core.telemetry.rows import HistoryRow, PositionRow
from core.telemetry.significance import DEGREE, Place, distance_m
from tests.contract import telemetry_parts as parts
from tests.contract.telemetry_health import days
from tests.contract.telemetry_parts import EDGE, HOME, MOWER, STREAM, at, history_at, numbered, position_at, state_at
from tests.core.storage.test_sqlite_store import opened

LATE_S = 40 * 86_400
STEP_DEG = 1e-6


def place(lat: float, lon: float) -> Position:
    return Position(lat=lat, lon=lon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """A state that cannot be, and what is said of it: `refused` whole, or without the parts in `dropped`."""

    changes: dict[str, Any] = field(default_factory=dict)
    observed_at: datetime | None = None
    refused: str | None = None
    dropped: tuple[str, ...] = ()

    def state(self, seconds: float) -> MowerState:
        fields = self.changes if self.observed_at is None else {**self.changes, "observed_at": self.observed_at}
        return state_at(seconds, north=seconds * 100, **fields)


HOSTILE = {
    "a jump of 500 m": Hostile(changes={"position": place(48.0045, 11.0)}, dropped=("position:jump",)),
    "(0, 0)": Hostile(changes={"position": place(0.0, 0.0)}, dropped=("position:null-island",)),
    "NaN": Hostile(changes={"position": place(math.nan, 11.0)}, dropped=("position:degrees",)),
    "infinite latitude": Hostile(changes={"position": place(math.inf, 11.0)}, dropped=("position:degrees",)),
    "infinite longitude": Hostile(changes={"position": place(48.0, -math.inf)}, dropped=("position:degrees",)),
    "91 degrees": Hostile(changes={"position": place(91.0, 11.0)}, dropped=("position:degrees",)),
    "battery of 101": Hostile(changes={"battery_percent": 101}, dropped=("battery_percent",)),
    "battery of -1": Hostile(changes={"battery_percent": -1}, dropped=("battery_percent",)),
    "speed NaN": Hostile(changes={"speed_mps": math.nan}, dropped=("speed_mps",)),
    "next week": Hostile(observed_at=at(7 * 86_400), refused="implausible:observed_at"),
    "1970": Hostile(observed_at=at(0).replace(year=1970), refused="implausible:observed_at"),
    "no zone": Hostile(observed_at=at(20).replace(tzinfo=None), refused="implausible:observed_at"),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
async def test_the_box_names_it_and_goes_on(hostile: Hostile, tmp_path: Path) -> None:
    good = [state_at(second, north=second * 100) for second in range(0, 60, 5)]
    async with opened(tmp_path / "a.db") as store, opened(tmp_path / "b.db") as pure:
        for each in (store, pure):
            await parts.settle(each)
        await parts.record(store, *good[:6])
        (written,) = await store.record_states([(MOWER, HOME, hostile.state(26))], received_at=at(26))
        assert written.skipped == hostile.refused
        assert written.dropped == hostile.dropped
        assert written.latest == (hostile.refused is None)
        end = state_at(LATE_S, activity=Activity.DOCKED)
        assert all(w.skipped is None for w in await parts.record(store, *good[6:], end))
        await parts.record(pure, *good, end)
        latest = await store.latest(HOME, MOWER)
        assert latest is not None
        assert latest.state == end
        extra = {at(26)} if hostile.refused is None else set()
        for row in await parts.track(store):
            assert abs(row.lat - 48.0) < 0.001
            assert row.lon == pytest.approx(11.0)
        assert {row.observed_at for row in await parts.histories(store)} <= {
            row.observed_at for row in await parts.histories(pure)
        } | extra | {at(30)}
        assert all(row.battery_percent in (80, None) for row in await parts.histories(store))
        bins = await store.history_bins(HOME, MOWER, at(0), at(60), step_s=60)
        assert [(one.battery_min, one.battery_max) for one in bins] == [(80, 80)]
        (day,), (clean,) = (await days(store)).values(), (await days(pure)).values()
        assert day.distance_m == pytest.approx(clean.distance_m, abs=0.1)
        assert day.mowing_s == pytest.approx(clean.mowing_s, abs=1e-3)


FAR_PLACES = {
    "over the 180th meridian": (-16.8, 180.0 - 10 * STEP_DEG),
    "at the equator": (-10 * STEP_DEG, 36.8),
    "78 degrees north": (78.2, 15.6),
}


@pytest.mark.parametrize("start", FAR_PLACES.values(), ids=FAR_PLACES)
async def test_a_mower_at_the_ends_of_the_world_is_a_mower(start: tuple[float, float], tmp_path: Path) -> None:
    lat, lon = start
    states = []
    for step in range(20):
        east = lon + step * STEP_DEG
        here = place(lat + step * STEP_DEG, east - 360.0 if east > 180.0 else east)
        states.append(state_at(step * 5, position=here))
    end = state_at(LATE_S, activity=Activity.DOCKED, position=None)
    async with opened(tmp_path / "a.db") as box, opened(tmp_path / "b.db", is_journal=False) as relay:
        await parts.settle(box)
        await parts.settle(relay)
        written = await parts.record(box, *states, end)
        assert all(w.skipped is None and w.dropped == () for w in written)
        track = await parts.track(box)
        assert len(track) == len(states)
        points = [Place(round(row.lat * DEGREE), round(row.lon * DEGREE), None, 0) for row in track]
        length = sum(distance_m(a, b) for a, b in itertools.pairwise(points))
        assert 2.0 < length < 4.0
        (day,) = (await days(box)).values()
        assert day.distance_m == pytest.approx(length, rel=0.02)
        rows = [row.row for row in await parts.journal(box)]
        done = await relay.ingest(EDGE, HOME, STREAM, numbered(*rows), last_seq=len(rows), received_at=end.observed_at)
        assert done.rejected == ()
        assert await parts.track(relay) == track


ROWS: dict[str, tuple[HistoryRow | PositionRow, str | None]] = {
    "(0, 0)": (position_at(20, lat=0.0, lon=0.0), "implausible:position"),
    "NaN": (position_at(20, lat=math.nan), "implausible:position"),
    "infinity": (position_at(20, lon=math.inf), "implausible:position"),
    "181 degrees": (position_at(20, lon=181.0), "implausible:position"),
    "heading NaN": (position_at(20, heading_deg=math.nan), "implausible:heading_deg"),
    "battery of 101": (history_at(20, battery_percent=101), "implausible:battery_percent"),
    "speed infinite": (history_at(20, speed_mps=math.inf), "implausible:speed_mps"),
    "track of next week": (position_at(7 * 86_400), "future"),
    "history of next week": (history_at(7 * 86_400), "future"),
    "1970": (history_at(0, observed_at=at(0).replace(year=1970)), "implausible:at"),
    # the box has judged it by what it saw before; rows come in any order, and the relay takes a place for what it is
    "a jump of 500 m": (position_at(20, lat=48.0045), None),
}


@pytest.mark.parametrize(("row", "reason"), ROWS.values(), ids=ROWS)
async def test_the_relay_quarantines_it_and_takes_the_rest(
    row: HistoryRow | PositionRow, reason: str | None, tmp_path: Path
) -> None:
    async with opened(tmp_path / "a.db", is_journal=False) as relay:
        await parts.settle(relay)
        rows = numbered(history_at(10), position_at(10), row, history_at(30), position_at(30))
        done = await relay.ingest(EDGE, HOME, STREAM, rows, last_seq=5, received_at=at(40))
        assert [(one.seq, one.reason) for one in done.rejected] == ([] if reason is None else [(3, reason)])
        assert done.acked_seq == 5
        counts = await relay.counts()
        assert counts["quarantine"] == len(done.rejected)
        assert counts["mower_history"] + counts["mower_positions"] == 5 - len(done.rejected)
        assert len(await relay.history_bins(HOME, MOWER, at(0), at(60), step_s=60)) == 1


def test_500_metres_are_a_jump_in_a_second_and_a_drive_in_two_minutes() -> None:
    assert JUMP_SLACK_M + JUMP_SPEED_MPS * 1 < 500.0 < JUMP_SLACK_M + JUMP_SPEED_MPS * timedelta(minutes=2).seconds
