"""How often a mower is asked, and whether the connection is kept meanwhile. Pure.

A mower that is asked all the time does not sleep: one that lies helpless in the garden is flat by the morning. And
while the box holds the connection, nobody's phone gets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from core.domain.mower import AT_DOCK, MOVING, Activity, MowerState
from integrations.husqvarna_ble.settings import MowerSettings

FRESH_FAULT_S = 900.0
"""So long after a fault somebody may be on the way: the mower is asked as if it stood in its dock."""
PAUSED_S = 600.0
"""A mower that was paused, or says what is not known, is expected to go on within this time."""
LOW_BATTERY = 15
AFTER_START_S = 10.0
"""A planned start is looked for this long after its time."""
LEAST_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """The next poll is due in `interval_s`; `stays`: the connection is kept until then."""

    interval_s: float
    stays: bool


def rhythm_of(state: MowerState, *, unchanged_s: float, settings: MowerSettings) -> Rhythm:
    """The rhythm after a poll; `unchanged_s` is how long the activity has been what it is."""
    activity = state.activity
    is_expected = activity in (Activity.PAUSED, Activity.UNKNOWN) and unchanged_s < PAUSED_S
    if activity in MOVING or is_expected:
        return Rhythm(interval_s=settings.poll_moving_s, stays=True)
    interval_s = settings.poll_standing_s
    is_low = activity not in AT_DOCK and state.battery_percent is not None and state.battery_percent < LOW_BATTERY
    if (activity is Activity.ERROR and unchanged_s >= FRESH_FAULT_S) or is_low:
        interval_s = settings.poll_fault_s
    if activity in AT_DOCK:
        interval_s = _not_past_start(interval_s, state.next_start_at, state.observed_at)
    return Rhythm(interval_s=interval_s, stays=not settings.releases)


def _not_past_start(interval_s: float, next_start_at: datetime | None, now: datetime) -> float:
    if next_start_at is None:
        return interval_s
    until_s = (next_start_at - now).total_seconds() + AFTER_START_S
    return max(min(interval_s, until_s), LEAST_S) if until_s > 0 else interval_s
