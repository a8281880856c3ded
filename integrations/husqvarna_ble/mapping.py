"""The only bridge between the mower's words (`wire.py`) and the domain. Pure.

Which of several states counts: an active fault, then paused, then the activity. A number that we do not know becomes
`unknown` and stays in `raw`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from core.domain import commands, events
from core.domain.clock import EPOCH
from core.domain.commands import Command
from core.domain.events import MowerEvent
from core.domain.mower import (
    AT_DOCK,
    MOVING,
    Activity,
    BladeHeight,
    Connectivity,
    ErrorClass,
    LinkKind,
    MowerError,
    MowerState,
    Signals,
    Totals,
)
from integrations.husqvarna_ble import wire
from integrations.husqvarna_ble.fault_codes import FAULT_CODES
from integrations.husqvarna_ble.wire import Mode, MowerActivity, Operation, OverrideAction, Reading, State

START_S = 3 * 3_600
"""How long a start without a duration mows."""
_QUARTER_S = 900
_DRIFT_S = 300
"""A mower's clock that is this close to a whole quarter of an hour beside ours is in another time zone, not wrong."""
_ZONE_S = 14 * 3_600
"""No time zone is further from UTC."""
_PLAN_AHEAD_S = 8 * 86_400

_FAULTY: dict[int, tuple[ErrorClass, str]] = {
    State.WAIT_FOR_SAFETYPIN: (ErrorClass.SECURITY, "It waits for its PIN to be entered on it."),
    State.STOPPED: (ErrorClass.STOP_BUTTON, "It was stopped by hand and has to be started by hand."),
    State.FATAL_ERROR: (ErrorClass.HARDWARE, "It has a fault that needs service."),
    State.ERROR: (ErrorClass.UNKNOWN, "It has a fault."),
}
_ACTIVE = frozenset({State.PENDING_START, State.IN_OPERATION, State.RESTRICTED})
_ACTIVITIES: dict[int, Activity] = {
    MowerActivity.NONE: Activity.DOCKED,
    MowerActivity.CHARGING: Activity.CHARGING,
    MowerActivity.GOING_OUT: Activity.LEAVING,
    MowerActivity.MOWING: Activity.MOWING,
    MowerActivity.GOING_HOME: Activity.RETURNING,
    MowerActivity.PARKED: Activity.DOCKED,
    MowerActivity.STOPPED_IN_GARDEN: Activity.ERROR,
}


def activity_of(reading: Reading) -> Activity:
    """What the mower does, from its state, activity and mode."""
    state, activity = reading.state, reading.activity
    if state in _FAULTY:
        return Activity.ERROR
    if state == State.PAUSED:
        return Activity.PAUSED
    if state == State.OFF:
        return Activity.IDLE
    if state not in _ACTIVE or activity is None:
        return Activity.UNKNOWN
    if state == State.PENDING_START and activity == MowerActivity.NONE:
        return Activity.ERROR
    if reading.mode == Mode.MANUAL and activity != MowerActivity.STOPPED_IN_GARDEN:
        return Activity.MANUAL
    return _ACTIVITIES.get(activity, Activity.UNKNOWN)


def state_of(
    reading: Reading, *, observed_at: datetime, error_since: datetime | None = None, ble_dbm: int | None = None
) -> MowerState:
    """A poll as a state. `error_since` is when the fault was first seen."""
    activity = activity_of(reading)
    battery = reading.battery_percent
    return MowerState(
        observed_at=observed_at,
        activity=activity,
        connectivity=Connectivity.ONLINE,
        battery_percent=battery if battery is not None and battery <= 100 else None,
        is_charging=reading.is_charging,
        error=_error_of(reading, error_since) if activity is Activity.ERROR else None,
        restricted_reason=_restriction_of(reading),
        blade_height=_height_of(reading),
        next_start_at=_next_start_of(reading, observed_at),
        is_override=None if reading.override is None else reading.override.action == OverrideAction.FORCEDMOW,
        signals=Signals(ble_dbm=ble_dbm, active_link=LinkKind.BLE),
        totals=_totals_of(reading.statistics),
        firmware=reading.firmware,
        raw=_raw_of(reading),
    )


def _error_of(reading: Reading, since: datetime | None) -> MowerError:
    """The fault: by its code, or by the state when the mower names none."""
    if reading.error:
        error_class, text = FAULT_CODES.get(reading.error, (ErrorClass.UNKNOWN, None))
        return MowerError(code=str(reading.error), error_class=error_class, text=text, since=since)
    state = reading.state if reading.state is not None else -1
    error_class, text = _FAULTY.get(state, (ErrorClass.STUCK, "It stands in the garden and needs help."))
    code = wire.word(State, state) if state in _FAULTY else "STOPPED_IN_GARDEN"
    return MowerError(code=code, error_class=error_class, text=text, since=since)


def _restriction_of(reading: Reading) -> str | None:
    if reading.state == State.OFF:
        return "switched_off"
    if reading.mode == Mode.HOME:
        return "parked_until_further_notice"
    if reading.override is not None and reading.override.action == OverrideAction.FORCEDPARK:
        return "parked_by_person"
    return "schedule" if reading.state == State.RESTRICTED and reading.next_start else None


def _height_of(reading: Reading) -> BladeHeight | None:
    return None if reading.cutting_height is None else BladeHeight(value=reading.cutting_height, unit="step")


def _next_start_of(reading: Reading, now: datetime) -> datetime | None:
    """The mower counts in its own local time; what that is beside ours is seen from its clock."""
    if not reading.next_start or reading.clock is None:
        return None
    ours = (now - EPOCH).total_seconds()
    offset = reading.clock - ours
    zone = round(offset / _QUARTER_S) * _QUARTER_S
    if abs(offset - zone) > _DRIFT_S or abs(zone) > _ZONE_S:
        zone = round(offset)
    start_s = reading.next_start - zone
    if not -3_600 <= start_s - ours <= _PLAN_AHEAD_S:
        return None
    return EPOCH + timedelta(seconds=start_s)


def _totals_of(statistics: wire.Statistics | None) -> Totals | None:
    if statistics is None:
        return None
    return Totals(
        running_s=statistics.running_s,
        mowing_s=statistics.cutting_s,
        charging_s=statistics.charging_s,
        blades_s=statistics.blade_usage_s,
        collisions=statistics.collisions,
        charge_cycles=statistics.charging_cycles,
    )


_WORDS: tuple[tuple[str, type[IntEnum]], ...] = (("mode", Mode), ("state", State), ("activity", MowerActivity))


def _raw_of(reading: Reading) -> dict[str, str]:
    """The mower's own words."""
    raw = {}
    for name, kind in _WORDS:
        value = getattr(reading, name)
        if value is not None:
            raw[name] = wire.word(kind, value)
    for name in ("error", "restriction", "next_start"):
        value = getattr(reading, name)
        if value:
            raw[name] = str(value)
    if reading.override is not None:
        raw["override"] = wire.word(OverrideAction, reading.override.action)
    if reading.statistics is not None:
        raw["searching_s"] = str(reading.statistics.searching_s)
    return raw


def unknown_words(reading: Reading) -> tuple[str, ...]:
    """The numbers of the reading that we have no name for, as `field=number`; to be logged once."""
    found = [
        f"{name}={value}"
        for name, kind in _WORDS
        if (value := getattr(reading, name)) is not None and value not in {member.value for member in kind}
    ]
    if reading.error and reading.error not in FAULT_CODES:
        found.append(f"error={reading.error}")
    return tuple(found)


# Events, which the mower does not tell: seen between two states

_AT_WORK = frozenset({Activity.LEAVING, Activity.MOWING})


def events_between(before: MowerState | None, after: MowerState) -> tuple[MowerEvent, ...]:
    """What has happened from one state to the next; nothing before the first, or out of the unknown."""
    if before is None or Activity.UNKNOWN in (before.activity, after.activity):
        return ()
    at = after.observed_at
    found: list[MowerEvent] = []
    gone, come = before.error, after.error
    if gone is not None and (come is None or come.code != gone.code):
        found.append(events.ErrorCleared(at=at, code=gone.code))
    if come is not None and (gone is None or come.code != gone.code):
        found.append(events.ErrorRaised(at=at, code=come.code, error_class=come.error_class, text=come.text))
    was_out = before.activity in MOVING or before.activity is Activity.PAUSED
    if after.activity in _AT_WORK and before.activity in AT_DOCK | {Activity.IDLE}:
        found.append(events.MowingStarted(at=at))
    elif before.activity in _AT_WORK and after.activity in AT_DOCK | {Activity.RETURNING}:
        found.append(events.MowingFinished(at=at, reason="returned"))
    if was_out and after.activity in AT_DOCK:
        found.append(events.Docked(at=at))
    return tuple(found)


# Commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One thing to tell the mower."""

    operation: Operation
    payload: bytes = b""


def orders_of(command: Command) -> tuple[Order, ...]:
    """What is told to the mower, in this order; the last one sets it in motion, or stops it. Empty when no mower of
    this brand can do it. The command's values are within the capabilities."""
    match command:
        case commands.StartMow(duration_s=duration_s):
            seconds = START_S if duration_s is None else duration_s
            return (
                Order(operation=Operation.SET_MODE, payload=wire.write_u8(Mode.AUTO)),
                Order(operation=Operation.SET_OVERRIDE_MOW, payload=wire.write_u32(seconds)),
                Order(operation=Operation.START_TRIGGER),
            )
        case commands.ReturnToDock():
            return (
                Order(operation=Operation.SET_OVERRIDE_PARK_UNTIL_NEXT_START),
                Order(operation=Operation.START_TRIGGER),
            )
        case commands.ResumeMow():
            return (Order(operation=Operation.START_TRIGGER),)
        case commands.PauseMow() | commands.EmergencyStop():
            return (Order(operation=Operation.PAUSE),)
        case commands.ResetBladeUsage():
            return (Order(operation=Operation.RESET_BLADE_TIME),)
        case _:
            return ()


REASONS: dict[int, str] = {
    wire.Result.INVALID_VALUE: "the mower does not take this value",
    wire.Result.OUT_OF_RANGE: "the value is outside of what the mower takes",
    wire.Result.NOT_AVAILABLE: "this mower cannot do that",
    wire.Result.INVALID_GROUP: "this mower does not know that command",
    wire.Result.INVALID_ID: "this mower does not know that command",
    wire.Result.DEVICE_BUSY: "the mower is busy",
    wire.Result.MOWER_BLOCKED: "the mower is locked for a while after wrong PINs",
}


def is_accepted(operation: Operation, result: int) -> bool:
    """Whether the mower has taken an order. A start that works is answered with 1 by real mowers."""
    accepted = {wire.Result.OK, wire.Result.UNKNOWN_ERROR} if operation is Operation.START_TRIGGER else {wire.Result.OK}
    return result in accepted


def reason_of(result: int) -> str:
    """Why an order was refused, for a person."""
    fallback = f"the mower refused ({wire.word(wire.Result, result)})"
    if result == wire.Result.NOT_ALLOWED:
        return "the mower does not allow that now"
    return REASONS.get(result, fallback)
