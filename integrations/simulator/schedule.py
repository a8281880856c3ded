"""The weekly plan: when it starts next, and which window has just begun. Pure.

Windows are local, the times given and returned are aware UTC; so the hour that a clock change repeats starts once.
A window that was missed (box off, clock wrong) is never made up for: software that is late does not move blades.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from integrations.simulator.wire import PlanWindow

LATEST = timedelta(seconds=60)
"""A start is obeyed at most this long after its minute."""
_DAYS = 16
"""From yesterday to two weeks ahead: one start may be skipped."""


def starts(windows: Sequence[PlanWindow], now: datetime, zone: tzinfo) -> list[tuple[datetime, PlanWindow]]:
    """The starts around `now`, in order."""
    midnight = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    found = []
    for days in range(-1, _DAYS - 1):
        day = midnight + timedelta(days=days)
        for window in windows:
            if window.weekday == day.weekday():
                begin = day.replace(hour=window.start_minute // 60, minute=window.start_minute % 60)
                found.append((begin.astimezone(UTC), window))
    return sorted(found, key=lambda start: (start[0], start[1].end_minute))


def next_start(windows: Sequence[PlanWindow], now: datetime, zone: tzinfo, *, skips_next: bool) -> datetime | None:
    """The next start after `now`, or the one after it when the next is skipped."""
    times = sorted({begin for begin, _ in starts(windows, now, zone) if begin > now})
    index = 1 if skips_next else 0
    return times[index] if len(times) > index else None


def just_begun(windows: Sequence[PlanWindow], before: datetime, now: datetime, zone: tzinfo) -> PlanWindow | None:
    """The window whose start lies after `before` and not after `now`, unless that was longer than LATEST ago."""
    for begin, window in starts(windows, now, zone):
        if before < begin <= now and now - begin <= LATEST:
            return window
    return None
