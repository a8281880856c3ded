"""The mower as seen at one instant: a full snapshot, every part of it optional.

Null is not zero: what was not read is `None`. A word that a vendor made up and we do not know becomes
`UNKNOWN` and stays verbatim in `raw`.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec


class _OpenEnum(StrEnum):
    """An enum that a newer peer may extend: unknown words become UNKNOWN instead of an error."""

    @classmethod
    def _missing_(cls, value: object) -> _OpenEnum | None:  # noqa: ARG003  (the enum protocol names it)
        return cls.__members__.get("UNKNOWN")


class Activity(_OpenEnum):
    """What the mower does. Precedence when a vendor says several: active fault, paused, activity."""

    DOCKED = "docked"
    CHARGING = "charging"
    LEAVING = "leaving"
    MOWING = "mowing"
    RETURNING = "returning"
    PAUSED = "paused"
    IDLE = "idle"
    ERROR = "error"
    MANUAL = "manual"
    UNKNOWN = "unknown"


MOVING = frozenset({Activity.LEAVING, Activity.MOWING, Activity.RETURNING, Activity.MANUAL})
"""Activities in which the machine moves."""
AT_DOCK = frozenset({Activity.DOCKED, Activity.CHARGING})


class Connectivity(_OpenEnum):
    """Whether the box reaches the mower now."""

    ONLINE = "online"
    OFFLINE = "offline"
    UNKNOWN = "unknown"


class LinkKind(StrEnum):
    """The path of a link."""

    BLE = "ble"
    LAN = "lan"
    CLOUD = "cloud"
    SIM = "sim"


class RtkFix(_OpenEnum):
    """Quality of the satellite solution."""

    NONE = "none"
    SINGLE = "single"
    FLOAT = "float"
    FIXED = "fixed"
    UNKNOWN = "unknown"


class RtkSource(_OpenEnum):
    """Where corrections come from."""

    BASE = "base"
    NETWORK = "network"
    VISION = "vision"
    NONE = "none"
    UNKNOWN = "unknown"


class ErrorClass(_OpenEnum):
    """The kind of a fault, the same over all brands."""

    LIFTED = "lifted"
    TILTED = "tilted"
    STOP_BUTTON = "stop_button"
    STUCK = "stuck"
    TRAPPED = "trapped"
    COLLISION = "collision"
    BLADES = "blades"
    WHEELS = "wheels"
    BATTERY = "battery"
    DOCKING = "docking"
    BOUNDARY = "boundary"
    POSITION = "position"
    RAIN = "rain"
    SECURITY = "security"
    HARDWARE = "hardware"
    UNKNOWN = "unknown"


NEVER_CONFIRMED_REMOTELY = frozenset({ErrorClass.LIFTED, ErrorClass.TILTED, ErrorClass.STOP_BUTTON})
"""Faults that only somebody beside the machine may clear."""


class MowerError(msgspec.Struct, frozen=True, kw_only=True):
    """An active fault. `code` is the vendor's, `text` for a person, `since` when it began (aware UTC)."""

    code: str
    error_class: ErrorClass = ErrorClass.UNKNOWN
    text: str | None = None
    since: datetime | None = None
    is_confirmable: bool = False


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where it is: degrees, or metres in the vendor's named frame, or both; heading clockwise from north."""

    lat: float | None = None
    lon: float | None = None
    x_m: float | None = None
    y_m: float | None = None
    frame: str | None = None
    heading_deg: float | None = None
    accuracy_m: float | None = None


class BladeHeight(msgspec.Struct, frozen=True, kw_only=True):
    """Cutting height in the unit that the mower speaks."""

    value: float
    unit: Literal["mm", "step", "percent"] = "mm"


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """Received signal strengths (dBm) and the link in use."""

    ble_dbm: int | None = None
    wifi_dbm: int | None = None
    mobile_dbm: int | None = None
    active_link: LinkKind | None = None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of the mower's life; each only grows."""

    mowing_s: int | None = None
    running_s: int | None = None
    charging_s: int | None = None
    blades_s: int | None = None
    distance_m: int | None = None
    charge_cycles: int | None = None
    collisions: int | None = None


class Area(msgspec.Struct, frozen=True, kw_only=True):
    """A mowing zone. `area_id` is ours and stays when the vendor renumbers; `ring` is [[lat, lon], ...]."""

    area_id: str
    name: str
    ring: tuple[tuple[float, float], ...] = ()
    vendor_id: str | None = None


class MowerState(msgspec.Struct, frozen=True, kw_only=True):
    """A full snapshot as reported at `observed_at` (aware UTC, the box's clock)."""

    observed_at: datetime
    activity: Activity = Activity.UNKNOWN
    connectivity: Connectivity = Connectivity.UNKNOWN
    battery_percent: int | None = None
    is_charging: bool | None = None
    error: MowerError | None = None
    restricted_reason: str | None = None
    position: Position | None = None
    rtk_fix: RtkFix | None = None
    rtk_source: RtkSource | None = None
    satellites: int | None = None
    speed_mps: float | None = None
    blades_on: bool | None = None
    blade_height: BladeHeight | None = None
    current_area: str | None = None
    progress_percent: float | None = None
    next_start_at: datetime | None = None
    is_override: bool | None = None
    is_raining: bool | None = None
    signals: Signals | None = None
    totals: Totals | None = None
    firmware: str | None = None
    raw: dict[str, str] | None = None
    """The vendor's own words, verbatim; for diagnostics only, never for decisions."""


class MowerDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Who a mower is, as its integration says. Identity is `vendor` + `serial`."""

    vendor: str
    serial: str
    name: str
    model: str | None = None
    links: tuple[LinkKind, ...]
    areas: tuple[Area, ...] = ()
