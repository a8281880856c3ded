"""Moving every 30 to 60 s, standing every 5 minutes, nearly empty every 15 to 30: with the settings as they come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.domain.mower import AT_DOCK, MOVING, Activity, MowerState
from integrations.grouw_ble.rhythm import LOW_BATTERY, PAUSED_S, rhythm_of
from integrations.grouw_ble.settings import SCHEMA, MowerSettings
from tests.fakes.clock import START

VALUES = SCHEMA({"address": "C0:00:00:00:00:01", "name": "Mower"})


@given(
    activity=st.sampled_from(Activity),
    battery_percent=st.none() | st.integers(0, 100),
    unchanged_s=st.floats(0, 1e6),
    releases=st.booleans(),
)
def test_every_state_has_the_rhythm_of_the_design(
    activity: Activity, battery_percent: int | None, unchanged_s: float, releases: bool
) -> None:
    state = MowerState(observed_at=START, activity=activity, battery_percent=battery_percent)
    found = rhythm_of(state, unchanged_s=unchanged_s, settings=MowerSettings(**{**VALUES, "releases": releases}))
    is_expected = activity in (Activity.PAUSED, Activity.UNKNOWN) and unchanged_s < PAUSED_S
    is_low = battery_percent is not None and battery_percent < LOW_BATTERY
    if activity in MOVING or is_expected:
        assert 30 <= found.interval_s <= 60
        assert found.stays
        return
    assert found.stays is not releases
    if is_low and activity not in AT_DOCK:
        assert 15 * 60 <= found.interval_s <= 30 * 60
    else:
        assert found.interval_s == 300
