"""Plausibility: what is dropped, what is refused, and that an admitted state stays as it is."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.clock import to_us
from core.domain.mower import BladeHeight, MowerError, MowerState, Position, Signals, Totals
from core.telemetry.admission import Admitted, admit, find_row_fault
from core.telemetry.rows import HistoryRow, PositionRow
from core.telemetry.significance import Place
from tests.contract.telemetry_parts import history_at, position_at
from tests.fakes.clock import START

NAN, INF = math.nan, math.inf


def state(**changes: Any) -> MowerState:
    return MowerState(**({"observed_at": START} | changes))


def admitted(**changes: Any) -> Admitted:
    return admit(state(**changes), now=START)


def test_a_plausible_state_is_the_same_object() -> None:
    whole = state(
        battery_percent=100,
        position=Position(lat=-90.0, lon=180.0, x_m=-3.0, y_m=4.0, heading_deg=360.0, accuracy_m=0.0),
        satellites=0,
        speed_mps=-0.5,
        progress_percent=100.0,
        blade_height=BladeHeight(value=0.0),
        signals=Signals(wifi_dbm=-60, ble_dbm=-90),
        totals=Totals(mowing_s=0),
        error=MowerError(code="E1", since=START),
        next_start_at=START,
        raw={"a": "b"},
    )
    found = admit(whole, now=START)
    assert found.state is whole
    assert found.dropped == ()


@pytest.mark.parametrize(
    ("changes", "dropped"),
    [
        ({"battery_percent": 101}, "battery_percent"),
        ({"battery_percent": -1}, "battery_percent"),
        ({"battery_percent": 50.5}, "battery_percent"),
        ({"battery_percent": True}, "battery_percent"),
        ({"speed_mps": NAN}, "speed_mps"),
        ({"speed_mps": 11.0}, "speed_mps"),
        ({"speed_mps": -INF}, "speed_mps"),
        ({"satellites": 201}, "satellites"),
        ({"progress_percent": NAN}, "progress_percent"),
        ({"progress_percent": 100.1}, "progress_percent"),
        ({"blade_height": BladeHeight(value=NAN)}, "blade_height"),
        ({"signals": Signals(wifi_dbm=99)}, "signals"),
        ({"totals": Totals(mowing_s=-1)}, "totals"),
        ({"error": MowerError(code="x" * 65)}, "error"),
        ({"error": MowerError(code="x", since=datetime(2026, 6, 1))}, "error"),
        ({"next_start_at": datetime(2026, 6, 1)}, "next_start_at"),
        ({"raw": {"a": "x" * 9_000}}, "raw"),
    ],
)
def test_a_wrong_part_is_dropped_by_name_and_the_rest_is_kept(changes: dict[str, Any], dropped: str) -> None:
    found = admitted(current_area="lawn", **changes)
    assert found.dropped == (dropped,)
    assert found.state is not None
    assert found.state.current_area == "lawn"
    assert getattr(found.state, dropped) != changes[dropped]


@pytest.mark.parametrize(
    ("position", "reason", "kept"),
    [
        (Position(lat=0.0, lon=0.0), "position:null-island", Position()),
        (Position(lat=91.0, lon=0.0), "position:degrees", Position()),
        (Position(lat=1.0, lon=181.0), "position:degrees", Position()),
        (Position(lat=NAN, lon=1.0, x_m=1.0, y_m=2.0), "position:degrees", Position(x_m=1.0, y_m=2.0)),
        (Position(lat=1.0, lon=INF), "position:degrees", Position()),
        (Position(lat=1.0), "position:degrees", Position()),
        (Position(lat=1.0, lon=2.0, heading_deg=361.0), "position:heading_deg", Position(lat=1.0, lon=2.0)),
        (Position(lat=1.0, lon=2.0, accuracy_m=-1.0), "position:accuracy_m", Position(lat=1.0, lon=2.0)),
        (Position(x_m=INF, y_m=0.0, heading_deg=1.0), "position:local", Position(heading_deg=1.0)),
    ],
)
def test_positions_lose_only_what_is_wrong(position: Position, reason: str, kept: Position) -> None:
    found = admitted(position=position)
    assert found.dropped == (reason,)
    assert found.state is not None
    assert found.state.position == kept


def test_several_faults_of_a_position_are_all_dropped() -> None:
    found = admitted(position=Position(lat=0.0, lon=0.0, heading_deg=NAN, accuracy_m=NAN, x_m=NAN))
    assert len(found.dropped) == 4
    assert found.state is not None
    assert found.state.position == Position()


def test_fault_codes_are_cut_not_lost() -> None:
    found = admitted(error=MowerError(code="E" * 100))
    assert found.state is not None
    assert found.state.error == MowerError(code="E" * 64)


def test_dates_are_refused_or_made_utc() -> None:
    for wrong in (datetime(2026, 6, 1, 8), START + timedelta(seconds=601), datetime(2014, 12, 31, tzinfo=START.tzinfo)):
        found = admit(state(observed_at=wrong), now=START)
        assert (found.state, found.refused) == (None, "observed_at")
    abroad = START.astimezone(timezone(timedelta(hours=9)))
    found = admit(state(observed_at=abroad), now=START)
    assert found.state is not None
    assert found.dropped == ()
    assert found.state.observed_at.utcoffset() == timedelta(0)
    assert found.state.observed_at == START


@pytest.mark.parametrize(
    ("metres", "seconds", "is_believed"), [(29, 0, True), (500, 1, False), (500, 93, False), (500, 95, True)]
)
def test_jumps_are_dropped_until_they_could_be_true(metres: float, seconds: float, is_believed: bool) -> None:
    at = START + timedelta(seconds=seconds)
    seen = Place(480_000_000, 110_000_000, None, to_us(START))
    moved = state(observed_at=at, position=Position(lat=48.0 + metres / 111_195, lon=11.0))
    assert (admit(moved, now=at, seen=seen).dropped == ()) is is_believed
    late = msgspec.structs.replace(moved, observed_at=START - timedelta(seconds=1))
    assert admit(late, now=at, seen=seen).dropped == (), "what came later says nothing about it"


@pytest.mark.parametrize("lat", [0.001, 48.0, -78.0])
def test_a_step_over_the_180th_meridian_is_no_jump(lat: float) -> None:
    seen = Place(round(lat * 1e7), 1_799_999_999, None, to_us(START))
    found = admit(state(position=Position(lat=lat, lon=-179.9999999)), now=START, seen=seen)
    assert found.dropped == ()


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (position_at(0), None),
        (history_at(0), None),
        (position_at(0, lat=NAN), "implausible:position"),
        (position_at(0, heading_deg=-1.0), "implausible:heading_deg"),
        (position_at(0, accuracy_m=INF), "implausible:accuracy_m"),
        (position_at(0, wifi_dbm=200), "implausible:signals"),
        (position_at(0, satellites=-1), "implausible:satellites"),
        (history_at(0, speed_mps=NAN), "implausible:speed_mps"),
        (history_at(0, blade_height_mm=-1.0), "implausible:blade_height_mm"),
        (history_at(0, error_code="x" * 65), "implausible:error_code"),
        (history_at(601), "future"),
        (history_at(0, observed_at=datetime(2026, 6, 1)), "implausible:at"),
        (position_at(-86_400 * 5_000), "implausible:at"),
    ],
)
def test_rows_of_a_box_are_judged_by_the_same_bounds(row: HistoryRow | PositionRow, fault: str | None) -> None:
    assert find_row_fault(row, START) == fault


any_float = st.floats(allow_nan=True, allow_infinity=True)
positions = st.builds(
    Position,
    lat=st.none() | any_float | st.floats(-90, 90),
    lon=st.none() | any_float | st.floats(-180, 180),
    heading_deg=st.none() | any_float,
    accuracy_m=st.none() | any_float,
    x_m=st.none() | any_float,
    y_m=st.none() | any_float,
)
states = st.builds(
    MowerState,
    observed_at=st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2040, 1, 1)).map(
        lambda d: d.replace(tzinfo=START.tzinfo)
    ),
    battery_percent=st.none() | st.integers(-10, 110),
    speed_mps=st.none() | any_float,
    position=st.none() | positions,
    satellites=st.none() | st.integers(-5, 300),
    signals=st.none() | st.builds(Signals, wifi_dbm=st.none() | st.integers(-300, 300)),
)


@settings(max_examples=200)
@given(states)
def test_admitting_twice_is_admitting_once(any_state: MowerState) -> None:
    once = admit(any_state, now=START)
    if once.state is None:
        return
    twice = admit(once.state, now=START)
    assert twice.state is once.state
    assert twice.dropped == ()
    assert msgspec.json.decode(msgspec.json.encode(once.state), type=MowerState) == once.state, "nothing is NaN"
