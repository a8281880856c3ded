"""The hours of the night in which heavy care may run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo


@dataclass(frozen=True, slots=True, kw_only=True)
class NightWindow:
    """From the beginning of one hour of the local clock to the beginning of another, over midnight when it is the
    smaller; equal hours are always. The aware time's local hour decides, so that a clock set forward or back needs no
    rule of its own."""

    from_hour: int
    until_hour: int
    zone: tzinfo | None
    """None is the machine's own zone."""

    def is_open(self, at: datetime) -> bool:
        """Whether `at` (aware) lies in it."""
        hour = at.astimezone(self.zone).hour
        if self.from_hour < self.until_hour:
            return self.from_hour <= hour < self.until_hour
        return self.from_hour == self.until_hour or hour >= self.from_hour or hour < self.until_hour
