"""The mower's words in its own spelling: operations, enumerations, and the values of answers. Pure.

Numbers that we do not know stay numbers here; `mapping.py` decides what they mean. All values are little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum

from core.domain.errors import IntegrationError

SERVICE = "98bd0001-0b0e-421a-84e5-ddbf75dc6de4"
REQUESTS = "98bd0002-0b0e-421a-84e5-ddbf75dc6de4"
RESPONSES = "98bd0003-0b0e-421a-84e5-ddbf75dc6de4"
PRODUCT = "98bd0004-0b0e-421a-84e5-ddbf75dc6de4"


class MalformedAnswerError(IntegrationError):
    """The values of an answer are not what its operation has."""

    code = "husqvarna-malformed-answer"
    retryable = True
    hint = "The mower's software speaks differently from what is known. Report it with the diagnostics."


class Operation(Enum):
    """What a mower can be asked or told: group and number."""

    CHARGE_VOLTAGE = (4106, 1)
    CHARGE_CURRENT = (4106, 8)
    BATTERY_TEMPERATURE = (4106, 9)
    GET_BATTERY_LEVEL = (4106, 20)
    IS_CHARGING = (4106, 21)
    GET_REMAINING_CHARGING_TIME = (4106, 22)
    GET_CUTTING_HEIGHT = (4422, 2)
    SET_CUTTING_HEIGHT = (4422, 3)
    SET_MODE = (4586, 0)
    GET_MODE = (4586, 1)
    GET_STATE = (4586, 2)
    GET_ACTIVITY = (4586, 3)
    START_TRIGGER = (4586, 4)
    PAUSE = (4586, 5)
    GET_ERROR = (4586, 6)
    GET_RESTRICTION_REASON = (4658, 0)
    GET_NEXT_START_TIME = (4658, 1)
    GET_OVERRIDE = (4658, 2)
    SET_OVERRIDE_MOW = (4658, 3)
    SET_OVERRIDE_PARK = (4658, 4)
    SET_OVERRIDE_PARK_UNTIL_NEXT_START = (4658, 5)
    CLEAR_OVERRIDE = (4658, 6)
    GET_LOGIN_LEVEL = (4664, 0)
    IS_BLOCKED = (4664, 1)
    GET_BLOCKED_TIME = (4664, 2)
    IS_OPERATOR_LOGGED_IN = (4664, 3)
    ENTER_OPERATOR_PIN = (4664, 4)
    LOG_OUT = (4664, 15)
    KEEP_ALIVE = (4674, 2)
    GET_TIME = (4690, 2)
    SET_TIME = (4690, 3)
    GET_NUMBER_OF_TASKS = (4690, 4)
    GET_TASK = (4690, 5)
    GET_NAME = (4698, 5)
    GET_MODEL = (4698, 9)
    GET_SERIAL_NUMBER = (4698, 10)
    GET_SOFTWARE_VERSION = (4698, 22)
    GET_ALL_STATISTICS = (4726, 0)
    RESET_BLADE_TIME = (4726, 8)
    GET_NUMBER_OF_MESSAGES = (4730, 0)
    GET_MESSAGE = (4730, 1)

    @property
    def group(self) -> int:
        return int(self.value[0])

    @property
    def number(self) -> int:
        return int(self.value[1])


OPERATIONS = {operation.value: operation for operation in Operation}


class Result(IntEnum):
    """How an operation went."""

    OK = 0
    UNKNOWN_ERROR = 1
    INVALID_VALUE = 2
    OUT_OF_RANGE = 3
    NOT_AVAILABLE = 4
    NOT_ALLOWED = 5
    INVALID_GROUP = 6
    INVALID_ID = 7
    DEVICE_BUSY = 8
    INVALID_PIN = 9
    MOWER_BLOCKED = 10


class Mode(IntEnum):
    """What the mower is set to; HOME is parked until further notice."""

    AUTO = 0
    MANUAL = 1
    HOME = 2
    DEMO = 3
    POI = 4


class State(IntEnum):
    """What state it is in."""

    OFF = 0
    WAIT_FOR_SAFETYPIN = 1
    STOPPED = 2
    FATAL_ERROR = 3
    PENDING_START = 4
    PAUSED = 5
    IN_OPERATION = 6
    RESTRICTED = 7
    ERROR = 8


class MowerActivity(IntEnum):
    """What it does, or did when it was paused."""

    NONE = 0
    CHARGING = 1
    GOING_OUT = 2
    MOWING = 3
    GOING_HOME = 4
    PARKED = 5
    STOPPED_IN_GARDEN = 6


class OverrideAction(IntEnum):
    """What takes the place of the plan."""

    NONE = 0
    FORCEDPARK = 1
    FORCEDMOW = 2


def word(kind: type[IntEnum], value: int) -> str:
    """The vendor's name of a value, or the bare number when it has none that we know."""
    try:
        return kind(value).name
    except ValueError:
        return str(value)


# Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What the mower is: its type and the variant of it."""

    device_type: int
    variant: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What takes the place of the plan: `start` in the mower's local seconds, for `duration_s`."""

    action: int
    start: int
    duration_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Counters of the mower's life, seconds and counts. Older mowers do not count their blades' time."""

    running_s: int
    cutting_s: int
    charging_s: int
    searching_s: int
    collisions: int
    charging_cycles: int
    blade_usage_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A window of the plan: seconds after midnight, for `duration_s`, on these days (Monday first)."""

    start_s: int
    duration_s: int
    days: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """An entry of the mower's own log; `time` in its local seconds."""

    time: int
    code: int
    severity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Everything of one poll; None is what the mower did not tell."""

    mode: int | None = None
    state: int | None = None
    activity: int | None = None
    error: int | None = None
    battery_percent: int | None = None
    is_charging: bool | None = None
    restriction: int | None = None
    next_start: int | None = None
    clock: int | None = None
    override: Override | None = None
    cutting_height: int | None = None
    statistics: Statistics | None = None
    firmware: str | None = None


# Decoding: what is too short is malformed, what newer mowers append is left alone


def _unpack(layout: str, payload: bytes) -> tuple[int, ...]:
    shape = struct.Struct("<" + layout)
    if len(payload) < shape.size:
        raise MalformedAnswerError(f"{len(payload)} bytes where {shape.size} are due")
    return shape.unpack_from(payload)


def read_u8(payload: bytes) -> int:
    return _unpack("B", payload)[0]


def read_u16(payload: bytes) -> int:
    return _unpack("H", payload)[0]


def read_s16(payload: bytes) -> int:
    return _unpack("h", payload)[0]


def read_u32(payload: bytes) -> int:
    return _unpack("I", payload)[0]


def read_bool(payload: bytes) -> bool:
    return _unpack("B", payload)[0] != 0


def read_text(payload: bytes) -> str:
    """Text up to the first NUL; bytes that are no text are shown as replacement marks."""
    return payload.partition(b"\x00")[0].decode("utf-8", errors="replace").strip()


def read_model(payload: bytes) -> Model:
    device_type, variant = _unpack("BB", payload)
    return Model(device_type=device_type, variant=variant)


def read_override(payload: bytes) -> Override:
    action, start, duration_s = _unpack("BII", payload)
    return Override(action=action, start=start, duration_s=duration_s)


def read_statistics(payload: bytes) -> Statistics:
    """Seven counters, or six of an older mower."""
    blades = read_u32(payload[24:]) if len(payload) >= 28 else None
    running, cutting, charging, searching, collisions, cycles = _unpack("6I", payload)
    return Statistics(
        running_s=running,
        cutting_s=cutting,
        charging_s=charging,
        searching_s=searching,
        collisions=collisions,
        charging_cycles=cycles,
        blade_usage_s=blades,
    )


def read_task(payload: bytes) -> Task:
    start_s, duration_s, *days = _unpack("II7B", payload)
    return Task(start_s=start_s, duration_s=duration_s, days=tuple(day != 0 for day in days))


def read_message(payload: bytes) -> Message:
    time, code, severity = _unpack("IIB", payload)
    return Message(time=time, code=code, severity=severity)


# Encoding


def write_u8(value: int) -> bytes:
    return value.to_bytes(1, "little")


def write_u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def write_u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def write_statistics(statistics: Statistics) -> bytes:
    """28 bytes, or 24 when the blades' time is not counted."""
    counters = [
        statistics.running_s,
        statistics.cutting_s,
        statistics.charging_s,
        statistics.searching_s,
        statistics.collisions,
        statistics.charging_cycles,
    ]
    if statistics.blade_usage_s is not None:
        counters.append(statistics.blade_usage_s)
    return b"".join(map(write_u32, counters))


def write_task(task: Task) -> bytes:
    """As an answer carries it, with the two bytes at the end whose meaning is not known."""
    return struct.pack("<II7BH", task.start_s, task.duration_s, *task.days, 0)


def write_override(override: Override) -> bytes:
    return struct.pack("<BII", override.action, override.start, override.duration_s)


def write_message(message: Message) -> bytes:
    return struct.pack("<IIB", message.time, message.code, message.severity)
