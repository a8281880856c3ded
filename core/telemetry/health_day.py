"""One day of a mower's health: the body of `health_day` records. The key is the date in the garden's time zone.

A day is only ever written by the box that has the mower, while the day is open, so its numbers only grow.
"""

from __future__ import annotations

from datetime import date, datetime

import msgspec

from core.domain.mower import ErrorClass, Totals
from core.telemetry.records import RecordKind


class SignalRange(msgspec.Struct, frozen=True, kw_only=True):
    """Received strength (dBm) over the day's reports."""

    samples: int
    min_dbm: int
    max_dbm: int
    mean_dbm: float


class ErrorTally(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault at one place: how often it began there, and how long it stood. `lat`, `lon`: the middle of a cell of
    about 5 m; None when the place was not known."""

    code: str
    error_class: ErrorClass = ErrorClass.UNKNOWN
    lat: float | None = None
    lon: float | None = None
    count: int = 0
    error_s: float = 0.0


class BatteryUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the battery did: `mowing_s` of mowing took `mowing_percent`, and `charging_s` of charging below 90 % gave
    `charging_percent`. Only stretches with a known percentage count."""

    mowing_s: float = 0.0
    mowing_percent: int = 0
    charging_s: float = 0.0
    charging_percent: int = 0


class HealthDay(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds, metres and counts of one local day. A stretch between two reports belongs to what the first of them
    said, at most 120 s of it, and only when both knew what the mower does; `observed_s` is the sum of all such
    stretches, so the rest of the day is unknown. Kinds of time overlap (a fault while charging counts for both)."""

    day: date
    time_zone: str
    starts_at: datetime
    ends_at: datetime
    observed_s: float = 0.0
    mowing_s: float = 0.0
    charging_s: float = 0.0
    driving_s: float = 0.0
    """Moving without mowing: to work, back, by hand."""
    error_s: float = 0.0
    blades_by_hour_s: tuple[float, ...] = ()
    """With the blades turning, by hour since `starts_at`."""
    distance_m: float | None = None
    """None: no two positions were known."""
    area_jobs: dict[str, int] = {}
    """Jobs begun by area; `""` where the mower names none."""
    charge_cycles: int = 0
    """How often charging began."""
    battery: BatteryUse = BatteryUse()
    errors: tuple[ErrorTally, ...] = ()
    wifi: SignalRange | None = None
    ble: SignalRange | None = None
    mobile: SignalRange | None = None
    vendor: Totals | None = None
    """The mower's own counters as it last said them; never mixed with ours."""

    @property
    def blades_s(self) -> float:
        return sum(self.blades_by_hour_s)


HEALTH_DAY = RecordKind(name="health_day", body=HealthDay, keep=None)
"""Kept for ever: a mower's totals are the sum of its days."""
