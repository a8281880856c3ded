"""A mower's health as a person reads it: its days summed up, blades that are due, and how the battery ages."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import Literal

import msgspec

from core.domain.mower import ErrorClass, Totals
from core.telemetry.blades import INTERVAL_H, BladeChange, blades_since_s
from core.telemetry.health_day import BatteryUse, ErrorTally, HealthDay
from core.telemetry.trend import find_trend

PERCENT_MIN = 15
"""A day on which the battery moved less says little about it."""
RECENT_DAYS = 14
PLACES_MAX = 20


class HealthTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over all days that this host has; see the fields of a day."""

    observed_s: float
    mowing_s: float
    charging_s: float
    driving_s: float
    error_s: float
    blades_s: float
    distance_m: float | None
    area_jobs: int
    charge_cycles: int
    full_cycles: float
    """Per cents that mowing took, as whole batteries."""


class ErrorSum(msgspec.Struct, frozen=True, kw_only=True):
    """A fault over all days; `places` with the most first, at most 20."""

    code: str
    error_class: ErrorClass
    count: int
    error_s: float
    last_day: date
    places: tuple[ErrorTally, ...]


class BladeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Hours that the blades have turned since they were changed, or since the first day when nobody ever said so."""

    used_h: float
    interval_h: float
    is_due: bool
    changed_at: datetime | None = None
    changed_by: str | None = None
    note: str | None = None


class BatteryTrend(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per per cent: the median of the newest 14 days that say anything (None: there are none), and its change
    per 30 days in per cent of it, with bounds of 95 %. `unknown`: too few days, or too close together."""

    direction: Literal["falling", "rising", "steady", "unknown"]
    days: int
    seconds_per_percent: float | None = None
    change_percent: float | None = None
    change_low_percent: float | None = None
    change_high_percent: float | None = None


class BatteryReport(msgspec.Struct, frozen=True, kw_only=True):
    """`mowing`: how long one per cent lasts; it falls as a battery ages. `charging`: how long it takes to get one."""

    mowing: BatteryTrend
    charging: BatteryTrend


def sum_days(days: Sequence[HealthDay]) -> HealthTotals:
    """All days together."""
    ways = [day.distance_m for day in days if day.distance_m is not None]
    return HealthTotals(
        observed_s=sum(day.observed_s for day in days),
        mowing_s=sum(day.mowing_s for day in days),
        charging_s=sum(day.charging_s for day in days),
        driving_s=sum(day.driving_s for day in days),
        error_s=sum(day.error_s for day in days),
        blades_s=sum(day.blades_s for day in days),
        distance_m=sum(ways) if ways else None,
        area_jobs=sum(sum(day.area_jobs.values()) for day in days),
        charge_cycles=sum(day.charge_cycles for day in days),
        full_cycles=sum(max(0, day.battery.mowing_percent) for day in days) / 100,
    )


def vendor_totals(days: Sequence[HealthDay]) -> Totals | None:
    """The mower's own counters as it last said them. Days in order."""
    return next((day.vendor for day in reversed(days) if day.vendor is not None), None)


def sum_errors(days: Sequence[HealthDay]) -> tuple[ErrorSum, ...]:
    """Faults by code, the most frequent first."""
    found: dict[str, list[tuple[date, ErrorTally]]] = {}
    for day in days:
        for error in day.errors:
            found.setdefault(error.code, []).append((day.day, error))
    sums = [_sum_error(code, entries) for code, entries in found.items()]
    return tuple(sorted(sums, key=lambda error: (-error.count, -error.error_s, error.code)))


def _sum_error(code: str, entries: Sequence[tuple[date, ErrorTally]]) -> ErrorSum:
    places: dict[tuple[float | None, float | None], ErrorTally] = {}
    for _, error in entries:
        key = (error.lat, error.lon)
        known = places.get(key)
        places[key] = error if known is None else _added(known, error)
    known_places = (place for (lat, _), place in places.items() if lat is not None)
    return ErrorSum(
        code=code,
        error_class=entries[-1][1].error_class,
        count=sum(error.count for _, error in entries),
        error_s=sum(error.error_s for _, error in entries),
        last_day=max(day for day, _ in entries),
        places=tuple(sorted(known_places, key=lambda place: (-place.count, -place.error_s))[:PLACES_MAX]),
    )


def _added(known: ErrorTally, more: ErrorTally) -> ErrorTally:
    return msgspec.structs.replace(known, count=known.count + more.count, error_s=known.error_s + more.error_s)


def blade_report(
    days: Sequence[HealthDay], change: tuple[datetime, BladeChange] | None, interval_h: float | None
) -> BladeReport:
    """`change` is the newest one."""
    interval_h = INTERVAL_H if interval_h is None else interval_h
    if change is None:
        used_h = sum(day.blades_s for day in days) / 3600
        return BladeReport(used_h=used_h, interval_h=interval_h, is_due=used_h >= interval_h)
    changed_at, said = change
    used_h = blades_since_s(days, changed_at) / 3600
    return BladeReport(
        used_h=used_h,
        interval_h=interval_h,
        is_due=used_h >= interval_h,
        changed_at=changed_at,
        changed_by=said.by,
        note=said.note or None,
    )


def battery_report(days: Sequence[HealthDay]) -> BatteryReport:
    """How the battery ages. Days in order."""
    return BatteryReport(
        mowing=_battery_trend(days, lambda battery: (battery.mowing_s, battery.mowing_percent)),
        charging=_battery_trend(days, lambda battery: (battery.charging_s, battery.charging_percent)),
    )


def _battery_trend(days: Iterable[HealthDay], measure: Callable[[BatteryUse], tuple[float, int]]) -> BatteryTrend:
    points = []
    for day in days:
        spent_s, percent = measure(day.battery)
        if percent >= PERCENT_MIN:
            points.append((float(day.day.toordinal()), spent_s / percent))
    if not points:
        return BatteryTrend(direction="unknown", days=0)
    recent = statistics.median(value for _, value in points[-RECENT_DAYS:])
    trend = find_trend(points)
    if trend is None or recent <= 0:
        return BatteryTrend(direction="unknown", days=len(points), seconds_per_percent=recent)
    per_month = 30 * 100 / recent
    return BatteryTrend(
        direction=trend.direction,
        days=len(points),
        seconds_per_percent=recent,
        change_percent=trend.slope * per_month,
        change_low_percent=trend.low * per_month,
        change_high_percent=trend.high * per_month,
    )
