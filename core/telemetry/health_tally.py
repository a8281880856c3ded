"""The sums behind a day of health, as they are kept and changed while the day is open."""

from __future__ import annotations

from datetime import date

import msgspec

from core.domain.clock import from_us
from core.domain.mower import ErrorClass, Totals
from core.telemetry.health_day import BatteryUse, ErrorTally, HealthDay, SignalRange
from core.telemetry.local_days import LocalDay
from core.telemetry.significance import DEGREE, Place

CELL_E7 = 500
"""Edge of the cells that faults are counted in: 1e-7 degrees, 5.6 m of latitude."""


class Spread(msgspec.Struct, array_like=True):
    """Samples of a signal."""

    samples: int
    sum_dbm: int
    min_dbm: int
    max_dbm: int


class Fault(msgspec.Struct, array_like=True):
    """One code in one cell (whole CELL_E7, None: place unknown)."""

    code: str
    error_class: str
    cell: tuple[int, int] | None
    count: int = 0
    error_us: int = 0


class Tally(msgspec.Struct, array_like=True):
    """The sums of a day; see HealthDay for their meaning. Changed in place, by this module only."""

    observed_us: int = 0
    mowing_us: int = 0
    charging_us: int = 0
    driving_us: int = 0
    error_us: int = 0
    blades_us: list[int] = []
    distance_mm: int | None = None
    area_jobs: dict[str, int] = {}
    charge_cycles: int = 0
    drop_us: int = 0
    drop_percent: int = 0
    gain_us: int = 0
    gain_percent: int = 0
    faults: list[Fault] = []
    wifi: Spread | None = None
    ble: Spread | None = None
    mobile: Spread | None = None
    vendor: Totals | None = None


class Health(msgspec.Struct, array_like=True):
    """An open day and what one state must remember for the next; kept with the latest state."""

    day: LocalDay
    tally: Tally
    recorded_us: int
    run_us: int
    """Time is credited up to here; the rest of the way to the latest state follows."""
    sample_us: int = 0
    """When way and signals are looked at next; differs after every change of this struct."""
    due_us: int = 0
    """Before it no state but an unusual one has to be looked at closely."""
    recorded_work: int = 0
    recorded_observed_us: int = 0
    was_charging: bool | None = None
    job_area: str | None = None
    """Where the job that goes on began; None: at the dock."""
    error_code: str | None = None
    anchor: Place | None = None
    """Where the way travelled was last counted up to."""


def work_of(tally: Tally) -> int:
    """Grows when something happens beyond the passing of time at the dock."""
    return tally.mowing_us + tally.driving_us + tally.error_us + tally.charge_cycles


def day_body(day: LocalDay, tally: Tally) -> HealthDay:
    """The day as it is recorded."""
    return HealthDay(
        day=date.fromisoformat(day.key),
        time_zone=day.zone,
        starts_at=from_us(day.start_us),
        ends_at=from_us(day.end_us),
        observed_s=_seconds(tally.observed_us),
        mowing_s=_seconds(tally.mowing_us),
        charging_s=_seconds(tally.charging_us),
        driving_s=_seconds(tally.driving_us),
        error_s=_seconds(tally.error_us),
        blades_by_hour_s=tuple(_seconds(spent_us) for spent_us in tally.blades_us),
        distance_m=None if tally.distance_mm is None else tally.distance_mm / 1000,
        area_jobs=dict(tally.area_jobs),
        charge_cycles=tally.charge_cycles,
        battery=BatteryUse(
            mowing_s=_seconds(tally.drop_us),
            mowing_percent=tally.drop_percent,
            charging_s=_seconds(tally.gain_us),
            charging_percent=tally.gain_percent,
        ),
        errors=tuple(_error_tally(fault) for fault in tally.faults),
        wifi=_signal_range(tally.wifi),
        ble=_signal_range(tally.ble),
        mobile=_signal_range(tally.mobile),
        vendor=tally.vendor,
    )


def tally_of(body: HealthDay) -> Tally:
    """The sums of a recorded day, to go on from."""
    battery = body.battery
    return Tally(
        observed_us=_us(body.observed_s),
        mowing_us=_us(body.mowing_s),
        charging_us=_us(body.charging_s),
        driving_us=_us(body.driving_s),
        error_us=_us(body.error_s),
        blades_us=[_us(spent_s) for spent_s in body.blades_by_hour_s],
        distance_mm=None if body.distance_m is None else round(body.distance_m * 1000),
        area_jobs=dict(body.area_jobs),
        charge_cycles=body.charge_cycles,
        drop_us=_us(battery.mowing_s),
        drop_percent=battery.mowing_percent,
        gain_us=_us(battery.charging_s),
        gain_percent=battery.charging_percent,
        faults=[_fault(error) for error in body.errors],
        wifi=_spread(body.wifi),
        ble=_spread(body.ble),
        mobile=_spread(body.mobile),
        vendor=body.vendor,
    )


def _seconds(spent_us: int) -> float:
    return spent_us / 1_000_000


def _us(spent_s: float) -> int:
    return round(spent_s * 1_000_000)


def _error_tally(fault: Fault) -> ErrorTally:
    middle = None if fault.cell is None else [(2 * whole + 1) * CELL_E7 / 2 / DEGREE for whole in fault.cell]
    return ErrorTally(
        code=fault.code,
        error_class=ErrorClass(fault.error_class),
        lat=None if middle is None else middle[0],
        lon=None if middle is None else middle[1],
        count=fault.count,
        error_s=_seconds(fault.error_us),
    )


def _fault(error: ErrorTally) -> Fault:
    lat, lon = error.lat, error.lon
    cell = None if lat is None or lon is None else (cell_of(lat), cell_of(lon))
    return Fault(error.code, error.error_class, cell, error.count, _us(error.error_s))


def cell_of(degrees: float) -> int:
    """The cell that a latitude or longitude lies in."""
    return round(degrees * DEGREE) // CELL_E7


def _signal_range(spread: Spread | None) -> SignalRange | None:
    if spread is None:
        return None
    mean_dbm = spread.sum_dbm / spread.samples
    return SignalRange(samples=spread.samples, min_dbm=spread.min_dbm, max_dbm=spread.max_dbm, mean_dbm=mean_dbm)


def _spread(found: SignalRange | None) -> Spread | None:
    if found is None:
        return None
    return Spread(found.samples, round(found.mean_dbm * found.samples), found.min_dbm, found.max_dbm)
