"""What a mower can do, as data. `None` means cannot; UI, validation and entities are generated from it.

`confirm_timeout_s` is how long the mower may take until its state shows that the command had its effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TypeVar

import msgspec


class Simple(msgspec.Struct, frozen=True, kw_only=True):
    """A command without parameters."""

    confirm_timeout_s: float = 20.0


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Starting a job: whether areas can be chosen, and the longest duration (None: no duration)."""

    confirm_timeout_s: float = 20.0
    takes_areas: bool = False
    max_duration_s: int | None = None


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """A number between `minimum` and `maximum`, in steps of `step` (0: any)."""

    minimum: float
    maximum: float
    step: float = 0.0
    confirm_timeout_s: float = 20.0


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """Mowing a circle around a place."""

    max_radius_m: float
    confirm_timeout_s: float = 20.0


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A weekly plan with at most `max_windows` windows."""

    max_windows: int
    confirm_timeout_s: float = 20.0


class Drive(msgspec.Struct, frozen=True, kw_only=True):
    """Driving by hand; the machine stops by itself after `motor_timeout_s` without a new frame."""

    max_speed_mps: float
    motor_timeout_s: float
    confirm_timeout_s: float = 5.0


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """All that a mower can do over one link."""

    start_mow: Start | None = None
    pause_mow: Simple | None = None
    resume_mow: Simple | None = None
    return_to_dock: Simple | None = None
    emergency_stop: Simple | None = None
    set_blade_height: Range | None = None
    set_speed: Range | None = None
    mow_spot: Spot | None = None
    set_schedule: Schedule | None = None
    skip_next: Simple | None = None
    confirm_error: Simple | None = None
    reset_blade_usage: Simple | None = None
    find_mower: Simple | None = None
    manual_drive: Drive | None = None


Ability = Simple | Start | Range | Spot | Schedule | Drive
_Ability = TypeVar("_Ability", Simple, Start, Range, Spot, Schedule, Drive)


def unite(several: Iterable[Capabilities]) -> Capabilities:
    """What at least one of several links can do, for people and for a first look at a command: the widest limits and
    the longest time to confirm. What one link really takes is for that link's own capabilities to say."""
    return reduce(_united, several, Capabilities())


def _united(one: Capabilities, other: Capabilities) -> Capabilities:
    found: dict[str, Ability | None] = {}
    for name in Capabilities.__struct_fields__:
        first, second = getattr(one, name), getattr(other, name)
        found[name] = _widest(first, second) if first is not None and second is not None else first or second
    return Capabilities(**found)  # type: ignore[arg-type]  # each name has its own type of ability


def _widest(one: _Ability, other: _Ability) -> Ability:
    timeout_s = max(one.confirm_timeout_s, other.confirm_timeout_s)
    match one, other:
        case Start(), Start():
            longest = [limit for limit in (one.max_duration_s, other.max_duration_s) if limit is not None]
            return Start(
                confirm_timeout_s=timeout_s,
                takes_areas=one.takes_areas or other.takes_areas,
                max_duration_s=max(longest, default=None),
            )
        case Range(), Range():
            return Range(
                minimum=min(one.minimum, other.minimum),
                maximum=max(one.maximum, other.maximum),
                step=one.step if one.step == other.step else 0.0,
                confirm_timeout_s=timeout_s,
            )
        case Spot(), Spot():
            return Spot(max_radius_m=max(one.max_radius_m, other.max_radius_m), confirm_timeout_s=timeout_s)
        case Schedule(), Schedule():
            return Schedule(max_windows=max(one.max_windows, other.max_windows), confirm_timeout_s=timeout_s)
        case Drive(), Drive():
            return Drive(
                max_speed_mps=max(one.max_speed_mps, other.max_speed_mps),
                motor_timeout_s=min(one.motor_timeout_s, other.motor_timeout_s),
                confirm_timeout_s=timeout_s,
            )
        case _:
            return Simple(confirm_timeout_s=timeout_s)
