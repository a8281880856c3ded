"""How often a mower is asked, and whether the connection is kept meanwhile. Pure.

A mower that is asked all the time does not sleep. And while the box holds the connection, nobody's phone gets it.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.domain.mower import AT_DOCK, MOVING, Activity, MowerState
from integrations.grouw_ble.settings import MowerSettings

PAUSED_S = 600.0
"""A mower that was paused is expected to go on within this time."""
LOW_BATTERY = 15


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
    is_low = activity not in AT_DOCK and state.battery_percent is not None and state.battery_percent < LOW_BATTERY
    interval_s = settings.poll_low_s if is_low else settings.poll_standing_s
    return Rhythm(interval_s=interval_s, stays=not settings.releases)
