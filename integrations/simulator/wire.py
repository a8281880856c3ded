"""The words of the simulated machine: what it shows, what it tells and what it can be told.

In a real integration this module holds the vendor's shapes in the vendor's spelling. Here the machine is ours, but
the rule is the same: these shapes never leave the folder, `mapping.py` turns them into the domain's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from integrations.simulator.shapes import Point


class Phase(StrEnum):
    """What the machine does."""

    PARKED = "PARKED"
    CHARGING = "CHARGING"
    UNDOCKING = "UNDOCKING"
    CUTTING = "CUTTING"
    HOMING = "HOMING"
    HALTED = "HALTED"
    STANDBY = "STANDBY"
    FAULT = "FAULT"
    REMOTE = "REMOTE"


AT_DOCK = frozenset({Phase.PARKED, Phase.CHARGING})
STANDING = frozenset({Phase.PARKED, Phase.CHARGING, Phase.HALTED, Phase.STANDBY, Phase.FAULT})
"""Phases in which the wheels never turn."""
MOVING = frozenset({Phase.UNDOCKING, Phase.CUTTING, Phase.HOMING})
"""Phases in which it drives by itself."""


class Fix(StrEnum):
    """Quality of the satellite solution."""

    NONE = "NO_FIX"
    SINGLE = "SINGLE"
    FLOAT = "FLOAT"
    FIXED = "FIX"


class Fault(StrEnum):
    """Trouble codes."""

    STUCK = "E10"
    LIFTED = "E20"
    BLADES_BLOCKED = "E31"
    BATTERY_EMPTY = "E40"
    NO_WAY = "E50"


class Wait(StrEnum):
    """Why a job stands still at the dock."""

    BATTERY = "BATTERY"
    RAIN = "RAIN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters of the machine's life; none ever falls, but `blade_wear_s` (since the last change of blades)."""

    cutting_s: float = 0.0
    running_s: float = 0.0
    charging_s: float = 0.0
    blades_s: float = 0.0
    blade_wear_s: float = 0.0
    distance_m: float = 0.0
    charges: int = 0
    bumps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWindow:
    """A window of the weekly plan, local time: Monday is 0, minutes since midnight."""

    weekday: int
    start_minute: int
    end_minute: int
    patches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that the machine shows at one of its ticks. Metres are of the plot, `clock_s` is the machine's own time."""

    clock_s: float
    phase: Phase
    fault: Fault | None
    fault_since_s: float | None
    waits_for: Wait | None
    battery: float
    """Percent, 0 to 100."""
    fix: Fix
    satellites: int
    seen_at: Point | None
    """Where the receiver believes to be; None without a fix."""
    accuracy_m: float | None
    heading_deg: float
    speed_mps: float
    target_speed_mps: float
    blades_on: bool
    blade_height_mm: float
    patch: str | None
    progress: dict[str, float]
    """Patch -> percent of this job's work there, for the patches of the job."""
    is_by_plan: bool | None
    """Whether the running job was begun by the weekly plan; None without a job."""
    is_raining: bool
    is_beeping: bool
    wifi_dbm: int
    counters: Counters
    plan: tuple[PlanWindow, ...]
    skips_next: bool


# What it tells


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRaised:
    """Trouble began; the machine stands."""

    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCleared:
    """The trouble is over; the machine still stands."""

    fault: Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """A job began; coming back after charging or rain is no new job."""

    patches: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """`reason`: done, duration, cancelled or replaced."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DockReached:
    """It is in its dock, by its own wheels or carried there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RainChanged:
    """Rain began or ended."""

    is_raining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Anything else that it has to say."""

    code: str
    text: str


Happening = FaultRaised | FaultCleared | JobStarted | JobEnded | DockReached | RainChanged | Notice


# What it can be told


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Mow these patches (none: all of them); go home after `limit_s` of work."""

    patches: tuple[str, ...] = ()
    limit_s: float | None = None
    is_by_plan: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSpot:
    """Mow a spiral around `centre` (metres of the plot)."""

    centre: Point
    radius_m: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Pause: stand, blades off, keep the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoOn:
    """Go on after a halt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoHome:
    """Drop the job and go to the dock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillSwitch:
    """Stand at once, blades off; nothing goes on by itself afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHeight:
    """Cutting height from now on."""

    height_mm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPace:
    """Speed while cutting, from now on."""

    speed_mps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlan:
    """Replace the weekly plan."""

    windows: tuple[PlanWindow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipWindow:
    """Leave out the next window of the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearFault:
    """Confirm the fault from afar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beep:
    """Make itself heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBlades:
    """The blades were changed: their wear begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeRemote:
    """Begin to be driven by hand."""


Order = (
    Cut
    | CutSpot
    | Halt
    | GoOn
    | GoHome
    | KillSwitch
    | SetHeight
    | SetPace
    | SetPlan
    | SkipWindow
    | ClearFault
    | Beep
    | NewBlades
    | TakeRemote
)
