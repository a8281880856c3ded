"""Local days: every instant in exactly one, also where clocks change."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.clock import from_us, to_us
from core.telemetry.local_days import day_of

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/St_Johns",  # set back over midnight, at 00:01
    "America/Sao_Paulo",  # midnight left out
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # half an hour
    "Pacific/Apia",  # a day left out
    "Pacific/Kiritimati",
]
HOUR_US = 3_600_000_000


def us(text: str, zone: str) -> int:
    return to_us(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(ZONES), st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1)), st.integers(-3_600, 3_600))
def test_days_follow_on_each_other_and_hold_their_instants(name: str, around: datetime, seconds: int) -> None:
    zone = ZoneInfo(name)
    stamp = to_us(around.replace(hour=0, minute=0, second=0, tzinfo=zone)) + seconds * 1_000_000
    day = day_of(stamp, zone)
    assert day.start_us <= stamp < day.end_us
    assert day_of(day.start_us, zone) == day == day_of(day.end_us - 1, zone)
    following = day_of(day.end_us, zone)
    assert following.start_us == day.end_us
    assert following.key > day.key
    assert 22 * HOUR_US < day.end_us - day.start_us < 26 * HOUR_US
    assert from_us(stamp).astimezone(zone).date() - date.fromisoformat(day.key) in {timedelta(0), -timedelta(days=1)}


@pytest.mark.parametrize(
    ("zone", "noon", "hours"),
    [
        ("Europe/Berlin", "2026-03-29T12:00", 23),
        ("Europe/Berlin", "2026-10-25T12:00", 25),
        ("Europe/Berlin", "2026-06-01T12:00", 24),
        ("America/Sao_Paulo", "2018-11-04T12:00", 23),
        ("Africa/Cairo", "2026-10-29T12:00", 25),
        ("Australia/Lord_Howe", "2026-04-05T12:00", 24.5),
    ],
)
def test_lengths_of_days(zone: str, noon: str, hours: float) -> None:
    day = day_of(us(noon, zone), ZoneInfo(zone))
    assert (day.end_us - day.start_us) / HOUR_US == hours
    assert (day.key, day.zone) == (noon[:10], zone)


def test_a_date_that_comes_back_after_its_end_belongs_to_the_next_day() -> None:
    zone = ZoneInfo("America/St_Johns")
    second_time = us("2010-11-07T00:00:59", "America/St_Johns") + 601_000_000
    assert from_us(second_time).astimezone(zone).isoformat().startswith("2010-11-06T23:11:00")
    assert day_of(second_time, zone).key == "2010-11-07"
