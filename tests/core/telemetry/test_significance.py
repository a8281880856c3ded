"""Which rows a state is worth, as a pure rule (the store's contract tests each rule with its effect)."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.geo import GeoPoint
from core.domain.geo import distance_m as plane_distance_m
from core.domain.mower import BladeHeight, MowerState, Position, RtkFix
from core.telemetry.significance import (
    Fingerprint,
    Place,
    Remembered,
    decide,
    distance_m,
    fingerprint_of,
    history_row,
    place_of,
    position_row,
    remember,
)
from tests.contract.telemetry_parts import state_at


def follow(states: list[MowerState]) -> tuple[list[float], list[float]]:
    """Seconds of the history and position rows that the states make, one after the other."""
    memory: Remembered | None = None
    histories, positions = [], []
    for state in states:
        decision = decide(memory, state)
        seconds = decision.observed_us / 1e6
        if decision.writes_history:
            histories.append(seconds)
        if decision.writes_position:
            positions.append(seconds)
        memory = remember(
            memory, decision, wrote_history=decision.writes_history, wrote_position=decision.writes_position
        )
    return histories, positions


@settings(max_examples=100)
@given(st.lists(st.tuples(st.floats(0.001, 400), st.integers(0, 3), st.integers(78, 80)), min_size=1, max_size=60))
def test_a_gap_in_history_means_silence(steps: list[tuple[float, int, int]]) -> None:
    """Between two history rows more than a heartbeat apart there is a gap in the states themselves."""
    states, seconds = [], 0.0
    for elapsed, north, battery in steps:
        seconds += elapsed
        states.append(state_at(seconds, north=north, battery_percent=battery))
    histories, positions = follow(states)
    times = [decide(None, state).observed_us / 1e6 for state in states]
    for rows in (histories, positions):
        assert rows[0] == times[0]
        for here, there in zip(rows, [*rows[1:], times[-1] + 1e-6], strict=True):
            heard = [t for t in times if here < t < there]
            assert not heard or heard[-1] - here < 300.0


def test_a_row_that_was_not_made_is_not_remembered() -> None:
    first = decide(None, state_at(0))
    memory = remember(None, first, wrote_history=False, wrote_position=False)
    assert memory == Remembered(observed_us=first.observed_us, seen=first.place)
    again = decide(memory, state_at(1))
    assert again.writes_history
    assert again.writes_position


def test_late_states_leave_the_memory_alone() -> None:
    first = decide(None, state_at(100))
    memory = remember(None, first, wrote_history=True, wrote_position=True)
    late = decide(memory, state_at(1, battery_percent=3, north=500))
    assert late.is_older
    assert late.writes_history
    assert late.writes_position
    assert remember(memory, late, wrote_history=True, wrote_position=True) is memory


def test_a_fingerprint_survives_the_database() -> None:
    state = state_at(0, blade_height=BladeHeight(value=3, unit="step"))
    fingerprint = fingerprint_of(state)
    place = place_of(state, 5)
    stored = msgspec.json.encode((fingerprint, place))
    assert msgspec.json.decode(stored, type=tuple[Fingerprint, Place]) == (fingerprint, place)
    memory = Remembered(
        observed_us=0, history_written_us=decide(None, state).observed_us, history=fingerprint, position=place
    )
    reread = msgspec.structs.replace(memory, history=msgspec.json.decode(stored, type=tuple[Fingerprint, Place])[0])
    assert not decide(reread, state).writes_history


def test_blade_heights_in_steps_have_no_millimetres() -> None:
    assert history_row("m", state_at(0, blade_height=BladeHeight(value=3, unit="step"))).blade_height_mm is None
    assert history_row("m", state_at(0, blade_height=BladeHeight(value=42.5))).blade_height_mm == 42.5


def test_a_track_row_takes_the_stored_place() -> None:
    state = state_at(0, position=Position(lat=48.00000004, lon=11.00000006))
    place = place_of(state, 0)
    assert place is not None
    row = position_row("m", state, place)
    assert (row.lat, row.lon) == (48.0, 11.0000001)


lats = st.floats(-85, 85)
lons = st.floats(-180, 180)
offsets = st.floats(-0.005, 0.005)


@settings(max_examples=200)
@given(lats, lons, offsets, offsets)
def test_distances_agree_with_the_ellipsoid(lat: float, lon: float, north: float, east: float) -> None:
    a = GeoPoint(lat=lat, lon=lon)
    b = GeoPoint(lat=lat + north, lon=(lon + east + 540.0) % 360.0 - 180.0)
    exact = plane_distance_m(a, b)
    places = [Place(round(p.lat * 1e7), round(p.lon * 1e7), None, 0) for p in (a, b)]
    assert math.isclose(distance_m(*places), exact, rel_tol=0.01, abs_tol=0.03)


@pytest.mark.parametrize("fix", [None, *RtkFix])
def test_every_fix_is_told_from_every_other(fix: RtkFix | None) -> None:
    first = decide(None, state_at(0, rtk_fix=fix))
    memory = remember(None, first, wrote_history=True, wrote_position=True)
    for other in [None, *RtkFix]:
        assert decide(memory, state_at(1, rtk_fix=other)).writes_position == (other is not fix)
