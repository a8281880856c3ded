from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrations.simulator.battery import CUTTING_S, Battery
from integrations.simulator.joystick import Joystick
from integrations.simulator.lawn import make_garden
from integrations.simulator.reception import Receiver, sky_view, wifi_dbm
from integrations.simulator.schedule import just_begun, next_start
from integrations.simulator.shapes import circle, distance, grow, heading_deg, holds, length
from integrations.simulator.weather import Weather
from integrations.simulator.wire import Fix, PlanWindow

BERLIN = ZoneInfo("Europe/Berlin")


@given(st.floats(0, 100), st.lists(st.tuples(st.booleans(), st.floats(0, 1e6)), max_size=20))
def test_a_battery_stays_between_empty_and_full(percent, uses):
    battery = Battery(percent)
    for is_charging, seconds in uses:
        if is_charging:
            battery.charge(seconds)
        else:
            battery.drain(seconds, CUTTING_S)
        assert 0 <= battery.percent <= 100


def test_a_battery_charges_slower_when_it_is_nearly_full():
    battery, times = Battery(0), {}
    for second in range(20_000):
        battery.charge(1)
        times.setdefault(int(battery.percent), second)
    assert battery.is_full
    assert times[100] - times[90] > 2 * (times[60] - times[50])


def test_rain_comes_and_goes_and_only_when_asked():
    wet, dry = Weather(random.Random(5), has_rain=True), Weather(random.Random(5), has_rain=False)
    changes = sum(wet.pass_by(60) for _ in range(7 * 24 * 60))
    assert 60 < changes < 180
    assert not any(dry.pass_by(60) for _ in range(10_000))


@pytest.mark.parametrize("seed", range(6))
def test_the_sky_is_open_on_the_lawn_and_hidden_by_house_and_trees(seed):
    garden = make_garden(seed)
    tree = max(garden.trees, key=lambda t: t.crown_m)
    assert sky_view(garden, (1.0, 1.0)) == 1.0
    assert sky_view(garden, (tree.at[0] + tree.trunk_m, tree.at[1])) < 0.3
    assert sky_view(garden, garden.dock) < 0.6
    assert wifi_dbm(garden, garden.dock) > wifi_dbm(garden, (2.0, 47.0)) + 10
    assert wifi_dbm(garden, (900.0, 900.0)) >= -95


def test_a_fix_gets_worse_under_trees_and_its_error_with_it():
    garden = make_garden(1)
    tree = max(garden.trees, key=lambda t: t.crown_m)
    spots = {"open": (1.0, 1.0), "tree": (tree.at[0] + tree.trunk_m, tree.at[1])}
    errors, fixes = {}, {}
    for name, spot in spots.items():
        receiver = Receiver(garden, random.Random(7))
        seen = []
        for _ in range(2000):
            receiver.update(spot, 1.0)
            seen.append(distance(spot, receiver.seen_at(spot) or spot))
        errors[name], fixes[name] = sum(seen) / len(seen), receiver.fix
    assert fixes == {"open": Fix.FIXED, "tree": Fix.SINGLE}
    assert errors["open"] < 0.05
    assert 0.3 < errors["tree"] < 3.5


def test_no_fix_is_no_position():
    receiver = Receiver(make_garden(1), random.Random(1), fix=Fix.NONE)
    assert receiver.seen_at((3.0, 3.0)) is None
    assert receiver.accuracy_m is None


def test_a_joystick_frame_holds_for_its_time_and_no_longer():
    stick = Joystick()
    assert stick.move(5, 3.0, -9.0, 100.0, 0.6)
    assert (stick.linear, stick.angular) == (1.0, -1.0)
    assert stick.lasts_s(100.0, 0.25) == 0.25
    assert stick.lasts_s(100.5, 0.25) == pytest.approx(0.1)
    assert stick.lasts_s(100.75, 0.25) == 0
    for sequence, linear, ttl_s in ((5, 0.1, 1.0), (4, 0.1, 1.0), (6, float("nan"), 1.0), (7, 0.1, -1.0)):
        assert not stick.move(sequence, linear, 0.0, 101.0, ttl_s)


@given(st.floats(0.5, 5), st.floats(0.05, 0.4), st.booleans())
def test_a_ring_grows_outwards_whichever_way_it_runs(radius, by_m, is_clockwise):
    ring = circle((3.0, 4.0), radius)
    ring = ring[::-1] if is_clockwise else ring
    bigger = grow(ring, by_m)
    assert all(holds(bigger, corner) for corner in ring)
    assert all(not holds(ring, corner) for corner in bigger)


def test_headings_are_of_the_compass():
    assert heading_deg((0, 0), (0, 1)) == 0
    assert heading_deg((0, 0), (1, 0)) == 90
    assert heading_deg((0, 0), (-1, 0)) == 270
    assert length([(0, 0), (3, 4), (3, 5)]) == 6


def at(day, hour, minute=0, zone=BERLIN, fold=0):
    return datetime(2026, *day, hour, minute, tzinfo=zone, fold=fold).astimezone(UTC)


MORNINGS = tuple(PlanWindow(weekday=day, start_minute=9 * 60, end_minute=11 * 60) for day in (0, 3))


def test_the_next_start_is_local_and_may_be_skipped():
    monday = at((6, 1), 8)
    assert next_start(MORNINGS, monday, BERLIN, skips_next=False) == at((6, 1), 9)
    assert next_start(MORNINGS, monday, BERLIN, skips_next=True) == at((6, 4), 9)
    assert next_start(MORNINGS, at((6, 1), 9), BERLIN, skips_next=False) == at((6, 4), 9)
    assert next_start((), monday, BERLIN, skips_next=False) is None


def test_a_window_begins_once_and_is_never_made_up_for():
    nine = at((6, 1), 9)
    second = timedelta(seconds=1)
    assert just_begun(MORNINGS, nine - second, nine, BERLIN) == MORNINGS[0]
    assert just_begun(MORNINGS, nine, nine + second, BERLIN) is None
    assert just_begun(MORNINGS, nine - second, nine + 61 * second, BERLIN) is None, "too late"
    assert just_begun(MORNINGS, nine + second, nine - second, BERLIN) is None, "the clock was set back"


@pytest.mark.parametrize(
    ("weekday", "day", "minute"), [(6, (10, 25), 150), (6, (3, 29), 150)], ids=["repeated hour", "missing hour"]
)
def test_a_change_of_the_clock_starts_it_once(weekday, day, minute):
    window = PlanWindow(weekday=weekday, start_minute=minute, end_minute=minute + 60)
    start = at(day, 0)
    looks = [start + timedelta(seconds=30 * step) for step in range(6 * 120)]
    begun = [b for a, b in pairwise(looks) if just_begun((window,), a, b, BERLIN)]
    assert len(begun) == 1
