"""What a Sunray mower says, in its own order and units. Old firmware sends fewer fields than new: what is missing or
makes no sense is None, and one odd field never costs the others."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

_TEXT = 64
_ID = re.compile(r"[0-9A-Za-z]{6,64}")


class Op(IntEnum):
    """What the mower does, as the firmware numbers it."""

    UNKNOWN = -1
    IDLE = 0
    MOW = 1
    CHARGE = 2
    ERROR = 3
    DOCK = 4

    @classmethod
    def _missing_(cls, value: object) -> Op:  # noqa: ARG003  (the enum protocol names it)
        return cls.UNKNOWN


class Sensor(IntEnum):
    """What was triggered last. It stays after the cause has gone, so only together with Op.ERROR it is a fault."""

    UNKNOWN = -1
    NONE = 0
    BATTERY_UNDERVOLTAGE = 1
    OBSTACLE = 2
    GPS_FIX_TIMEOUT = 3
    IMU_TIMEOUT = 4
    IMU_TILT = 5
    KIDNAPPED = 6
    OVERLOAD = 7
    MOTOR_ERROR = 8
    GPS_INVALID = 9
    ODOMETRY_ERROR = 10
    MAP_NO_ROUTE = 11
    MEMORY_OVERFLOW = 12
    BUMPER = 13
    SONAR = 14
    LIFT = 15
    RAIN = 16
    STOP_BUTTON = 17
    TEMPERATURE = 18

    @classmethod
    def _missing_(cls, value: object) -> Sensor:  # noqa: ARG003  (the enum protocol names it)
        return cls.UNKNOWN


class Solution(IntEnum):
    """The satellite solution."""

    UNKNOWN = -1
    INVALID = 0
    FLOAT = 1
    FIX = 2

    @classmethod
    def _missing_(cls, value: object) -> Solution:  # noqa: ARG003  (the enum protocol names it)
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Reply `V`. `challenge` is 1 to 199 where `is_shifting`; `robot_id` only of newer firmware."""

    name: str
    version: str
    is_shifting: bool
    challenge: int
    board: str | None = None
    driver: str | None = None
    robot_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Reply `S`. Metres and radians in the mower's own frame: heading 0 along x, counter-clockwise."""

    volts: float | None
    x_m: float | None
    y_m: float | None
    heading_rad: float | None
    solution: Solution | None
    op: Op
    mow_point: int | None
    correction_age_s: float | None
    sensor: Sensor
    accuracy_m: float | None
    satellites: int | None
    amps: float | None
    """Of the motors; while it charges, the charging current with a minus."""
    map_crc: int | None
    plan_weekday: int | None
    """0 Monday to 6, of the next start (while it charges) or the next stop (while it mows)."""
    plan_hour: int | None
    """UTC."""
    words: tuple[str, ...]
    """The fields as they came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Reply `T`: sums since somebody last cleared them."""

    charging_s: int | None
    mowing_s: int | None
    distance_m: int | None
    obstacles: int | None


def read_version(fields: Sequence[str]) -> Version | None:
    """None when the greeting cannot be used."""
    if len(fields) < 2:
        return None
    mode, challenge = _whole(fields, 2) or 0, _whole(fields, 3) or 0
    if mode not in (0, 1) or (mode == 1 and not 1 <= challenge <= 199):
        return None
    return Version(
        name=fields[0][:_TEXT],
        version=fields[1][:_TEXT],
        is_shifting=mode == 1,
        challenge=challenge,
        board=_word(fields, 4),
        driver=_word(fields, 5),
        robot_id=_robot_id(_word(fields, 8)),
    )


def read_status(fields: Sequence[str]) -> Status:
    """Whatever of a status can be understood."""
    solution = _whole(fields, 4)
    op, sensor = _whole(fields, 5), _whole(fields, 8)
    return Status(
        volts=_number(fields, 0),
        x_m=_number(fields, 1),
        y_m=_number(fields, 2),
        heading_rad=_number(fields, 3),
        solution=None if solution is None else Solution(solution),
        op=Op.UNKNOWN if op is None else Op(op),
        mow_point=_whole(fields, 6),
        correction_age_s=_number(fields, 7),
        sensor=Sensor.UNKNOWN if sensor is None else Sensor(sensor),
        accuracy_m=_number(fields, 11),
        satellites=_whole(fields, 12),
        amps=_number(fields, 13),
        map_crc=_whole(fields, 15),
        plan_weekday=_whole(fields, 17),
        plan_hour=_whole(fields, 18),
        words=tuple(fields[:32]),
    )


def read_statistics(fields: Sequence[str]) -> Statistics:
    """Whatever of the statistics can be understood."""
    return Statistics(
        charging_s=_count(fields, 1),
        mowing_s=_count(fields, 2),
        distance_m=_count(fields, 6),
        obstacles=_count(fields, 17),
    )


def read_obstacles(fields: Sequence[str]) -> tuple[tuple[tuple[float, float], ...], ...] | None:
    """Reply `S2` as rings of (x, y) metres; None when its numbers do not add up."""
    count = _whole(fields, 0)
    if count is None or not 0 <= count <= 1_000:
        return None
    rings = []
    at = 1
    for _ in range(count):
        corners = _whole(fields, at + 3)
        if corners is None or not 0 <= corners <= 1_000 or at + 4 + 2 * corners > len(fields):
            return None
        at += 4
        numbers = [_number(fields, at + step) for step in range(2 * corners)]
        if None in numbers:
            return None
        found = [number for number in numbers if number is not None]
        rings.append(tuple(zip(found[::2], found[1::2], strict=True)))
        at += 2 * corners
    return tuple(rings)


def _word(fields: Sequence[str], index: int) -> str | None:
    text = fields[index].strip()[:_TEXT] if index < len(fields) else ""
    return text or None


def _number(fields: Sequence[str], index: int) -> float | None:
    """A finite number. The charging current may come with two minus signs."""
    text = _word(fields, index)
    if text is None or "_" in text:
        return None
    try:
        number = float(text.removeprefix("-") if text.startswith("--") else text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _whole(fields: Sequence[str], index: int) -> int | None:
    number = _number(fields, index)
    return int(number) if number is not None and number.is_integer() and abs(number) < 2**53 else None


def _count(fields: Sequence[str], index: int) -> int | None:
    number = _number(fields, index)
    return int(number) if number is not None and 0 <= number < 2**53 else None


def _robot_id(word: str | None) -> str | None:
    """An id that tells mowers apart: a chip's or a network card's number, without its colons; lower case."""
    text = (word or "").replace(":", "").replace("-", "").lower()
    return text if _ID.fullmatch(text) and len(set(text)) > 1 else None
