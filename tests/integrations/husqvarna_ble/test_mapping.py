from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain import commands, events
from core.domain.mower import NEVER_CONFIRMED_REMOTELY, Activity, ErrorClass, MowerState
from integrations.husqvarna_ble import wire
from integrations.husqvarna_ble.fault_codes import FAULT_CODES
from integrations.husqvarna_ble.mapping import (
    activity_of,
    events_between,
    is_accepted,
    orders_of,
    reason_of,
    state_of,
    unknown_words,
)
from integrations.husqvarna_ble.models import BRANDS, product_of
from integrations.husqvarna_ble.rhythm import FRESH_FAULT_S, PAUSED_S, Rhythm, rhythm_of
from integrations.husqvarna_ble.settings import MowerSettings
from integrations.husqvarna_ble.wire import Mode, Model, MowerActivity, Operation, Override, Reading, Result, State
from tests.contract.integration_contract import assert_plausible

NOW = datetime(2026, 6, 1, 8, 0, tzinfo=UTC)
LOCAL_S = int((NOW + timedelta(hours=2)).timestamp())
"""What a mower's clock in Berlin shows then."""


@pytest.mark.parametrize(
    ("state", "activity", "mode", "expected"),
    [
        (6, 3, 0, Activity.MOWING),
        (6, 2, 0, Activity.LEAVING),
        (6, 4, 0, Activity.RETURNING),
        (7, 4, 0, Activity.RETURNING),
        (7, 5, 0, Activity.DOCKED),
        (7, 5, 2, Activity.DOCKED),
        (4, 5, 0, Activity.DOCKED),
        (6, 0, 0, Activity.DOCKED),
        (6, 1, 0, Activity.CHARGING),
        (7, 1, 0, Activity.CHARGING),
        (5, 3, 0, Activity.PAUSED),
        (5, 6, 0, Activity.PAUSED),
        (5, 3, 1, Activity.PAUSED),
        (0, 0, 0, Activity.IDLE),
        (1, 5, 0, Activity.ERROR),
        (2, 5, 0, Activity.ERROR),
        (3, 3, 0, Activity.ERROR),
        (8, 3, 0, Activity.ERROR),
        (4, 0, 0, Activity.ERROR),
        (6, 6, 0, Activity.ERROR),
        (6, 3, 1, Activity.MANUAL),
        (6, 6, 1, Activity.ERROR),
        (11, 3, 0, Activity.UNKNOWN),
        (6, 7, 0, Activity.UNKNOWN),
        (None, 3, 0, Activity.UNKNOWN),
        (6, None, 0, Activity.UNKNOWN),
        (6, 3, 9, Activity.MOWING),
        (6, 3, None, Activity.MOWING),
    ],
)
def test_a_fault_counts_before_a_pause_and_that_before_the_activity(state, activity, mode, expected):
    assert activity_of(Reading(state=state, activity=activity, mode=mode)) is expected


def test_what_was_not_read_is_none_and_not_zero():
    state = state_of(Reading(), observed_at=NOW)
    assert state.activity is Activity.UNKNOWN
    fields = ("battery_percent", "is_charging", "error", "blade_height", "next_start_at", "totals", "firmware")
    assert [getattr(state, name) for name in fields] == [None] * len(fields)
    assert state.raw == {}


def test_unknown_numbers_stay_in_raw():
    reading = Reading(state=11, activity=9, mode=7, error=999, restriction=42)
    state = state_of(reading, observed_at=NOW)
    assert state.activity is Activity.UNKNOWN
    assert state.raw == {"state": "11", "activity": "9", "mode": "7", "error": "999", "restriction": "42"}
    assert unknown_words(reading) == ("mode=7", "state=11", "activity=9", "error=999")
    assert unknown_words(Reading(state=6, activity=3, mode=0, error=0)) == ()


def test_an_error_code_without_a_fault_is_history():
    state = state_of(Reading(state=6, activity=3, error=9), observed_at=NOW)
    assert state.error is None
    assert state.raw is not None
    assert state.raw["error"] == "9"


@pytest.mark.parametrize(
    ("reading", "code", "error_class"),
    [
        (Reading(state=8, activity=6, error=9), "9", ErrorClass.TRAPPED),
        (Reading(state=8, activity=6, error=15), "15", ErrorClass.LIFTED),
        (Reading(state=8, activity=6, error=4711), "4711", ErrorClass.UNKNOWN),
        (Reading(state=2, activity=6, error=0), "STOPPED", ErrorClass.STOP_BUTTON),
        (Reading(state=1, activity=5), "WAIT_FOR_SAFETYPIN", ErrorClass.SECURITY),
        (Reading(state=6, activity=6), "STOPPED_IN_GARDEN", ErrorClass.STUCK),
        (Reading(state=4, activity=0), "STOPPED_IN_GARDEN", ErrorClass.STUCK),
    ],
)
def test_faults(reading, code, error_class):
    state = state_of(reading, observed_at=NOW, error_since=NOW)
    assert state.error is not None
    assert (state.error.code, state.error.error_class, state.error.since) == (code, error_class, NOW)
    assert not state.error.is_confirmable


def test_a_fault_that_only_somebody_beside_the_mower_may_clear():
    classes = {FAULT_CODES[code][0] for code in (10, 14, 15, 31, 33, 70, 71, 72)}
    assert classes <= NEVER_CONFIRMED_REMOTELY


@pytest.mark.parametrize(
    ("clock", "next_start", "expected"),
    [
        (LOCAL_S, LOCAL_S + 3600, NOW + timedelta(hours=1)),
        (LOCAL_S + 120, LOCAL_S + 3600, NOW + timedelta(hours=1)),  # it is two minutes fast: its zone still shows
        (LOCAL_S, 0, None),
        (LOCAL_S, None, None),
        (None, LOCAL_S + 3600, None),
        (LOCAL_S, LOCAL_S + 30 * 86_400, None),
        (LOCAL_S, LOCAL_S - 86_400, None),
        (1000, 4600, NOW + timedelta(hours=1)),  # a clock that was never set
    ],
)
def test_the_next_start_is_told_in_the_mowers_local_time(clock, next_start, expected):
    state = state_of(Reading(clock=clock, next_start=next_start), observed_at=NOW)
    assert state.next_start_at == expected


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        (Reading(state=7, activity=5, mode=2), "parked_until_further_notice"),
        (Reading(state=7, activity=5, mode=0, override=Override(action=1, start=0, duration_s=0)), "parked_by_person"),
        (Reading(state=7, activity=5, mode=0, next_start=LOCAL_S), "schedule"),
        (Reading(state=7, activity=5, mode=0), None),
        (Reading(state=0), "switched_off"),
    ],
)
def test_why_it_does_not_mow(reading, reason):
    assert state_of(reading, observed_at=NOW).restricted_reason == reason


_numbers = st.one_of(st.none(), st.integers(0, 255))
_u32 = st.one_of(st.none(), st.integers(0, 0xFFFFFFFF))


@given(
    reading=st.builds(
        Reading,
        mode=_numbers,
        state=_numbers,
        activity=_numbers,
        error=_u32,
        battery_percent=_numbers,
        next_start=_u32,
        clock=_u32,
        cutting_height=_numbers,
    )
)
def test_no_reading_breaks_a_state(reading):
    assert_plausible(state_of(reading, observed_at=NOW, error_since=NOW))
    unknown_words(reading)


def seen(activity: Activity, **more: object) -> MowerState:
    words = {
        Activity.DOCKED: Reading(state=7, activity=5),
        Activity.CHARGING: Reading(state=7, activity=1),
        Activity.LEAVING: Reading(state=6, activity=2),
        Activity.MOWING: Reading(state=6, activity=3),
        Activity.RETURNING: Reading(state=6, activity=4),
        Activity.PAUSED: Reading(state=5, activity=3),
        Activity.ERROR: Reading(state=8, activity=6, error=int(str(more.get("error", 9)))),
        Activity.UNKNOWN: Reading(state=11),
    }
    return state_of(words[activity], observed_at=NOW, error_since=NOW)


def kinds(before: MowerState | None, after: MowerState) -> list[str]:
    return [events.kind_of(event) for event in events_between(before, after)]


def test_events_between_two_states():
    assert kinds(None, seen(Activity.ERROR)) == []
    assert kinds(seen(Activity.DOCKED), seen(Activity.DOCKED)) == []
    assert kinds(seen(Activity.CHARGING), seen(Activity.LEAVING)) == ["mowing_started"]
    assert kinds(seen(Activity.LEAVING), seen(Activity.MOWING)) == []
    assert kinds(seen(Activity.MOWING), seen(Activity.RETURNING)) == ["mowing_finished"]
    assert kinds(seen(Activity.RETURNING), seen(Activity.CHARGING)) == ["docked"]
    assert kinds(seen(Activity.MOWING), seen(Activity.CHARGING)) == ["mowing_finished", "docked"]
    assert kinds(seen(Activity.MOWING), seen(Activity.ERROR)) == ["error_raised"]
    assert kinds(seen(Activity.ERROR), seen(Activity.DOCKED)) == ["error_cleared"]
    assert kinds(seen(Activity.ERROR), seen(Activity.ERROR, error=15)) == ["error_cleared", "error_raised"]
    assert kinds(seen(Activity.MOWING), seen(Activity.UNKNOWN)) == []
    assert kinds(seen(Activity.UNKNOWN), seen(Activity.DOCKED)) == []


def operations(command: commands.Command) -> list[Operation]:
    return [order.operation for order in orders_of(command)]


def test_orders_end_with_what_sets_it_in_motion():
    start = orders_of(commands.StartMow(duration_s=7200))
    assert [order.operation for order in start] == [
        Operation.SET_MODE,
        Operation.SET_OVERRIDE_MOW,
        Operation.START_TRIGGER,
    ]
    assert wire.read_u8(start[0].payload) == Mode.AUTO
    assert wire.read_u32(start[1].payload) == 7200
    assert wire.read_u32(orders_of(commands.StartMow())[1].payload) == 10_800
    assert operations(commands.ReturnToDock()) == [
        Operation.SET_OVERRIDE_PARK_UNTIL_NEXT_START,
        Operation.START_TRIGGER,
    ]
    assert operations(commands.PauseMow()) == operations(commands.EmergencyStop()) == [Operation.PAUSE]
    assert operations(commands.FindMower()) == []


def test_every_capability_has_orders():
    samples: dict[str, commands.Command] = {
        "start_mow": commands.StartMow(),
        "pause_mow": commands.PauseMow(),
        "resume_mow": commands.ResumeMow(),
        "return_to_dock": commands.ReturnToDock(),
        "emergency_stop": commands.EmergencyStop(),
        "reset_blade_usage": commands.ResetBladeUsage(),
    }
    for capabilities in BRANDS.values():
        for name in capabilities.__struct_fields__:
            if getattr(capabilities, name) is not None:
                assert orders_of(samples[name])


def test_only_a_start_may_be_answered_with_an_unknown_error():
    assert is_accepted(Operation.START_TRIGGER, Result.UNKNOWN_ERROR)
    assert not is_accepted(Operation.START_TRIGGER, Result.NOT_ALLOWED)
    assert not is_accepted(Operation.PAUSE, Result.UNKNOWN_ERROR)
    assert all(reason_of(result) for result in (*Result, 200))


@pytest.mark.parametrize(
    ("model", "name", "vendor", "title"),
    [
        (Model(device_type=23, variant=1), "305", "husqvarna", "Automower 305"),
        (Model(device_type=99, variant=3), "SILENO minimo", "gardena", "Gardena 99.3"),
        (None, "EasiLife GO 500", "flymo", None),
        (None, "ROB S400", "mcculloch", None),
        (None, "Robert's mower", "husqvarna", None),
        (None, "", "husqvarna", None),
    ],
)
def test_brands(model, name, vendor, title):
    product = product_of(model, name)
    assert (product.vendor, product.name) == (vendor, title)
    assert product.capabilities == BRANDS[vendor]


SETTINGS = MowerSettings(
    address="C4:64:E3:23:04:12",
    channel=1,
    serial="1",
    name="305",
    model=None,
    releases=True,
    poll_moving_s=30,
    poll_standing_s=300,
    poll_fault_s=1200,
    settle_s=3,
    answer_s=10,
)


def rhythm(reading: Reading, unchanged_s: float = 0.0) -> Rhythm:
    return rhythm_of(state_of(reading, observed_at=NOW), unchanged_s=unchanged_s, settings=SETTINGS)


def test_a_mower_that_stands_is_left_alone():
    assert rhythm(Reading(state=6, activity=3)) == Rhythm(interval_s=30, stays=True)
    assert rhythm(Reading()) == Rhythm(interval_s=30, stays=True)
    assert rhythm(Reading(state=7, activity=5)) == Rhythm(interval_s=300, stays=False)
    assert rhythm(Reading(state=5, activity=3)) == Rhythm(interval_s=30, stays=True)
    assert rhythm(Reading(state=5, activity=3), PAUSED_S) == Rhythm(interval_s=300, stays=False)
    assert rhythm(Reading(state=8, activity=6)) == Rhythm(interval_s=300, stays=False)
    assert rhythm(Reading(state=8, activity=6), FRESH_FAULT_S) == Rhythm(interval_s=1200, stays=False)
    assert rhythm(Reading(state=5, activity=3, battery_percent=9), PAUSED_S).interval_s == 1200
    assert rhythm(Reading(state=7, activity=1, battery_percent=9)).interval_s == 300


def test_a_planned_start_is_not_missed():
    soon = Reading(state=7, activity=5, clock=LOCAL_S, next_start=LOCAL_S + 60)
    assert rhythm(soon).interval_s == 70
    later = Reading(state=7, activity=5, clock=LOCAL_S, next_start=LOCAL_S + 3600)
    assert rhythm(later).interval_s == 300


def test_states_have_names():
    assert wire.word(State, 7) == "RESTRICTED"
    assert wire.word(MowerActivity, 77) == "77"
