"""Sunray's words in the words of the domain. Pure: the same status and notes give the same state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.events import Docked, ErrorCleared, ErrorRaised, MowerEvent, MowingFinished, MowingStarted
from core.domain.mower import (
    AT_DOCK,
    NEVER_CONFIRMED_REMOTELY,
    Activity,
    Connectivity,
    ErrorClass,
    LinkKind,
    MowerError,
    MowerState,
    Position,
    RtkFix,
    RtkSource,
    Signals,
    Totals,
)
from integrations.ardumower.areas import Patch, find_area
from integrations.ardumower.battery import percent_of
from integrations.ardumower.frame import FARTHEST_M, FRAME, LocalFrame
from integrations.ardumower.wire import Op, Sensor, Solution, Status, Version

CHARGED_A = 0.2
"""Below this the charger holds the battery full."""
CORRECTED_S = 10.0
"""Corrections older than this do not carry the solution any more."""
_RAW_TEXT = 400

_ERRORS: dict[Sensor, tuple[ErrorClass, str]] = {
    Sensor.NONE: (ErrorClass.UNKNOWN, "The mower stopped with an error and names no cause."),
    Sensor.BATTERY_UNDERVOLTAGE: (ErrorClass.BATTERY, "The battery is empty."),
    Sensor.OBSTACLE: (ErrorClass.TRAPPED, "An obstacle is in the way."),
    Sensor.GPS_FIX_TIMEOUT: (ErrorClass.POSITION, "There was no exact position for too long."),
    Sensor.IMU_TIMEOUT: (ErrorClass.HARDWARE, "The inertial sensor does not answer."),
    Sensor.IMU_TILT: (ErrorClass.TILTED, "The mower is tilted."),
    Sensor.KIDNAPPED: (ErrorClass.POSITION, "The mower is not where it should be."),
    Sensor.OVERLOAD: (ErrorClass.BLADES, "A motor is overloaded."),
    Sensor.MOTOR_ERROR: (ErrorClass.WHEELS, "A motor has a fault."),
    Sensor.GPS_INVALID: (ErrorClass.POSITION, "There is no position."),
    Sensor.ODOMETRY_ERROR: (ErrorClass.STUCK, "The wheels turn and the mower does not move."),
    Sensor.MAP_NO_ROUTE: (ErrorClass.BOUNDARY, "No way leads to the target."),
    Sensor.MEMORY_OVERFLOW: (ErrorClass.HARDWARE, "The mower's memory is full."),
    Sensor.BUMPER: (ErrorClass.COLLISION, "The bumper is pressed."),
    Sensor.SONAR: (ErrorClass.COLLISION, "The ultrasonic sensor sees an obstacle."),
    Sensor.LIFT: (ErrorClass.LIFTED, "The mower was lifted."),
    Sensor.RAIN: (ErrorClass.RAIN, "It rains."),
    Sensor.STOP_BUTTON: (ErrorClass.STOP_BUTTON, "The stop button was pressed."),
    Sensor.TEMPERATURE: (ErrorClass.HARDWARE, "The mower is too hot or too cold."),
    Sensor.UNKNOWN: (ErrorClass.UNKNOWN, "The mower stopped with an error that Mowdeck does not know."),
}
_BESIDE_IT = {Sensor.UNKNOWN, Sensor.OVERLOAD, Sensor.MOTOR_ERROR, Sensor.MEMORY_OVERFLOW, Sensor.IMU_TIMEOUT}
"""Faults behind which something may be caught or broken: somebody has to look."""
_FIXES = {
    Solution.INVALID: RtkFix.NONE,
    Solution.FLOAT: RtkFix.FLOAT,
    Solution.FIX: RtkFix.FIXED,
    Solution.UNKNOWN: RtkFix.UNKNOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Garden:
    """What the entry says about mower and garden."""

    link: LinkKind
    frame: LocalFrame
    patches: tuple[Patch, ...]
    cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """What the status itself does not say."""

    is_stopped: bool = False
    """A job was interrupted and can be resumed."""
    is_driven: bool = False
    """Somebody drives it by hand over this link."""
    error_since: datetime | None = None
    totals: Totals | None = None
    obstacles: str | None = None
    rssi_dbm: int | None = None


def state_of(status: Status, version: Version | None, garden: Garden, notes: Notes, at: datetime) -> MowerState:
    """The whole state as seen at `at`."""
    activity = activity_of(status, notes)
    x_m, y_m = _place(status)
    has_rain_stop = status.sensor is Sensor.RAIN and status.op in (Op.DOCK, Op.CHARGE)
    return MowerState(
        observed_at=at,
        activity=activity,
        connectivity=Connectivity.ONLINE,
        battery_percent=percent_of(status.volts, garden.cells),
        is_charging=activity is Activity.CHARGING if status.op is not Op.UNKNOWN else None,
        error=_error(status, notes.error_since),
        restricted_reason="rain" if has_rain_stop else None,
        position=_position(status, garden.frame),
        rtk_fix=None if status.solution is None else _FIXES[status.solution],
        rtk_source=_source(status),
        satellites=status.satellites if status.satellites is not None and 0 <= status.satellites < 100 else None,
        current_area=None if x_m is None or y_m is None else find_area(garden.patches, x_m, y_m),
        next_start_at=next_start(status, at),
        is_raining=True if has_rain_stop else None,
        signals=Signals(
            ble_dbm=notes.rssi_dbm if garden.link is LinkKind.BLE else None,
            active_link=garden.link,
        ),
        totals=notes.totals,
        firmware=None if version is None else version.version,
        raw=_raw(status, notes),
    )


def activity_of(status: Status, notes: Notes) -> Activity:
    """Fault first, then what is known beyond the status, then what the mower says."""
    match status.op:
        case Op.ERROR:
            return Activity.ERROR
        case Op.IDLE | Op.CHARGE if notes.is_driven:
            return Activity.MANUAL
        case Op.IDLE:
            return Activity.PAUSED if notes.is_stopped else Activity.IDLE
        case Op.MOW:
            return Activity.MOWING
        case Op.DOCK:
            return Activity.RETURNING
        case Op.CHARGE:
            is_full = status.amps is None or abs(status.amps) < CHARGED_A
            return Activity.DOCKED if is_full else Activity.CHARGING
        case _:
            return Activity.UNKNOWN


def is_confirmable(sensor: Sensor) -> bool:
    """Whether a fault may be cleared by somebody who does not stand beside the mower."""
    return sensor not in _BESIDE_IT and _ERRORS[sensor][0] not in NEVER_CONFIRMED_REMOTELY


def _error(status: Status, since: datetime | None) -> MowerError | None:
    if status.op is not Op.ERROR:
        return None
    error_class, text = _ERRORS[status.sensor]
    word = status.words[8][:16] if len(status.words) > 8 else ""
    return MowerError(
        code=word if status.sensor is Sensor.UNKNOWN and word else str(status.sensor.value),
        error_class=error_class,
        text=text,
        since=since,
        is_confirmable=is_confirmable(status.sensor),
    )


def _place(status: Status) -> tuple[float | None, float | None]:
    """Metres of its own frame, if it knows where it is: without a solution it only reckons from its wheels."""
    x_m, y_m = status.x_m, status.y_m
    if status.solution not in (Solution.FLOAT, Solution.FIX) or x_m is None or y_m is None:
        return None, None
    return (x_m, y_m) if max(abs(x_m), abs(y_m)) <= FARTHEST_M else (None, None)


def _position(status: Status, frame: LocalFrame) -> Position | None:
    x_m, y_m = _place(status)
    if x_m is None or y_m is None:
        return None
    place = frame.place(x_m, y_m)
    accuracy_m = status.accuracy_m
    return Position(
        lat=None if place is None else place.lat,
        lon=None if place is None else place.lon,
        x_m=x_m,
        y_m=y_m,
        frame=FRAME,
        heading_deg=None if status.heading_rad is None else frame.heading_deg(status.heading_rad),
        accuracy_m=accuracy_m if accuracy_m is not None and 0 <= accuracy_m < FARTHEST_M else None,
    )


def _source(status: Status) -> RtkSource | None:
    """Whether corrections arrive. Base or network: the mower does not say, so a solution with them is UNKNOWN."""
    age_s = status.correction_age_s
    if age_s is None or status.solution is None:
        return None
    return RtkSource.UNKNOWN if 0 <= age_s <= CORRECTED_S else RtkSource.NONE


def next_start(status: Status, now: datetime) -> datetime | None:
    """The next start of the mower's own plan, which it gives as weekday and hour (UTC) while it charges."""
    weekday, hour = status.plan_weekday, status.plan_hour
    if status.op is not Op.CHARGE or weekday is None or hour is None:
        return None
    if not (0 <= weekday <= 6 and 0 <= hour <= 23):
        return None
    start = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    start += timedelta(days=(weekday - start.weekday()) % 7)
    return start if start > now else start + timedelta(days=7)


def _raw(status: Status, notes: Notes) -> dict[str, str]:
    raw = {"S": ",".join(status.words)[:_RAW_TEXT]}
    if notes.obstacles is not None:
        raw["S2"] = notes.obstacles[:_RAW_TEXT]
    return raw


def events_between(before: MowerState, after: MowerState) -> list[MowerEvent]:
    """What has happened between two states of one mower."""
    at = after.observed_at
    found: list[MowerEvent] = []
    was, now = before.error, after.error
    if was is not None and (now is None or now.code != was.code):
        found.append(ErrorCleared(at=at, code=was.code))
    if now is not None and (was is None or now.code != was.code):
        found.append(ErrorRaised(at=at, code=now.code, error_class=now.error_class, text=now.text))
    if after.activity is Activity.MOWING and before.activity in {*AT_DOCK, Activity.IDLE}:
        found.append(MowingStarted(at=at, area_ids=()))
    if after.activity in AT_DOCK and before.activity not in {*AT_DOCK, Activity.UNKNOWN, Activity.MANUAL}:
        if before.activity is not Activity.IDLE:
            found.append(MowingFinished(at=at, reason="docked"))
        found.append(Docked(at=at))
    return found
