"""Commands: what may be asked, of whom, for how long, and how its effect is seen.

A command is checked (capability, range, precondition), sent once, and then confirmed by the observed state.
Motion is never repeated by software.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, assert_never

import msgspec

from core.domain import limits
from core.domain.access import Relation
from core.domain.capabilities import Capabilities, Range
from core.domain.errors import Mistake
from core.domain.ids import CommandId, MowerId
from core.domain.mower import AT_DOCK, NEVER_CONFIRMED_REMOTELY, Activity, MowerState


class _Command(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """Root of the tagged union; `kind` is the tag on every wire."""


class StartMow(_Command, frozen=True, kw_only=True, tag="start_mow"):
    area_ids: tuple[str, ...] = ()
    duration_s: int | None = None


class PauseMow(_Command, frozen=True, kw_only=True, tag="pause_mow"):
    pass


class ResumeMow(_Command, frozen=True, kw_only=True, tag="resume_mow"):
    pass


class ReturnToDock(_Command, frozen=True, kw_only=True, tag="return_to_dock"):
    pass


class SetBladeHeight(_Command, frozen=True, kw_only=True, tag="set_blade_height"):
    height_mm: float


class SetSpeed(_Command, frozen=True, kw_only=True, tag="set_speed"):
    speed_mps: float


class MowSpot(_Command, frozen=True, kw_only=True, tag="mow_spot"):
    lat: float
    lon: float
    radius_m: float


class ScheduleWindow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A window of the week in the garden's local time. Monday is 0; minutes since midnight."""

    weekday: int
    start_minute: int
    end_minute: int
    area_ids: tuple[str, ...] = ()


class SetSchedule(_Command, frozen=True, kw_only=True, tag="set_schedule"):
    windows: tuple[ScheduleWindow, ...]


class SkipNext(_Command, frozen=True, kw_only=True, tag="skip_next"):
    pass


class ConfirmError(_Command, frozen=True, kw_only=True, tag="confirm_error"):
    pass


class ResetBladeUsage(_Command, frozen=True, kw_only=True, tag="reset_blade_usage"):
    pass


class FindMower(_Command, frozen=True, kw_only=True, tag="find_mower"):
    pass


class ManualDrive(_Command, frozen=True, kw_only=True, tag="manual_drive"):
    """Begin to drive by hand; blades stay off. It stays `accepted` for as long as somebody drives, and is `executed`
    when the drive session has ended (the reason says why)."""


class EmergencyStop(_Command, frozen=True, kw_only=True, tag="emergency_stop"):
    pass


Command = (
    StartMow
    | PauseMow
    | ResumeMow
    | ReturnToDock
    | SetBladeHeight
    | SetSpeed
    | MowSpot
    | SetSchedule
    | SkipNext
    | ConfirmError
    | ResetBladeUsage
    | FindMower
    | ManualDrive
    | EmergencyStop
)

KINDS: tuple[str, ...] = tuple(sorted(str(c.__struct_config__.tag) for c in Command.__args__))


def kind_of(command: Command) -> str:
    """The command's tag, e.g. `start_mow`."""
    return str(type(command).__struct_config__.tag)


class Priority(StrEnum):
    """An emergency waits behind nothing."""

    NORMAL = "normal"
    EMERGENCY = "emergency"


class CommandStatus(StrEnum):
    """`pending < accepted < {rejected, executed, expired, failed}`."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    EXECUTED = "executed"
    EXPIRED = "expired"
    FAILED = "failed"


FINAL = frozenset({CommandStatus.REJECTED, CommandStatus.EXECUTED, CommandStatus.EXPIRED, CommandStatus.FAILED})
_IN_MOTION = frozenset({Activity.MOWING, Activity.LEAVING, Activity.RETURNING})
_RANK = {CommandStatus.PENDING: 0, CommandStatus.ACCEPTED: 1, **dict.fromkeys(FINAL, 2)}

NO_ANSWER = "no answer from the box"
"""Reason of an `expired` that the relay only infers from silence; the box's own word replaces it."""


RIGHT_LOST = "who gave it may not do this any more"
"""Reason of a command that was refused or cancelled because its giver's right was taken away while it waited."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """One transition of a command, dated by the box (or the relay, for what never left it)."""

    command_id: CommandId
    mower_id: MowerId
    status: CommandStatus
    at: datetime
    reason: str | None = None


def does_advance(current: CommandStatus, current_reason: str | None, following: CommandStatus) -> bool:
    """Whether `following` moves a command on. A late or repeated result never moves it back; only an inferred
    `expired` (NO_ANSWER) yields to what the box itself says."""
    if current is CommandStatus.EXPIRED and current_reason == NO_ANSWER:
        return following in FINAL and following is not CommandStatus.EXPIRED
    return _RANK[following] > _RANK[current]


class IssuedBy(msgspec.Struct, frozen=True, kw_only=True):
    """Who asked: `subject` is a user's or token's id, `display` a name for people."""

    kind: Literal["user", "service", "local", "system"]
    subject: str
    display: str = ""


def priority_of(command: Command) -> Priority:
    """Only an emergency stop is an emergency."""
    return Priority.EMERGENCY if isinstance(command, EmergencyStop) else Priority.NORMAL


def relation_of(command: Command) -> Relation:
    """The right that a person needs on the mower."""
    match command:
        case EmergencyStop():
            return Relation.CAN_EMERGENCY_STOP
        case ManualDrive():
            return Relation.CAN_DRIVE
        case _:
            return Relation.CAN_CONTROL


def time_to_live(command: Command) -> timedelta:
    """How long the command may wait before it may no longer run."""
    match command:
        case EmergencyStop():
            return limits.EMERGENCY_TTL
        case ManualDrive():
            return limits.DRIVE_TTL
        case _:
            return limits.COMMAND_TTL


def starts_motion(command: Command) -> bool:
    """Whether the command sets a standing machine in motion."""
    return isinstance(command, StartMow | ResumeMow | MowSpot | ManualDrive | ReturnToDock)


def confirm_timeout_s(command: Command, capabilities: Capabilities) -> float | None:
    """How long the effect may take to show, or None when the mower cannot do it at all."""
    ability = getattr(capabilities, kind_of(command))
    return None if ability is None else float(ability.confirm_timeout_s)


def answer_timeout_s(command: Command, capabilities: Capabilities) -> float | None:
    """How long after its acceptance a command may stay without a final result: a drive lives as long as its session."""
    timeout_s = confirm_timeout_s(command, capabilities)
    if timeout_s is None or not isinstance(command, ManualDrive):
        return timeout_s
    return timeout_s + limits.DRIVE_SESSION.total_seconds()


def find_mistakes(command: Command, capabilities: Capabilities) -> tuple[Mistake, ...]:
    """Every value of the command outside what the mower takes; empty when all is well or it cannot do it."""
    match command:
        case StartMow(area_ids=area_ids, duration_s=duration_s):
            return _start_mistakes(area_ids, duration_s, capabilities)
        case SetBladeHeight(height_mm=height_mm):
            return _range_mistakes("height_mm", height_mm, capabilities.set_blade_height)
        case SetSpeed(speed_mps=speed_mps):
            return _range_mistakes("speed_mps", speed_mps, capabilities.set_speed)
        case MowSpot(radius_m=radius_m, lat=lat, lon=lon):
            spot = capabilities.mow_spot
            if spot is None:
                return ()
            radius = _range_mistakes("radius_m", radius_m, Range(minimum=0.1, maximum=spot.max_radius_m))
            return (
                *radius,
                *_range_mistakes("lat", lat, Range(minimum=-90, maximum=90)),
                *_range_mistakes("lon", lon, Range(minimum=-180, maximum=180)),
            )
        case SetSchedule(windows=windows):
            return _schedule_mistakes(windows, capabilities)
        case (
            PauseMow()
            | ResumeMow()
            | ReturnToDock()
            | SkipNext()
            | ConfirmError()
            | ResetBladeUsage()
            | FindMower()
            | ManualDrive()
            | EmergencyStop()
        ):
            return ()
        case _:
            assert_never(command)


def _start_mistakes(area_ids: tuple[str, ...], duration_s: int | None, caps: Capabilities) -> tuple[Mistake, ...]:
    if caps.start_mow is None:
        return ()
    found = []
    if area_ids and not caps.start_mow.takes_areas:
        found.append(Mistake(field="area_ids", reason="this mower does not take areas"))
    found += _area_mistakes("area_ids", area_ids)
    if duration_s is not None:
        longest = caps.start_mow.max_duration_s
        if longest is None:
            found.append(Mistake(field="duration_s", reason="this mower does not take a duration"))
        elif not 60 <= duration_s <= longest:
            found.append(Mistake(field="duration_s", reason=f"must be between 60 and {longest}"))
    return tuple(found)


def _area_mistakes(field: str, area_ids: Sequence[str]) -> list[Mistake]:
    """A command is kept for months and has to fit into one message, so its lists have an end."""
    if len(area_ids) > limits.AREAS_PER_COMMAND:
        return [Mistake(field=field, reason=f"at most {limits.AREAS_PER_COMMAND}")]
    if any(len(area_id) > limits.AREA_ID_CHARS for area_id in area_ids):
        return [Mistake(field=field, reason=f"at most {limits.AREA_ID_CHARS} characters each")]
    return []


def _range_mistakes(field: str, value: float, bounds: Range | None) -> tuple[Mistake, ...]:
    if bounds is None or bounds.minimum <= value <= bounds.maximum:  # NaN compares false and is refused
        return ()
    return (Mistake(field=field, reason=f"must be between {bounds.minimum:g} and {bounds.maximum:g}"),)


def _schedule_mistakes(windows: tuple[ScheduleWindow, ...], caps: Capabilities) -> tuple[Mistake, ...]:
    if caps.set_schedule is None:
        return ()
    found = []
    if len(windows) > caps.set_schedule.max_windows:
        found.append(Mistake(field="windows", reason=f"at most {caps.set_schedule.max_windows}"))
    for index, window in enumerate(windows):
        if not 0 <= window.weekday <= 6:
            found.append(Mistake(field=f"windows.{index}.weekday", reason="must be 0 (Monday) to 6"))
        if not 0 <= window.start_minute < window.end_minute <= 1440:
            found.append(Mistake(field=f"windows.{index}", reason="must start before it ends, within one day"))
    return (*found, *_area_mistakes("windows", [area_id for window in windows for area_id in window.area_ids]))


def find_obstacle(command: Command, state: MowerState | None) -> str | None:
    """Why the command makes no sense or is not safe in the current state; None when nothing is in its way.

    An unknown state is an obstacle to motion, never to stopping.
    """
    if isinstance(command, EmergencyStop):
        return None
    if state is None or state.activity is Activity.UNKNOWN:
        return "the mower's state is unknown" if starts_motion(command) else None
    error = state.error
    match command:
        case ConfirmError():
            if error is None:
                return "there is no error to confirm"
            if error.error_class in NEVER_CONFIRMED_REMOTELY:
                return "somebody has to look at the mower: this error is confirmed only beside it"
            return None if error.is_confirmable else "the mower does not let this error be confirmed from afar"
        case StartMow() | ResumeMow() | MowSpot() | ManualDrive() | ReturnToDock() if error is not None:
            return f"the mower reports an error ({error.code})"
        case PauseMow() if state.activity not in {*_IN_MOTION, Activity.MANUAL}:
            return f"nothing to pause: the mower is {state.activity}"
        case ResumeMow() if state.activity is not Activity.PAUSED:
            return f"nothing to resume: the mower is {state.activity}"
        case StartMow() | MowSpot() if state.activity is Activity.MANUAL:
            return "somebody is driving the mower by hand"
        case ManualDrive() if state.activity in _IN_MOTION:
            return f"pause the mower first: it is {state.activity}"
        case _:
            return None


def is_confirmed(command: Command, before: MowerState | None, after: MowerState) -> bool:
    """Whether the state `after` shows the command's effect. Commands without a visible effect confirm at once."""
    match command:
        case StartMow(area_ids=area_ids):
            if after.activity is Activity.LEAVING:
                return True
            in_area = not area_ids or after.current_area is None or after.current_area in area_ids
            return after.activity is Activity.MOWING and in_area
        case MowSpot():
            return after.activity in {Activity.LEAVING, Activity.MOWING}
        case ResumeMow():
            return after.activity in {Activity.MOWING, Activity.LEAVING, Activity.RETURNING}
        case PauseMow():
            was_driven = before is not None and before.activity is Activity.MANUAL  # it may have no job to go on with
            return after.activity is Activity.PAUSED or (was_driven and after.activity in {Activity.IDLE, *AT_DOCK})
        case ReturnToDock():
            return after.activity is Activity.RETURNING or after.activity in AT_DOCK
        case EmergencyStop():
            standing = {Activity.PAUSED, Activity.IDLE, Activity.ERROR, *AT_DOCK}
            return after.activity in standing and after.blades_on is not True
        case ManualDrive():
            return after.activity is Activity.MANUAL and after.blades_on is not True
        case SetBladeHeight(height_mm=height_mm):
            height = after.blade_height
            return height is not None and height.unit == "mm" and abs(height.value - height_mm) < 0.5
        case ConfirmError():
            return after.error is None
        case SetSpeed() | SetSchedule() | SkipNext() | ResetBladeUsage() | FindMower():
            return before is None or after.observed_at >= before.observed_at
        case _:
            assert_never(command)
