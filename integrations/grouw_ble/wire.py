"""The mower's shapes in its own spelling: names, numbers, and what its answers hold. Their bytes are in `codec`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

SERVICE = "49535343-fe7d-4ae5-8fa9-9fafd205e455"
"""A serial line over Bluetooth, as a module of ISSC offers it: many things that are no mowers have the same."""
CONTROL = "49535343-1e4d-4bd9-ba61-23c647249616"
"""Both ways: written with a response, and it notifies."""
NAME_PREFIXES = ("Robot Mower_DYM", "RobotMower_DYM", "Robot_Mower")

PREFIX = b"DYM"
ANSWER_END = bytes.fromhex("160601")
ANSWER_BYTES = 22
"""Of an answer: prefix, its number, 15 bytes of data, the end. No checksum, and nothing that says which request it
belongs to."""
SHORT_BYTES = 21
"""So long is the published example of a PIN's answer; whether real ones are is not known."""


class Order(Enum):
    """What a mower can be told. It answers none of them; each value is the codec's word."""

    START = "start"
    """Out of its station; on the lawn it does nothing."""
    RESUME = "resume"
    """On the lawn; in its station it does nothing."""
    PAUSE = "pause"
    DOCK = "dock"


class Mode(IntEnum):
    """What it says that it does. Whether it is in its station is said apart, and counts more."""

    MOWING = 0x00
    MOWING_ALTERNATE = 0x01
    RETURNING = 0x03
    STOPPED = 0x14


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The answer 0x80. `battery` in percent, `station` 1 in it and 0 outside; all as said, also what we do not know."""

    battery: int
    station: int
    mode: int
    data: bytes
    """All 15 bytes of it; most are not understood."""

    @property
    def is_in_station(self) -> bool | None:
        """None when the mower says neither."""
        return bool(self.station) if self.station in (0, 1) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinTold:
    """The answer 0x8c: the mower tells its PIN to whoever asks. None when it holds no four digits."""

    pin: str | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherAnswer:
    """An answer that nobody here has asked for; never with its data, for some hold PINs."""

    number: int


Answer = Status | PinTold | OtherAnswer
