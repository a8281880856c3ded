"""Which rows a new state makes: rules 2, 3, 4 and 6 of the write rules, as pure functions.

A store reads what it remembers of a mower (`Remembered`, kept with the latest row), asks `decide` what the new
state is worth, writes, and keeps what `remember` says. Times are microseconds since 1970, places whole 1e-7
degrees (1.1 cm of latitude), so that every store works with the same integers.
"""

from __future__ import annotations

import math

import msgspec

from core.domain import limits
from core.domain.clock import to_us
from core.domain.ids import MowerId
from core.domain.mower import MowerState
from core.telemetry.rows import HistoryRow, PositionRow

DEGREE = 10_000_000
"""Stored coordinates are whole 1e-7 degrees."""
SPEED_STEP_MPS = 0.1
"""Speed is measured noise: a change counts from this much away from the last written value. A dead band, not a
rounding: a rounded speed that hovers at a border would write a row every second."""

_METRES_PER_UNIT = 40_007_863.0 / 360.0 / DEGREE
"""Metres of 1e-7 degree along a mean meridian; half a per cent off at worst, for a rule of `about a centimetre`."""
_HISTORY_HEARTBEAT_US = int(limits.HISTORY_HEARTBEAT_S * 1_000_000)
_STANDING_POSITION_US = int(limits.STANDING_POSITION_S * 1_000_000)


class Fingerprint(msgspec.Struct, frozen=True, array_like=True):
    """What makes a state worth a history row, apart from its speed."""

    words: tuple[str | int | float | bool | None, ...]
    speed_mps: float | None


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A position in 1e-7 degrees, with the fix that it was seen under and when (microseconds)."""

    lat_e7: int
    lon_e7: int
    rtk_fix: str | None
    at_us: int


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """What a store keeps beside the latest state to judge the next one."""

    observed_us: int
    history_written_us: int | None = None
    history: Fingerprint | None = None
    """Of the last written history row, not of the last state."""
    position: Place | None = None
    """Last written row of the track."""
    seen: Place | None = None
    """Last plausible position, written or not: what a jump is measured from."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What one state is worth. An `older` one (backfill) goes to history and track by key, never to latest."""

    observed_us: int
    is_older: bool
    fingerprint: Fingerprint
    place: Place | None
    writes_history: bool
    writes_position: bool


def fingerprint_of(state: MowerState) -> Fingerprint:
    """(activity, battery percent, charging, rtk fix, rtk source, connection, blade height, blades on, error code)
    and the speed."""
    height, error = state.blade_height, state.error
    return Fingerprint(
        (
            state.activity,
            state.battery_percent,
            state.is_charging,
            state.rtk_fix,
            state.rtk_source,
            state.connectivity,
            None if height is None else round(height.value, 1),
            None if height is None else height.unit,
            state.blades_on,
            None if error is None else error.code,
        ),
        state.speed_mps,
    )


def place_of(state: MowerState, observed_us: int) -> Place | None:
    """The state's position in stored units, or None when it has no degrees."""
    position = state.position
    if position is None or position.lat is None or position.lon is None:
        return None
    return Place(round(position.lat * DEGREE), round(position.lon * DEGREE), state.rtk_fix, observed_us)


def decide(before: Remembered | None, state: MowerState) -> Decision:
    """What `state`, already admitted, is worth after `before` (None: the mower's first state)."""
    observed_us = to_us(state.observed_at)
    fingerprint = fingerprint_of(state)
    place = place_of(state, observed_us)
    is_older = before is not None and observed_us < before.observed_us
    return Decision(
        observed_us=observed_us,
        is_older=is_older,
        fingerprint=fingerprint,
        place=place,
        writes_history=is_older or _is_history_due(before, fingerprint, observed_us),
        writes_position=place is not None and (is_older or before is None or _is_position_due(before.position, place)),
    )


def remember(before: Remembered | None, decision: Decision, *, wrote_history: bool, wrote_position: bool) -> Remembered:
    """What to keep for the next state, given which rows were really made (a duplicate key makes none)."""
    if before is None:
        before = Remembered(observed_us=decision.observed_us)
    if decision.is_older:
        return before
    return Remembered(
        observed_us=decision.observed_us,
        history_written_us=decision.observed_us if wrote_history else before.history_written_us,
        history=decision.fingerprint if wrote_history else before.history,
        position=decision.place if wrote_position else before.position,
        seen=decision.place or before.seen,
    )


def _is_history_due(before: Remembered | None, fingerprint: Fingerprint, observed_us: int) -> bool:
    if before is None or before.history is None or before.history_written_us is None:
        return True
    if fingerprint.words != before.history.words or _has_speed_changed(before.history.speed_mps, fingerprint.speed_mps):
        return True
    return observed_us - before.history_written_us >= _HISTORY_HEARTBEAT_US


def _has_speed_changed(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) >= SPEED_STEP_MPS


def _is_position_due(written: Place | None, place: Place) -> bool:
    if written is None or place.rtk_fix != written.rtk_fix:
        return True
    if place.at_us - written.at_us >= _STANDING_POSITION_US:
        return True
    if place.lat_e7 != written.lat_e7:
        return True  # one unit of latitude is 11 mm, a step already
    return place.lon_e7 != written.lon_e7 and distance_m(written, place) >= limits.POSITION_STEP_M


def distance_m(a: Place, b: Place) -> float:
    """Metres between two stored places of one garden, the 180th meridian included."""
    north = (b.lat_e7 - a.lat_e7) * _METRES_PER_UNIT
    units_east = (b.lon_e7 - a.lon_e7 + 180 * DEGREE) % (360 * DEGREE) - 180 * DEGREE
    east = units_east * _METRES_PER_UNIT * math.cos(math.radians(a.lat_e7 / DEGREE))
    return math.hypot(north, east)


def history_row(mower_id: MowerId, state: MowerState) -> HistoryRow:
    """The history row of a state. A blade height in steps or per cent has no millimetres."""
    height = state.blade_height
    return HistoryRow(
        mower_id=mower_id,
        observed_at=state.observed_at,
        activity=state.activity,
        connectivity=state.connectivity,
        battery_percent=state.battery_percent,
        is_charging=state.is_charging,
        rtk_fix=state.rtk_fix,
        rtk_source=state.rtk_source,
        blade_height_mm=height.value if height is not None and height.unit == "mm" else None,
        blades_on=state.blades_on,
        speed_mps=state.speed_mps,
        error_code=None if state.error is None else state.error.code,
    )


def position_row(mower_id: MowerId, state: MowerState, place: Place) -> PositionRow:
    """The track row of a state whose place is `place`."""
    position, signals = state.position, state.signals
    return PositionRow(
        mower_id=mower_id,
        observed_at=state.observed_at,
        lat=place.lat_e7 / DEGREE,
        lon=place.lon_e7 / DEGREE,
        heading_deg=None if position is None else position.heading_deg,
        accuracy_m=None if position is None else position.accuracy_m,
        rtk_fix=state.rtk_fix,
        rtk_source=state.rtk_source,
        blades_on=state.blades_on,
        wifi_dbm=None if signals is None else signals.wifi_dbm,
        mobile_dbm=None if signals is None else signals.mobile_dbm,
        satellites=state.satellites,
    )
