"""Health of a mower, advanced from each pair (previous latest state, new state): write rule 5.

Only states newer than all before advance it, so a redelivery or a late state changes nothing. What is counted is kept
with the latest state and written in its transaction; days go out as `health_day` records now and then, and when they
are over. All sums are whole numbers, so a day is the same however its states were grouped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zoneinfo import ZoneInfo

import msgspec

from core.domain import limits
from core.domain.mower import AT_DOCK, Activity, Connectivity, MowerError, MowerState, Signals
from core.telemetry.health_day import HealthDay
from core.telemetry.health_tally import Fault, Health, Spread, Tally, cell_of, day_body, tally_of, work_of
from core.telemetry.local_days import LocalDay, day_of
from core.telemetry.significance import Place, distance_m

SPEED_MAX_MPS = 3.0
"""No lawn mower is faster; a longer step is a jump of the receiver and no way travelled."""
STEP_MIN_M = 0.1
"""Shorter steps are noise of the receiver until they add up."""
ACCURACY_MAX_M = 5.0
"""A position less accurate than this says nothing about the way."""
GAIN_BELOW_PERCENT = 90
"""Above it chargers slow down, at every age of the battery."""
SAMPLE_S = 2.0
"""Way and signals are looked at this often while nothing else changes. Longer steps would cut the turns at the ends of
lanes short, shorter ones cost more and hold more of the receiver's noise."""
RECORD_S = 300.0
"""A day that moves on is written as a record at most this often, ..."""
IDLE_RECORD_S = 3_600.0
"""... and one in which only time passes (at the dock) this often."""
ERRORS_MAX = 24
AREAS_MAX = 24
"""Different ones of a day; more are counted together, under no place and no name."""
AREA_CHARS = 64
OTHER_ERRORS = "other"
HOURS_MAX = 26

_GAP_US = int(limits.HEALTH_GAP_S * 1_000_000)
_HOUR_US = 3_600_000_000
_SAMPLE_US = int(SAMPLE_S * 1_000_000)
_RECORD_US, _IDLE_RECORD_US = int(RECORD_S * 1_000_000), int(IDLE_RECORD_S * 1_000_000)
_DRIVING = frozenset({Activity.LEAVING, Activity.RETURNING, Activity.MANUAL})
_MOVING = _DRIVING | {Activity.MOWING}


class Version(msgspec.Struct, frozen=True):
    """A day to be written as a record, as it is at `updated_us`."""

    day: HealthDay
    updated_us: int


Resume = Callable[[str], HealthDay | None]
"""The record of a day by its key, to go on from (a zone that was changed, a database that was restored)."""


def goes_on(health: Health, before: tuple[MowerState, int], after: tuple[MowerState, int, Place | None]) -> bool:
    """Whether the new state only carries on a run: then all that it says has been counted, and `advance` need not
    look at it. Most states only move a little; the time of their run is credited when it ends, or when a day or a
    record is due."""
    state, now_us, place = after
    if now_us >= health.due_us or now_us - before[1] > _GAP_US or not _is_same(before[0], state):
        return False
    if now_us >= health.sample_us:
        health.sample_us = now_us + _SAMPLE_US
        if state.signals is not None:
            _count_signals(health.tally, state.signals)
        _count_way(health, before[0], state, place)
    return True


def advance(
    health: Health | None,
    before: tuple[MowerState, int] | None,
    after: tuple[MowerState, int, Place | None],
    zone: ZoneInfo,
    resume: Resume,
) -> tuple[Health, Sequence[Version]]:
    """The health after a new state, and the days to be recorded now. `before` is the latest state with its time
    (microseconds), `after` the newer one with time and place. `health` is changed in place and returned."""
    state, now_us, place = after
    versions: list[Version] = []
    if health is None:
        health = _open(day_of(now_us if before is None else before[1], zone), now_us, resume)
    if before is not None and before[0].totals is not None:
        health.tally.vendor = before[0].totals
    if before is not None and _is_known(before[0]):
        until_us = min(now_us, before[1] + _GAP_US) if _is_known(state) else before[1]
        start_us = health.run_us
        while until_us > health.day.end_us:
            border_us = health.day.end_us
            _credit(health, before[0], start_us, border_us)
            _turn(health, day_of(border_us, zone), now_us, resume, versions)
            start_us = max(start_us, border_us)
        _credit(health, before[0], start_us, until_us)
    health.run_us, health.sample_us = now_us, now_us + _SAMPLE_US
    if now_us >= health.day.end_us:
        _turn(health, day_of(now_us, zone), now_us, resume, versions)
    _count(health, before, state, now_us, place)
    _record_when_due(health, state, now_us, versions)
    return health, versions


def _record_when_due(health: Health, state: MowerState, now_us: int, versions: list[Version]) -> None:
    is_new = health.tally.observed_us != health.recorded_observed_us
    pause_us = _IDLE_RECORD_US if work_of(health.tally) == health.recorded_work else _RECORD_US
    if is_new and now_us - health.recorded_us >= pause_us:
        _record(health, now_us, versions)
    is_working = state.activity in _MOVING or state.error is not None or work_of(health.tally) != health.recorded_work
    health.due_us = min(health.day.end_us, health.recorded_us + (_RECORD_US if is_working else _IDLE_RECORD_US))


def settle(health: Health, state: MowerState, observed_us: int) -> None:
    """Credits the run up to the latest state, because another of the same instant takes its place."""
    if _is_known(state):
        _credit(health, state, health.run_us, observed_us)
    health.run_us = health.sample_us = observed_us


def _is_same(before: MowerState, state: MowerState) -> bool:
    return (
        before.activity is state.activity
        and before.connectivity is state.connectivity
        and before.is_charging is state.is_charging
        and before.battery_percent == state.battery_percent
        and before.blades_on is state.blades_on
        and before.current_area == state.current_area
        and before.error == state.error
    )


def _open(day: LocalDay, now_us: int, resume: Resume) -> Health:
    tally = _resumed(day, resume)
    return Health(day, tally, now_us, now_us, recorded_observed_us=tally.observed_us, recorded_work=work_of(tally))


def _resumed(day: LocalDay, resume: Resume) -> Tally:
    body = resume(day.key)
    return Tally() if body is None else tally_of(body)


def _turn(health: Health, day: LocalDay, now_us: int, resume: Resume, versions: list[Version]) -> None:
    """Ends the open day and begins another."""
    if day.key == health.day.key:  # the garden's zone was changed: the date goes on
        health.day = day
        return
    if health.tally.observed_us != health.recorded_observed_us or work_of(health.tally) != health.recorded_work:
        _record(health, now_us, versions)
    health.day, health.tally = day, _resumed(day, resume)
    health.recorded_us, health.recorded_work = now_us, work_of(health.tally)
    health.recorded_observed_us = health.tally.observed_us


def _record(health: Health, now_us: int, versions: list[Version]) -> None:
    versions.append(Version(day_body(health.day, health.tally), now_us))
    health.recorded_us, health.recorded_work = now_us, work_of(health.tally)
    health.recorded_observed_us = health.tally.observed_us


def _is_known(state: MowerState) -> bool:
    return state.activity is not Activity.UNKNOWN and state.connectivity is not Connectivity.OFFLINE


def is_charging(state: MowerState) -> bool | None:
    """Whether the mower charges, from what it says of it or does; None when it says neither."""
    if state.is_charging is not None:
        return state.is_charging
    if state.activity is Activity.CHARGING:
        return True
    return False if state.activity in _MOVING else None


def _credit(health: Health, state: MowerState, from_us: int, until_us: int) -> None:
    """The stretch belongs to what `state` said; it lies within the open day."""
    spent_us = until_us - from_us
    if spent_us <= 0:
        return
    tally, activity, battery = health.tally, state.activity, state.battery_percent
    charging = is_charging(state)
    tally.observed_us += spent_us
    if charging:
        tally.charging_us += spent_us
        if battery is not None and battery < GAIN_BELOW_PERCENT:
            tally.gain_us += spent_us
    if activity is Activity.MOWING:
        tally.mowing_us += spent_us
        if battery is not None and not charging:
            tally.drop_us += spent_us
    elif activity in _DRIVING:
        tally.driving_us += spent_us
    if state.error is not None or activity is Activity.ERROR:
        tally.error_us += spent_us
        if state.error is not None:
            _fault(tally, state.error, _cell(state)).error_us += spent_us
    blades = state.blades_on
    if activity is Activity.MOWING if blades is None else blades:
        _credit_blades(health, from_us, until_us)


def _credit_blades(health: Health, from_us: int, until_us: int) -> None:
    hours, start_us = health.tally.blades_us, health.day.start_us
    while from_us < until_us:
        hour = min(max(0, (from_us - start_us) // _HOUR_US), HOURS_MAX - 1)
        border_us = until_us if hour == HOURS_MAX - 1 else min(until_us, start_us + (hour + 1) * _HOUR_US)
        while len(hours) <= hour:
            hours.append(0)
        hours[hour] += border_us - from_us
        from_us = border_us


def _count(
    health: Health, before: tuple[MowerState, int] | None, state: MowerState, now_us: int, place: Place | None
) -> None:
    """What the new state says beyond the time since the last: all of it belongs to the day of the new state."""
    tally = health.tally
    if state.signals is not None:
        _count_signals(tally, state.signals)
    if state.totals is not None:
        tally.vendor = state.totals
    if not _is_known(state):
        health.anchor = None
        return
    _count_turns(health, state)
    gap_us = _GAP_US + 1 if before is None else now_us - before[1]
    if before is None or gap_us > _GAP_US or not _is_known(before[0]):
        health.anchor = place
        return
    _count_way(health, before[0], state, place)
    _count_battery(tally, before[0], state)


def _count_turns(health: Health, state: MowerState) -> None:
    """What begins: a charge, a job, a fault. Each is counted once, also when it was not seen for a while."""
    tally, charging = health.tally, is_charging(state)
    if charging is not None:
        if charging and health.was_charging is False:
            tally.charge_cycles += 1
        health.was_charging = charging
    if state.activity is Activity.MOWING:
        area = state.current_area[:AREA_CHARS] if state.current_area else ""
        if health.job_area is None or (area and health.job_area not in {"", area}):
            name = area if area in tally.area_jobs or len(tally.area_jobs) < AREAS_MAX else ""
            tally.area_jobs[name] = tally.area_jobs.get(name, 0) + 1
        if health.job_area is None or area:  # a mower that names its area late has begun one job all the same
            health.job_area = area
    elif state.activity in AT_DOCK:
        health.job_area = None
    error = state.error
    if error is not None and error.code != health.error_code:
        _fault(tally, error, _cell(state)).count += 1
    health.error_code = None if error is None else error.code


def _count_way(health: Health, before: MowerState, state: MowerState, place: Place | None) -> None:
    if before.activity not in _MOVING or place is None or state.position is None:
        health.anchor = None
        return
    accuracy_m = state.position.accuracy_m
    if accuracy_m is not None and accuracy_m > ACCURACY_MAX_M:
        health.anchor = None
        return
    anchor = health.anchor
    if anchor is None:
        health.anchor = place
        return
    noise_m = STEP_MIN_M if accuracy_m is None or accuracy_m < STEP_MIN_M else accuracy_m
    step_m = distance_m(anchor, place)
    if step_m >= noise_m:
        if step_m <= noise_m + SPEED_MAX_MPS * (place.at_us - anchor.at_us) / 1_000_000:
            health.tally.distance_mm = (health.tally.distance_mm or 0) + round(step_m * 1000)
        health.anchor = place


def _count_battery(tally: Tally, before: MowerState, state: MowerState) -> None:
    """Signed differences: a percentage that flickers sums up to nothing."""
    had, has = before.battery_percent, state.battery_percent
    if had is None or has is None:
        return
    charging = is_charging(before)
    if charging and had < GAIN_BELOW_PERCENT:
        tally.gain_percent += has - had
    elif before.activity is Activity.MOWING and not charging:
        tally.drop_percent += had - has


def _count_signals(tally: Tally, signals: Signals) -> None:
    if signals.wifi_dbm is not None:
        tally.wifi = _widened(tally.wifi, signals.wifi_dbm)
    if signals.ble_dbm is not None:
        tally.ble = _widened(tally.ble, signals.ble_dbm)
    if signals.mobile_dbm is not None:
        tally.mobile = _widened(tally.mobile, signals.mobile_dbm)


def _widened(spread: Spread | None, dbm: int) -> Spread:
    if spread is None:
        return Spread(1, dbm, dbm, dbm)
    spread.samples += 1
    spread.sum_dbm += dbm
    if dbm < spread.min_dbm:
        spread.min_dbm = dbm
    elif dbm > spread.max_dbm:
        spread.max_dbm = dbm
    return spread


def _cell(state: MowerState) -> tuple[int, int] | None:
    position = state.position
    if position is None or position.lat is None or position.lon is None:
        return None
    return (cell_of(position.lat), cell_of(position.lon))


def _fault(tally: Tally, error: MowerError, cell: tuple[int, int] | None) -> Fault:
    """Where this fault is counted; when there are too many, the last one stands for all others."""
    for fault in tally.faults:
        if fault.code == error.code and fault.cell == cell:
            return fault
    if len(tally.faults) < ERRORS_MAX:
        fault = Fault(error.code, error.error_class, cell)
    elif tally.faults[-1].code == OTHER_ERRORS:
        return tally.faults[-1]
    else:
        fault = Fault(OTHER_ERRORS, "unknown", None)
    tally.faults.append(fault)
    return fault
