"""Is a state believable? Wrong optional fields are dropped by name, a wrong date refuses the whole state.

Applied before anything is written, on both hosts, and idempotent: an admitted state is admitted unchanged.
The names of what was dropped are for counters and for the integration's author.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from core.domain import limits
from core.domain.clock import to_us
from core.domain.ids import is_safe_id
from core.domain.mower import MowerError, MowerState, Position, Signals, Totals
from core.telemetry.records import find_body_fault
from core.telemetry.rows import HistoryRow, PositionRow, RecordRow, Row
from core.telemetry.significance import DEGREE, Place, distance_m

EARLIEST = datetime(2015, 1, 1, tzinfo=UTC)
"""No mower of ours is older: an earlier date is a clock that was never set."""
SPEED_MAX_MPS = 10.0
ACCURACY_MAX_M = 10_000.0
LOCAL_MAX_M = 100_000.0
HEIGHT_MAX = 1_000.0
SATELLITES_MAX = 200
DBM = range(-200, 31)
ERROR_CODE_CHARS = 64
RAW_CHARS = 8_192
NULL_ISLAND_DEG = 1e-5
"""Within a metre of (0, 0) nobody mows: it is what a receiver says that has no fix."""
JUMP_SLACK_M = 30.0
JUMP_SPEED_MPS = 5.0
"""A position farther than slack + speed x time from the last plausible one is a jump. A mower that was really
carried away is believed as soon as it could have been driven there: 500 m take 94 s."""

_NEAR_DEG = 1e-4
"""So few degrees are less than the slack anywhere on the globe (11 m each way), and most steps are that short."""


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """The state without its implausible parts, or None with the reason; and the names of all that was dropped."""

    state: MowerState | None
    refused: str | None = None
    """`observed_at`, the only field that a state cannot do without."""
    dropped: tuple[str, ...] = ()


def admit(state: MowerState, *, now: datetime, seen: Place | None = None) -> Admitted:
    """`state` as far as it can be believed at `now` (aware UTC); `seen` is the last plausible position."""
    observed_at = state.observed_at
    if not is_plausible_date(observed_at, now):
        return Admitted(state=None, refused="observed_at")
    changes = _find_changes(state, seen)
    dropped = tuple(changes)
    if observed_at.tzinfo is not UTC:
        changes["observed_at"] = observed_at.astimezone(UTC)
    if not changes:
        return Admitted(state=state)
    fields = {name.partition(":")[0]: value for name, value in changes.items()}
    return Admitted(state=msgspec.structs.replace(state, **fields), dropped=dropped)


def is_plausible_date(at: datetime, now: datetime) -> bool:
    """Whether a row can be of this instant: aware, not before 2015, not beyond the tolerance ahead of `now`."""
    if at.tzinfo is not UTC and (at.tzinfo is None or at.utcoffset() is None):
        return False
    return EARLIEST <= at <= now + limits.FUTURE_TOLERANCE


def find_row_fault(row: Row, now: datetime) -> str | None:
    """Why a row of a box cannot be stored (`future`, `implausible:<field>`, `body:<why>`); None when it can."""
    if isinstance(row, RecordRow):
        return find_record_fault(row, now)
    at = row.observed_at if isinstance(row, HistoryRow | PositionRow) else row.result.at
    fault = _date_fault(at, now)
    if fault is not None:
        return fault
    if isinstance(row, PositionRow):
        return _position_fault(row)
    if isinstance(row, HistoryRow):
        return _history_fault(row)
    return None


def find_record_fault(row: RecordRow, now: datetime) -> str | None:
    """Why a record cannot be stored; None when it can."""
    fault = _date_fault(row.at, now) or _date_fault(row.updated_at, now)
    if fault is not None:
        return fault
    if not (is_safe_id(row.kind) and is_safe_id(row.key)):
        return "implausible:key"
    fault = find_body_fault(row.body)
    return None if fault is None else f"body:{fault}"


def _date_fault(at: datetime, now: datetime) -> str | None:
    if is_plausible_date(at, now):
        return None
    is_aware = at.tzinfo is not None and at.utcoffset() is not None
    return "future" if is_aware and at > now else "implausible:at"


def _position_fault(row: PositionRow) -> str | None:
    if not _is_place(row.lat, row.lon):
        return "implausible:position"
    if row.heading_deg is not None and not 0.0 <= row.heading_deg <= 360.0:
        return "implausible:heading_deg"
    if row.accuracy_m is not None and not 0.0 <= row.accuracy_m <= ACCURACY_MAX_M:
        return "implausible:accuracy_m"
    if not (_is_dbm(row.wifi_dbm) and _is_dbm(row.mobile_dbm)):
        return "implausible:signals"
    if row.satellites is not None and not _is_count(row.satellites, SATELLITES_MAX):
        return "implausible:satellites"
    return None


def _history_fault(row: HistoryRow) -> str | None:
    if row.battery_percent is not None and not _is_count(row.battery_percent, 100):
        return "implausible:battery_percent"
    if row.speed_mps is not None and not -SPEED_MAX_MPS <= row.speed_mps <= SPEED_MAX_MPS:
        return "implausible:speed_mps"
    if row.blade_height_mm is not None and not 0.0 <= row.blade_height_mm <= HEIGHT_MAX:
        return "implausible:blade_height_mm"
    if row.error_code is not None and len(row.error_code) > ERROR_CODE_CHARS:
        return "implausible:error_code"
    return None


def _find_changes(state: MowerState, seen: Place | None) -> dict[str, Any]:
    """The corrected value of each implausible part by `field` or `field:what`; NaN fails every comparison."""
    changes: dict[str, Any] = {}
    if state.battery_percent is not None and not _is_count(state.battery_percent, 100):
        changes["battery_percent"] = None
    if state.speed_mps is not None and not -SPEED_MAX_MPS <= state.speed_mps <= SPEED_MAX_MPS:
        changes["speed_mps"] = None
    if state.satellites is not None and not _is_count(state.satellites, SATELLITES_MAX):
        changes["satellites"] = None
    if state.progress_percent is not None and not 0.0 <= state.progress_percent <= 100.0:
        changes["progress_percent"] = None
    if state.blade_height is not None and not 0.0 <= state.blade_height.value <= HEIGHT_MAX:
        changes["blade_height"] = None
    if state.position is not None:
        _check_position(state, state.position, seen, changes)
    for name, correct in _PARTS:
        part = getattr(state, name)
        if part is not None and (better := correct(part)) is not part:
            changes[name] = better
    return changes


def _check_position(state: MowerState, position: Position, seen: Place | None, changes: dict[str, Any]) -> None:
    wrong: dict[str, tuple[str, ...]] = {}
    if position.lat is not None or position.lon is not None:
        fault = _place_fault(state, position, seen)
        if fault is not None:
            wrong[fault] = ("lat", "lon")
    if position.heading_deg is not None and not 0.0 <= position.heading_deg <= 360.0:
        wrong["position:heading_deg"] = ("heading_deg",)
    if position.accuracy_m is not None and not 0.0 <= position.accuracy_m <= ACCURACY_MAX_M:
        wrong["position:accuracy_m"] = ("accuracy_m",)
    if not (_is_local(position.x_m) and _is_local(position.y_m)):
        wrong["position:local"] = ("x_m", "y_m")
    if wrong:
        better = msgspec.structs.replace(position, **{field: None for fields in wrong.values() for field in fields})
        changes.update(dict.fromkeys(wrong, better))


def _place_fault(state: MowerState, position: Position, seen: Place | None) -> str | None:
    lat, lon = position.lat, position.lon
    if lat is None or lon is None or not (math.isfinite(lat) and math.isfinite(lon)):
        return "position:degrees"
    if not _is_place(lat, lon):
        is_null = abs(lat) < NULL_ISLAND_DEG and abs(lon) < NULL_ISLAND_DEG
        return "position:null-island" if is_null else "position:degrees"
    if seen is None or abs(lat - seen.lat_e7 / DEGREE) + abs(lon - seen.lon_e7 / DEGREE) < _NEAR_DEG:
        return None
    elapsed_s = (to_us(state.observed_at) - seen.at_us) / 1_000_000
    if elapsed_s < 0.0:  # a late state: what was seen after it says little about it
        return None
    away_m = distance_m(seen, Place(round(lat * DEGREE), round(lon * DEGREE), None, 0))
    return "position:jump" if away_m > JUMP_SLACK_M + JUMP_SPEED_MPS * elapsed_s else None


def _is_place(lat: float, lon: float) -> bool:
    """Degrees on the globe, and not (0, 0)."""
    if not (-90.0 <= lat <= 90.0 and -180.0 <= lon <= 180.0):
        return False
    return abs(lat) >= NULL_ISLAND_DEG or abs(lon) >= NULL_ISLAND_DEG


def _is_count(value: object, highest: int) -> bool:
    """A whole number between 0 and `highest`; a plugin's float or bool is not one."""
    return type(value) is int and 0 <= value <= highest


def _is_dbm(value: object) -> bool:
    return value is None or (type(value) is int and value in DBM)


def _is_local(value: float | None) -> bool:
    return value is None or -LOCAL_MAX_M <= value <= LOCAL_MAX_M


def _plausible_signals(signals: Signals) -> Signals:
    if _is_dbm(signals.wifi_dbm) and _is_dbm(signals.mobile_dbm) and _is_dbm(signals.ble_dbm):
        return signals
    return msgspec.structs.replace(
        signals,
        wifi_dbm=signals.wifi_dbm if _is_dbm(signals.wifi_dbm) else None,
        mobile_dbm=signals.mobile_dbm if _is_dbm(signals.mobile_dbm) else None,
        ble_dbm=signals.ble_dbm if _is_dbm(signals.ble_dbm) else None,
    )


def _plausible_totals(totals: Totals) -> Totals:
    wrong = {
        name: None
        for name in totals.__struct_fields__
        if (value := getattr(totals, name)) is not None and not _is_count(value, 2**48)
    }
    return msgspec.structs.replace(totals, **wrong) if wrong else totals


def _plausible_error(error: MowerError) -> MowerError:
    """A fault is never dropped: its code is cut, a naive date taken off."""
    if len(error.code) > ERROR_CODE_CHARS:
        error = msgspec.structs.replace(error, code=error.code[:ERROR_CODE_CHARS])
    if error.since is not None and error.since.tzinfo is None:
        error = msgspec.structs.replace(error, since=None)
    return error


def _plausible_start(at: datetime) -> datetime | None:
    return at if at.tzinfo is not None else None


def _plausible_raw(raw: dict[str, str]) -> dict[str, str] | None:
    return raw if sum(len(key) + len(value) for key, value in raw.items()) <= RAW_CHARS else None


_PARTS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("signals", _plausible_signals),
    ("totals", _plausible_totals),
    ("error", _plausible_error),
    ("next_start_at", _plausible_start),
    ("raw", _plausible_raw),
)
"""Parts of a state that are corrected as a whole."""
