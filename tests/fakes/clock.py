"""A clock that moves only when told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 6, 1, 8, 0, tzinfo=UTC)


class ManualClock:
    """Wall and monotonic time in the hands of a test."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._monotonic = 1_000.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Both clocks move on."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Only the wall clock is set (NTP, a person); monotonic time does not notice."""
        self._now += timedelta(seconds=seconds)
