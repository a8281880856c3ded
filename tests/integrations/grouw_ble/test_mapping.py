"""The mower's words as states, events and orders. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from core.domain import commands
from core.domain.mower import Activity, LinkKind, MowerState
from integrations.grouw_ble.mapping import (
    UNPROTECTED,
    activity_of,
    events_between,
    needs_status,
    order_of,
    state_of,
    unknown_words,
)
from integrations.grouw_ble.models import CAPABILITIES
from integrations.grouw_ble.rhythm import PAUSED_S, rhythm_of
from integrations.grouw_ble.wire import Order, Status

AT = datetime(2026, 6, 25, 12, tzinfo=UTC)


def status(station: int, mode: int, battery: int = 77) -> Status:
    return Status(battery=battery, station=station, mode=mode, data=bytes(15))


@pytest.mark.parametrize(
    ("station", "mode", "activity"),
    [
        (1, 0x14, Activity.DOCKED),
        (1, 0x00, Activity.DOCKED),
        (1, 0x03, Activity.DOCKED),
        (1, 0x63, Activity.DOCKED),
        (0, 0x00, Activity.MOWING),
        (0, 0x01, Activity.MOWING),
        (0, 0x03, Activity.RETURNING),
        (0, 0x14, Activity.PAUSED),
        (0, 0x63, Activity.UNKNOWN),
        (9, 0x00, Activity.MOWING),
        (9, 0x03, Activity.RETURNING),
        (9, 0x14, Activity.UNKNOWN),
    ],
)
def test_activities(station, mode, activity):
    assert activity_of(status(station, mode)) is activity


def test_a_state_holds_what_was_said_and_nothing_else():
    state = state_of(status(0, 0x00), observed_at=AT, ble_dbm=-70)
    assert (state.battery_percent, state.activity) == (77, Activity.MOWING)
    assert state.signals is not None
    assert (state.signals.ble_dbm, state.signals.active_link) == (-70, LinkKind.BLE)
    assert (state.is_charging, state.error, state.position, state.blades_on) == (None, None, None, None)
    assert state_of(status(0, 0, battery=200), observed_at=AT).battery_percent is None


def test_every_state_says_that_the_mower_is_not_protected():
    state = state_of(status(1, 0x14), observed_at=AT)
    assert state.raw == {"mode": "14", "station": "01", "status": "00" * 15, "warning": UNPROTECTED}


def test_unknown_words():
    assert unknown_words(status(1, 0x14)) == ()
    assert unknown_words(status(4, 0x63, battery=101)) == ("mode=63", "station=04", "battery=101")


@pytest.mark.parametrize(
    ("command", "station", "mode", "expected"),
    [
        (commands.StartMow(), 1, 0x14, Order.START),
        (commands.StartMow(), 1, 0x00, Order.START),
        (commands.StartMow(), 0, 0x14, Order.RESUME),
        (commands.StartMow(), 0, 0x03, Order.RESUME),
        (commands.StartMow(), 0, 0x00, "mowing already"),
        (commands.StartMow(), 0, 0x63, "unknown"),
        (commands.StartMow(), 7, 0x14, "station"),
        (commands.ResumeMow(), 0, 0x14, Order.RESUME),
        (commands.ResumeMow(), 1, 0x14, "start it instead"),
        (commands.ResumeMow(), 7, 0x00, "station"),
    ],
)
def test_a_start_depends_on_where_the_mower_is(command, station, mode, expected):
    assert needs_status(command)
    order = order_of(command, status(station, mode))
    if isinstance(expected, Order):
        assert order is expected
    else:
        assert expected in str(order)
    assert isinstance(order_of(command, None), str)


def test_standing_still_and_going_home_depend_on_nothing():
    for said in (None, status(1, 0x14), status(9, 0x63)):
        assert order_of(commands.EmergencyStop(), said) is Order.PAUSE
        assert order_of(commands.PauseMow(), said) is Order.PAUSE
        assert order_of(commands.ReturnToDock(), said) is Order.DOCK
    assert isinstance(order_of(commands.FindMower(), status(1, 0x14)), str)


def test_nothing_but_a_start_or_resume_of_a_person_moves_it_out():
    """Over everything that a mower can say: only these two commands become an order that mows."""
    for station, mode in product((0, 1, 2, 255), range(256)):
        said = status(station, mode)
        for command in (commands.EmergencyStop(), commands.PauseMow(), commands.ReturnToDock()):
            assert order_of(command, said) not in (Order.START, Order.RESUME)


def test_capabilities_and_orders_agree():
    for kind in commands.KINDS:
        ability = getattr(CAPABILITIES, kind)
        made: Any = {
            "start_mow": commands.StartMow(),
            "resume_mow": commands.ResumeMow(),
            "pause_mow": commands.PauseMow(),
            "return_to_dock": commands.ReturnToDock(),
            "emergency_stop": commands.EmergencyStop(),
        }.get(kind)
        assert (ability is not None) == (made is not None)


def state(activity: Activity, battery: int | None = 80) -> MowerState:
    return MowerState(observed_at=AT, activity=activity, battery_percent=battery)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Activity.DOCKED, Activity.MOWING, ["MowingStarted"]),
        (Activity.PAUSED, Activity.MOWING, []),
        (Activity.MOWING, Activity.RETURNING, ["MowingFinished"]),
        (Activity.RETURNING, Activity.DOCKED, ["Docked"]),
        (Activity.MOWING, Activity.DOCKED, ["MowingFinished", "Docked"]),
        (Activity.PAUSED, Activity.DOCKED, ["Docked"]),
        (Activity.DOCKED, Activity.DOCKED, []),
        (Activity.UNKNOWN, Activity.MOWING, []),
        (Activity.MOWING, Activity.UNKNOWN, []),
    ],
)
def test_events(before, after, expected):
    assert [type(event).__name__ for event in events_between(state(before), state(after))] == expected
    assert events_between(None, state(after)) == ()


def test_rhythm():
    settings: Any = SimpleNamespace(poll_moving_s=30.0, poll_standing_s=300.0, poll_low_s=1200.0, releases=True)

    def rhythm(activity: Activity, unchanged_s: float = 0.0, battery: int | None = 80) -> tuple[float, bool]:
        found = rhythm_of(state(activity, battery), unchanged_s=unchanged_s, settings=settings)
        return found.interval_s, found.stays

    assert rhythm(Activity.MOWING, 99_999.0) == (30.0, True)
    assert rhythm(Activity.RETURNING) == (30.0, True)
    assert rhythm(Activity.DOCKED) == (300.0, False)
    assert rhythm(Activity.PAUSED) == (30.0, True)
    assert rhythm(Activity.PAUSED, PAUSED_S) == (300.0, False)
    assert rhythm(Activity.UNKNOWN, PAUSED_S) == (300.0, False)
    assert rhythm(Activity.PAUSED, PAUSED_S, 10) == (1200.0, False)
    assert rhythm(Activity.PAUSED, PAUSED_S, None) == (300.0, False)
    assert rhythm(Activity.DOCKED, PAUSED_S, 10) == (300.0, False)
