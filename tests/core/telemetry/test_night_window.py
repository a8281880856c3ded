"""The hours of the night."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.telemetry.night_window import NightWindow


@pytest.mark.parametrize(
    ("begin", "end", "hours"),
    [(1, 5, {1, 2, 3, 4}), (22, 2, {22, 23, 0, 1}), (3, 3, set(range(24))), (23, 0, {23}), (0, 23, set(range(23)))],
)
def test_hours(begin: int, end: int, hours: set[int]) -> None:
    window = NightWindow(from_hour=begin, until_hour=end, zone=UTC)
    day = datetime(2026, 6, 1, tzinfo=UTC)
    assert {hour for hour in range(24) if window.is_open(day + timedelta(hours=hour, minutes=59))} == hours


@given(st.datetimes(timezones=st.just(UTC)), st.integers(-12, 14))
def test_the_zone_decides(at: datetime, offset: int) -> None:
    try:
        hour = at.astimezone(timezone(timedelta(hours=offset))).hour
    except OverflowError:
        return
    window = NightWindow(from_hour=1, until_hour=5, zone=timezone(timedelta(hours=offset)))
    assert window.is_open(at) is (1 <= hour < 5)


def test_clocks_set_forward_and_back() -> None:
    window = NightWindow(from_hour=2, until_hour=3, zone=ZoneInfo("Europe/Berlin"))
    spring = [datetime(2026, 3, 29, 0, 30, tzinfo=UTC) + timedelta(minutes=30 * n) for n in range(4)]
    assert not any(window.is_open(at) for at in spring), "there is no hour from two to three"
    autumn = [datetime(2026, 10, 24, 23, 45, tzinfo=UTC) + timedelta(minutes=30 * n) for n in range(6)]
    assert [window.is_open(at) for at in autumn] == [False, True, True, True, True, False], "it comes twice"
