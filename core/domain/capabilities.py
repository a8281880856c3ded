"""What a mower can do, as data. `None` means cannot; UI, validation and entities are generated from it.

`confirm_timeout_s` is how long the mower may take until its state shows that the command had its effect.
"""

from __future__ import annotations

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
