"""Blades of a mower: changes and the interval, as people enter them, and how many hours they have turned.

Both are records and may be entered on the box or on the relay; each side keeps the newest version, and hours are
counted from the days of health that a side has, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from core.telemetry.health_day import HealthDay
from core.telemetry.records import RecordKind

INTERVAL_H = 100.0
"""Hours of turning after which blades are due, unless somebody has set another interval."""
_HOUR = timedelta(hours=1)


class BladeChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New blades were put on; the record's `at` says when. `by` is the name of who said so."""

    by: str
    note: str = ""


class BladeCare(msgspec.Struct, frozen=True, kw_only=True):
    """How long the blades of this mower last."""

    interval_h: float


BLADE_CHANGE = RecordKind(name="blade_change", body=BladeChange, keep=None)
BLADE_CARE = RecordKind(name="blade_care", body=BladeCare, keep=None)
BLADE_CARE_KEY = "interval"
ENTERED = (BLADE_CHANGE.name, BLADE_CARE.name)
"""Kinds that people enter, on either side."""


def blades_since_s(days: Sequence[HealthDay], changed_at: datetime) -> float:
    """Seconds that the blades have turned since; of the hour of the change, the share that was left."""
    return sum(_since(day, changed_at) for day in days)


def _since(day: HealthDay, changed_at: datetime) -> float:
    if changed_at <= day.starts_at:
        return day.blades_s
    total = 0.0
    for hour, spent_s in enumerate(day.blades_by_hour_s):
        left = (day.starts_at + (hour + 1) * _HOUR - changed_at) / _HOUR
        total += spent_s * min(1.0, max(0.0, left))
    return total
