"""Days of a garden: stretches of time from one local midnight to the next, 23 to 25 hours long.

Every instant lies in exactly one day, also where clocks change at midnight, and in zones that left a day out.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from core.domain.clock import from_us, to_us

_DAY = timedelta(days=1)


class LocalDay(msgspec.Struct, frozen=True, array_like=True):
    """`key` is the date (`2026-06-01`) in `zone`; the day is `start_us <= t < end_us` (microseconds since 1970)."""

    key: str
    zone: str
    start_us: int
    end_us: int


def day_of(stamp_us: int, zone: ZoneInfo) -> LocalDay:
    """The day that an instant belongs to. Years 2 to 9998."""
    day = from_us(stamp_us).astimezone(zone).date()
    # Clocks that are set back over midnight show a date again that is over.
    while stamp_us < midnight_us(day, zone):
        day -= _DAY
    while stamp_us >= midnight_us(day + _DAY, zone):
        day += _DAY
    return LocalDay(day.isoformat(), zone.key, midnight_us(day, zone), midnight_us(day + _DAY, zone))


def midnight_us(day: date, zone: ZoneInfo) -> int:
    """When a date begins: at the first midnight of two, and where clocks leave midnight out, when they do."""
    return to_us(datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC))
