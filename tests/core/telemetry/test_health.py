"""Health of a mower, pair by pair."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.clock import to_us
from core.domain.mower import Activity, Connectivity, ErrorClass, MowerError, MowerState, Position, Signals, Totals
from core.telemetry.health import IDLE_RECORD_S, RECORD_S, advance, goes_on
from core.telemetry.health_day import HEALTH_DAY, HealthDay
from core.telemetry.health_tally import Health, day_body, tally_of
from core.telemetry.significance import place_of
from tests.core.telemetry.health_oracle import by_day

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 6, 1, 10, 0, tzinfo=UTC)


class Mower:
    """States in, days out; what was recorded is kept as a store would."""

    def __init__(self, zone: ZoneInfo = BERLIN) -> None:
        self.zone = zone
        self.health: Health | None = None
        self.latest: tuple[MowerState, int] | None = None
        self.recorded: dict[str, HealthDay] = {}
        self.writes: list[int] = []

    def take(self, state: MowerState) -> None:
        us = to_us(state.observed_at)
        after = (state, us, place_of(state, us))
        if self.health is None or self.latest is None or not goes_on(self.health, self.latest, after):
            self.health, versions = advance(self.health, self.latest, after, self.zone, self.recorded.get)
            for version in versions:
                self.recorded[version.day.day.isoformat()] = version.day
                self.writes.append(version.updated_us)
        self.latest = (state, us)

    def restart(self) -> None:
        """As the process does: through bytes."""
        self.health = msgspec.json.decode(msgspec.json.encode(self.health), type=Health | None)

    def days(self) -> dict[str, HealthDay]:
        """All days, the open one up to the latest state."""
        assert self.latest is not None
        state = self.latest[0]
        self.take(msgspec.structs.replace(state, observed_at=state.observed_at + timedelta(days=3)))
        return self.recorded


def state(seconds: float, activity: Activity = Activity.MOWING, **changes: Any) -> MowerState:
    known = {"connectivity": Connectivity.ONLINE, "observed_at": NOON + timedelta(seconds=seconds)}
    return MowerState(**{"activity": activity, **known, **changes})


def day_after(states: Sequence[MowerState]) -> HealthDay:
    """The single day of `states`, ended by silence: what a clamped gap after them adds is taken off by an unknown."""
    mower = Mower()
    for each in states:
        mower.take(each)
    mower.take(state(20_000, Activity.UNKNOWN))
    (day,) = [day for day in mower.days().values() if day.day == NOON.date()]
    return day


activities = st.sampled_from([*Activity, Activity.MOWING, Activity.MOWING, Activity.CHARGING])


@st.composite
def histories(draw: st.DrawFn) -> list[MowerState]:
    """Minutes around a local midnight at which clocks may change, in order of time."""
    midnight = draw(st.sampled_from([datetime(2026, 3, 29), datetime(2026, 10, 25), datetime(2026, 6, 2)]))
    begin = midnight.replace(tzinfo=BERLIN) + timedelta(minutes=draw(st.sampled_from([-5, 115, 175, 24 * 60 - 4])))
    now = begin.astimezone(UTC)
    states = []
    for _ in range(draw(st.integers(2, 25))):
        now += timedelta(microseconds=draw(st.sampled_from([1, 900_000, 10**7, 6 * 10**7, 119_999_999, 7 * 10**8])))
        states.append(
            MowerState(
                observed_at=now,
                activity=draw(activities),
                connectivity=draw(st.sampled_from([Connectivity.ONLINE, Connectivity.ONLINE, Connectivity.OFFLINE])),
                is_charging=draw(st.sampled_from([None, None, True, False])),
                blades_on=draw(st.sampled_from([None, True, False])),
                error=draw(st.sampled_from([None, None, MowerError(code="E1")])),
                battery_percent=draw(st.sampled_from([None, 80, 95])),
            )
        )
        if draw(st.booleans()):  # the same again, as heartbeats are
            now += timedelta(seconds=10)
            states.append(msgspec.structs.replace(states[-1], observed_at=now))
    return states


def sums(day: HealthDay) -> dict[str, int]:
    values = {
        "observed_us": day.observed_s,
        "mowing_us": day.mowing_s,
        "driving_us": day.driving_s,
        "charging_us": day.charging_s,
        "error_us": day.error_s,
        "blades_us": day.blades_s,
    }
    return {name: whole for name, value in values.items() if (whole := round(value * 1_000_000))}


@settings(max_examples=150, deadline=None)
@given(histories(), st.sets(st.integers(0, 50)))
def test_days_are_what_the_pairs_say_wherever_the_process_was_restarted(
    states: list[MowerState], restarts: set[int]
) -> None:
    states.append(MowerState(observed_at=states[-1].observed_at + timedelta(days=3)))
    mower = Mower()
    for number, each in enumerate(states):
        mower.take(each)
        if number in restarts:
            mower.restart()
    expected = {day: dict(found) for day, found in by_day(states, BERLIN).items()}
    assert {day: found for day, body in mower.recorded.items() if (found := sums(body))} == expected
    for day in mower.recorded.values():
        assert day.observed_s <= (day.ends_at - day.starts_at).total_seconds()


@settings(max_examples=100, deadline=None)
@given(histories())
def test_versions_of_a_day_only_grow(states: list[MowerState]) -> None:
    mower = Mower()
    seen: dict[str, dict[str, int]] = {}
    for each in states:
        mower.take(each)
        for key, day in mower.recorded.items():
            found = sums(day)
            assert all(found.get(name, 0) >= value for name, value in seen.get(key, {}).items())
            seen[key] = found


def test_a_body_comes_back_as_the_same_sums() -> None:
    mower = Mower()
    for n in range(200):
        position = Position(lat=48 + n * 1e-5, lon=11.0)
        error = MowerError(code="E1", error_class=ErrorClass.STUCK) if n % 9 == 0 else None
        signals = Signals(wifi_dbm=-60 - n % 7, ble_dbm=-80)
        mower.take(state(n * 7, position=position, error=error, signals=signals, battery_percent=90 - n // 10))
    assert mower.health is not None
    body = day_body(mower.health.day, mower.health.tally)
    assert day_body(mower.health.day, tally_of(body)) == body
    row = HEALTH_DAY.make("m", "2026-06-01", body, at=NOON, updated_at=NOON)  # type: ignore[arg-type]
    assert HEALTH_DAY.read(row) == body


def test_silence_counts_for_two_minutes_and_the_unknown_for_nothing() -> None:
    day = day_after([state(0), state(60), state(3_600), state(3_660, Activity.UNKNOWN), state(3_670), state(3_680)])
    assert (day.observed_s, day.mowing_s) == (60 + 120 + 10, 190)
    offline = state(30, connectivity=Connectivity.OFFLINE)
    assert day_after([state(0), offline, state(60), state(70)]).mowing_s == 10


def test_the_way_travelled_leaves_out_noise_jumps_and_silence() -> None:
    def at(seconds: float, north_m: float, activity: Activity = Activity.MOWING, **more: Any) -> MowerState:
        return state(seconds, activity, position=Position(lat=48 + north_m / 111_132.95, lon=11.0, **more))

    assert day_after([at(n, n * 0.3) for n in range(101)]).distance_m == pytest.approx(30.0, abs=0.7)
    assert day_after([at(n, 0.02 * (n % 2)) for n in range(100)]).distance_m is None, "noise of a standing mower"
    jump = [at(n * 3, n * 1.5 + (40 if n == 10 else 0)) for n in range(21)]
    assert day_after(jump).distance_m == pytest.approx(27.0, abs=0.2), "neither there nor back"
    assert day_after([at(0, 0), at(3, 0.5), at(300, 60), at(303, 60.5)]).distance_m == pytest.approx(1.0, abs=0.01)
    assert day_after([at(n * 10, n * 5.0, Activity.DOCKED) for n in range(5)]).distance_m is None
    assert day_after([at(n, n * 1.0, accuracy_m=20.0) for n in range(5)]).distance_m is None
    assert day_after([state(n) for n in range(5)]).distance_m is None


def test_jobs_and_charges_are_counted_where_they_begin() -> None:
    dock, out = Activity.DOCKED, Activity.LEAVING
    steps = [
        state(0, dock, is_charging=False),
        state(10, out),
        state(20, current_area="a"),
        state(30, Activity.PAUSED, current_area="a"),
        state(40, current_area="a"),
        state(50, current_area=None),
        state(60, current_area="b"),
        state(70, Activity.CHARGING, is_charging=True),
        state(80, Activity.UNKNOWN),
        state(90, Activity.CHARGING, is_charging=True),
        state(100, dock, is_charging=False),
        state(110, Activity.CHARGING),
        state(120, current_area=None),
        state(130, current_area="c"),
    ]
    day = day_after(steps)
    assert day.area_jobs == {"a": 1, "b": 1, "": 1}
    assert day.charge_cycles == 2


def test_faults_are_counted_by_code_and_place() -> None:
    here, there = Position(lat=48.0, lon=11.0), Position(lat=48.001, lon=-11.0)
    stuck = MowerError(code="E1", error_class=ErrorClass.STUCK)
    bad = Activity.ERROR
    day = day_after(
        [
            state(0, position=here),
            state(10, bad, error=stuck, position=here),
            state(20, bad, error=stuck, position=here),
            state(25, Activity.UNKNOWN),
            state(30, bad, error=stuck, position=here),
            state(40, position=here),
            state(50, bad, error=stuck, position=here),
            state(60, position=there),
            state(70, bad, error=MowerError(code="E2")),
            state(80, bad, error=stuck, position=there),
            state(90),
        ]
    )
    found = {(error.code, error.lat is None, round(error.lat or 0, 3)): error for error in day.errors}
    assert {key: (error.count, error.error_s) for key, error in found.items()} == {
        ("E1", False, 48.0): (2, 10 + 10 + 10),
        ("E2", True, 0): (1, 10),
        ("E1", False, 48.001): (1, 10),
    }
    for error in day.errors:
        if error.lat is not None and error.lon is not None:
            assert min(abs(error.lon - 11), abs(error.lon + 11)) < 1e-4
    many = [state(n, bad, error=MowerError(code=f"E{n}")) for n in range(100)]
    crowd = day_after(many)
    assert len(crowd.errors) == 25
    assert (crowd.errors[-1].code, crowd.errors[-1].count) == ("other", 76)


def test_the_battery_is_measured_while_it_is_used_and_below_the_slow_end_of_a_charge() -> None:
    mowing = [state(n * 60, battery_percent=90 - n // 2) for n in range(41)]
    flicker = [state(2_460 + n * 60, battery_percent=70 - n % 2) for n in range(3)]
    charging = [state(2_640 + n * 60, Activity.CHARGING, battery_percent=70 + n) for n in range(31)]
    battery = day_after([*mowing, *flicker, *charging]).battery
    assert (battery.mowing_percent, battery.charging_percent) == (20, 20)
    assert battery.charging_s == 20 * 60
    assert battery.mowing_s == 2_640


def test_signals_and_the_vendors_totals_are_kept() -> None:
    signals = [Signals(wifi_dbm=dbm) for dbm in (-60, -70, -65)]
    day = day_after([state(n * 5, signals=each, totals=Totals(mowing_s=n)) for n, each in enumerate(signals)])
    assert day.wifi is not None
    assert (day.wifi.samples, day.wifi.min_dbm, day.wifi.max_dbm, day.wifi.mean_dbm) == (3, -70, -60, -65)
    assert (day.ble, day.mobile) == (None, None)
    assert day.vendor == Totals(mowing_s=2)
    assert day.mowing_s == 10


def test_blades_are_counted_by_the_hour() -> None:
    start = (NOON.astimezone(BERLIN).hour + 1) * 3_600 - 90
    day = day_after([state(3_600 - 90, blades_on=True), state(3_600 + 20, blades_on=True), state(3_600 + 30)])
    assert start // 3_600 == 12
    assert day.blades_by_hour_s[12:14] == (90, 30)
    assert sum(day.blades_by_hour_s) == day.blades_s == 120


def test_records_are_few() -> None:
    mower = Mower()
    for n in range(0, 4 * 3_600, 10):
        mower.take(state(n))
    assert len(mower.writes) == 4 * 3_600 // RECORD_S - 1
    assert min(b - a for a, b in itertools.pairwise(mower.writes)) >= RECORD_S * 1_000_000
    idle = Mower()
    for n in range(0, 8 * 3_600, 10):
        idle.take(state(n, Activity.DOCKED))
    assert len(idle.writes) == 8 * 3_600 // IDLE_RECORD_S - 1


def test_a_zone_that_is_changed_goes_on_with_the_date_that_it_finds() -> None:
    mower = Mower(ZoneInfo("Pacific/Auckland"))
    evening = datetime(2026, 6, 1, 11, 58, tzinfo=UTC)  # two minutes to midnight there
    for n in range(0, 300, 10):
        if n == 120:
            mower.zone = BERLIN  # where it is still the first of June
        mower.take(state(0, observed_at=evening + timedelta(seconds=n)))
    days = mower.days()
    assert days["2026-06-01"].mowing_s == 290 + 120
    assert days["2026-06-01"].time_zone == "Europe/Berlin"
