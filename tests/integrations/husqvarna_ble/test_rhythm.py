"""Moving every 30 to 60 s, in the dock every 5 minutes, helpless or nearly empty every 15 to 30: with the settings as they
come, for every state."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from core.domain.mower import AT_DOCK, MOVING, Activity, MowerState
from integrations.husqvarna_ble.rhythm import AFTER_START_S, FRESH_FAULT_S, LOW_BATTERY, PAUSED_S, rhythm_of
from integrations.husqvarna_ble.settings import SCHEMA, MowerSettings
from tests.fakes.clock import START

VALUES = SCHEMA({"address": "C0:00:00:00:00:01", "channel": 1, "serial": "1", "name": "305"})
SETTINGS = MowerSettings(**VALUES, model=None)


@given(
    activity=st.sampled_from(Activity),
    battery_percent=st.none() | st.integers(0, 100),
    unchanged_s=st.floats(0, 1e6),
    start_in_s=st.none() | st.floats(-1e6, 1e6),
    releases=st.booleans(),
)
def test_every_state_has_the_rhythm_of_the_design(
    activity: Activity, battery_percent: int | None, unchanged_s: float, start_in_s: float | None, releases: bool
) -> None:
    next_start_at = None if start_in_s is None else START + timedelta(seconds=start_in_s)
    state = MowerState(
        observed_at=START, activity=activity, battery_percent=battery_percent, next_start_at=next_start_at
    )
    settings = MowerSettings(**{**VALUES, "releases": releases}, model=None)
    found = rhythm_of(state, unchanged_s=unchanged_s, settings=settings)
    is_expected = activity in (Activity.PAUSED, Activity.UNKNOWN) and unchanged_s < PAUSED_S
    is_low = battery_percent is not None and battery_percent < LOW_BATTERY
    if activity in MOVING or is_expected:
        assert 30 <= found.interval_s <= 60
        assert found.stays
        return
    assert found.stays is not releases, "a mower that stands sleeps, and its owner's phone gets it"
    if activity in AT_DOCK:
        assert found.interval_s <= 300
        if start_in_s is None or start_in_s + AFTER_START_S > 300 or start_in_s + AFTER_START_S <= 0:
            assert found.interval_s == 300
        else:
            assert found.interval_s <= start_in_s + AFTER_START_S + 0.1, "a planned start is not missed"
    elif is_low or (activity is Activity.ERROR and unchanged_s >= FRESH_FAULT_S):
        assert 15 * 60 <= found.interval_s <= 30 * 60
    else:
        assert found.interval_s == 300
