"""The two clocks: wall time (aware UTC) for dates, monotonic time for durations."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Injected wherever time is read, so that tests own it."""

    def now(self) -> datetime:
        """Wall time, aware UTC, microseconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump; comparable only within one process."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def to_us(at: datetime) -> int:
    """Microseconds since 1970-01-01 UTC of an aware datetime, exactly."""
    since = at - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_us(stamp_us: int) -> datetime:
    """The aware UTC datetime of `stamp_us` microseconds since 1970-01-01; OverflowError outside years 1 to 9999."""
    return EPOCH + timedelta(microseconds=stamp_us)
