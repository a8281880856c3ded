"""Days summed up for a person."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.mower import ErrorClass, Totals
from core.telemetry.blades import BladeChange, blades_since_s
from core.telemetry.care import battery_report, blade_report, sum_days, sum_errors, vendor_totals
from core.telemetry.health_day import BatteryUse, ErrorTally, HealthDay

FIRST = datetime(2026, 6, 1, 22, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def day(number: int, *, hours: float = 24, **values: Any) -> HealthDay:
    starts_at = FIRST + timedelta(days=number)
    return HealthDay(
        day=date(2026, 6, 2) + timedelta(days=number),
        time_zone="Europe/Berlin",
        starts_at=starts_at,
        ends_at=starts_at + hours * HOUR,
        **values,
    )


def test_sums_of_nothing_are_zero_and_the_way_unknown() -> None:
    totals = sum_days([])
    assert (totals.mowing_s, totals.distance_m, totals.full_cycles) == (0, None, 0)
    assert sum_days([day(0), day(1, distance_m=5.0)]).distance_m == 5.0


def test_sums_and_the_vendors_last_word() -> None:
    use = BatteryUse(mowing_percent=75)
    days = [day(n, mowing_s=10.0 * n, area_jobs={"a": 1, "": n}, charge_cycles=2, battery=use) for n in range(3)]
    days.append(day(3, vendor=Totals(mowing_s=7)))
    days.append(day(4))
    totals = sum_days(days)
    assert (totals.mowing_s, totals.area_jobs, totals.charge_cycles, totals.full_cycles) == (30, 6, 6, 2.25)
    assert vendor_totals(days) == Totals(mowing_s=7)
    assert vendor_totals([]) is None


def test_faults_by_code_with_their_places() -> None:
    here = ErrorTally(code="E1", error_class=ErrorClass.STUCK, lat=48.0, lon=11.0, count=2, error_s=20.0)
    there = ErrorTally(code="E1", error_class=ErrorClass.STUCK, lat=48.1, lon=11.0, count=1, error_s=5.0)
    unplaced = ErrorTally(code="E1", count=1, error_s=1.0)
    days = [day(0, errors=(here, ErrorTally(code="E2", count=1))), day(1, errors=(there, here, unplaced))]
    first, second = sum_errors(days)
    assert (first.code, first.count, first.error_s, first.last_day) == ("E1", 6, 46.0, days[1].day)
    assert [(place.lat, place.count) for place in first.places] == [(48.0, 4), (48.1, 1)]
    assert (second.code, second.places) == ("E2", ())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.floats(0, 3_600), max_size=25), max_size=6),
    st.integers(-60, 7 * 1_440),
    st.integers(0, 1_440),
)
def test_blade_hours_only_shrink_the_later_the_change(days: list[list[float]], minute: int, later: int) -> None:
    found = [day(n, blades_by_hour_s=tuple(hours)) for n, hours in enumerate(days)]
    whole = sum(one.blades_s for one in found)
    at = FIRST + timedelta(minutes=minute)
    since, since_later = (blades_since_s(found, when) for when in (at, at + timedelta(minutes=later)))
    assert -1e-6 <= since_later <= since + 1e-6 <= whole + 2e-6
    assert blades_since_s(found, FIRST - HOUR) == whole
    assert blades_since_s(found, FIRST + timedelta(days=8)) == 0


def test_blades_are_counted_from_the_hour_of_their_change_and_become_due() -> None:
    days = [day(0, blades_by_hour_s=(3_600.0,) * 10), day(1, blades_by_hour_s=(3_600.0,) * 5)]
    change = (FIRST + 7.5 * HOUR, BladeChange(by="anna", note="sharp"))
    report = blade_report(days, change, 7.5)
    assert (report.used_h, report.is_due, report.changed_by, report.note) == (7.5, True, "anna", "sharp")
    assert not blade_report(days, change, 7.6).is_due
    unsaid = blade_report(days, None, None)
    assert (unsaid.used_h, unsaid.interval_h, unsaid.is_due, unsaid.changed_at) == (15, 100, False, None)


def test_the_battery_is_judged_by_days_that_say_something() -> None:
    def used(number: int, seconds: float, percent: int = 50) -> HealthDay:
        return day(number, battery=BatteryUse(mowing_s=seconds * percent, mowing_percent=percent))

    ageing = [used(n, 100 - n * 0.5) for n in range(60)] + [used(60, 9_999, percent=14)]
    report = battery_report(ageing).mowing
    assert (report.direction, report.days) == ("falling", 60)
    assert report.seconds_per_percent == pytest.approx(100 - 52.5 * 0.5)
    assert report.change_percent == pytest.approx(-15 * 100 / 73.75)
    few = battery_report(ageing[:5]).mowing
    assert (few.direction, few.seconds_per_percent, few.change_percent) == ("unknown", 99.0, None)
    none = battery_report(ageing).charging
    assert (none.direction, none.days, none.seconds_per_percent) == ("unknown", 0, None)
