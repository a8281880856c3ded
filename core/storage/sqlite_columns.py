"""Rows as columns: small integers instead of words and floats.

Code tables are part of the file format: codes are never reused, new words get new codes. An unknown code (a newer
version's) reads as UNKNOWN. Codes 0 and 1 take no byte in SQLite, so they go to the most frequent words.
Units: 0.1 degree of heading, millimetres of accuracy, mm/s, 0.1 mm of blade height, 1e-7 degrees.
"""

from __future__ import annotations

from typing import Any

from core.domain.clock import from_us, to_us
from core.domain.commands import CommandResult, CommandStatus
from core.domain.ids import MowerId
from core.domain.mower import Activity, Connectivity, RtkFix, RtkSource
from core.telemetry.rows import HistoryRow, PositionRow, RecordRow, TimelineRow
from core.telemetry.significance import DEGREE

ACTIVITY_CODES = {
    Activity.MOWING: 0,
    Activity.DOCKED: 1,
    Activity.CHARGING: 2,
    Activity.LEAVING: 3,
    Activity.RETURNING: 4,
    Activity.PAUSED: 5,
    Activity.IDLE: 6,
    Activity.ERROR: 7,
    Activity.MANUAL: 8,
    Activity.UNKNOWN: 9,
}
CONNECTIVITY_CODES = {Connectivity.OFFLINE: 0, Connectivity.ONLINE: 1, Connectivity.UNKNOWN: 2}
RTK_FIX_CODES = {RtkFix.FLOAT: 0, RtkFix.FIXED: 1, RtkFix.SINGLE: 2, RtkFix.NONE: 3, RtkFix.UNKNOWN: 4}
RTK_SOURCE_CODES = {
    RtkSource.BASE: 0,
    RtkSource.NETWORK: 1,
    RtkSource.VISION: 2,
    RtkSource.NONE: 3,
    RtkSource.UNKNOWN: 4,
}
STATUS_CODES = {
    CommandStatus.PENDING: 0,
    CommandStatus.ACCEPTED: 1,
    CommandStatus.EXECUTED: 2,
    CommandStatus.REJECTED: 3,
    CommandStatus.EXPIRED: 4,
    CommandStatus.FAILED: 5,
}

_ACTIVITIES = {code: word for word, code in ACTIVITY_CODES.items()}
_CONNECTIVITIES = {code: word for word, code in CONNECTIVITY_CODES.items()}
_RTK_FIXES = {code: word for word, code in RTK_FIX_CODES.items()}
_RTK_SOURCES = {code: word for word, code in RTK_SOURCE_CODES.items()}
_STATUSES = {code: word for word, code in STATUS_CODES.items()}

Columns = tuple[Any, ...]

HISTORY_COLUMNS = (
    "mower_no, observed_us, seq, activity, connectivity, battery, is_charging, rtk_fix, rtk_source, blade_height, "
    "blades_on, speed, error_code"
)
POSITION_COLUMNS = (
    "mower_no, observed_us, seq, lat_e7, lon_e7, heading, accuracy, rtk_fix, rtk_source, blades_on, wifi, mobile, "
    "satellites"
)
TIMELINE_COLUMNS = "command_id, status, mower_no, at_us, reason, seq"
RECORD_COLUMNS = "mower_no, kind, key, at_us, updated_us, seq, body"

INSERT_HISTORY = f"INSERT OR IGNORE INTO mower_history ({HISTORY_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
INSERT_POSITION = f"INSERT OR IGNORE INTO mower_positions ({POSITION_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
INSERT_TIMELINE = f"INSERT OR IGNORE INTO command_timeline ({TIMELINE_COLUMNS}) VALUES (?,?,?,?,?,?)"
UPSERT_RECORD = (
    f"INSERT INTO mower_records ({RECORD_COLUMNS}) VALUES (?,?,?,?,?,?,?) "
    "ON CONFLICT (mower_no, kind, key) DO UPDATE SET "
    "at_us = excluded.at_us, updated_us = excluded.updated_us, seq = excluded.seq, body = excluded.body "
    "WHERE (excluded.updated_us, excluded.body) > (mower_records.updated_us, mower_records.body)"
)
"""Does nothing unless the version is newer, by the rule of `core.telemetry.records.is_newer`."""


def encode_history(row: HistoryRow, mower_no: int, seq: int | None) -> Columns:
    """Values for INSERT_HISTORY."""
    fix, source, height, speed = row.rtk_fix, row.rtk_source, row.blade_height_mm, row.speed_mps
    return (
        mower_no,
        to_us(row.observed_at),
        seq,
        ACTIVITY_CODES[row.activity],
        CONNECTIVITY_CODES[row.connectivity],
        row.battery_percent,
        row.is_charging,
        None if fix is None else RTK_FIX_CODES[fix],
        None if source is None else RTK_SOURCE_CODES[source],
        None if height is None else round(height * 10),
        row.blades_on,
        None if speed is None else round(speed * 1000),
        row.error_code,
    )


def encode_position(row: PositionRow, mower_no: int, seq: int | None) -> Columns:
    """Values for INSERT_POSITION."""
    fix, source, heading, accuracy = row.rtk_fix, row.rtk_source, row.heading_deg, row.accuracy_m
    return (
        mower_no,
        to_us(row.observed_at),
        seq,
        round(row.lat * DEGREE),
        round(row.lon * DEGREE),
        None if heading is None else round(heading * 10) % 3600,
        None if accuracy is None else round(accuracy * 1000),
        None if fix is None else RTK_FIX_CODES[fix],
        None if source is None else RTK_SOURCE_CODES[source],
        row.blades_on,
        row.wifi_dbm,
        row.mobile_dbm,
        row.satellites,
    )


def encode_timeline(row: TimelineRow, mower_no: int, seq: int | None) -> Columns:
    """Values for INSERT_TIMELINE."""
    result = row.result
    return (result.command_id, STATUS_CODES[result.status], mower_no, to_us(result.at), result.reason, seq)


def encode_record(row: RecordRow, mower_no: int, seq: int | None) -> Columns:
    """Values for UPSERT_RECORD."""
    return (mower_no, row.kind, row.key, to_us(row.at), to_us(row.updated_at), seq, row.body)


def decode_record(columns: Columns, mower_id: MowerId) -> RecordRow:
    """The row of RECORD_COLUMNS."""
    _, kind, key, at_us, updated_us, _, body = columns
    return RecordRow(
        mower_id=mower_id, kind=kind, key=key, at=from_us(at_us), updated_at=from_us(updated_us), body=body
    )


def decode_history(columns: Columns, mower_id: MowerId) -> HistoryRow:
    """The row of HISTORY_COLUMNS."""
    _, us, _, activity, connectivity, battery, charging, fix, source, height, blades, speed, error_code = columns
    return HistoryRow(
        mower_id=mower_id,
        observed_at=from_us(us),
        activity=activity_of(activity),
        connectivity=_CONNECTIVITIES.get(connectivity, Connectivity.UNKNOWN),
        battery_percent=battery,
        is_charging=None if charging is None else bool(charging),
        rtk_fix=rtk_fix_of(fix),
        rtk_source=_rtk_source_of(source),
        blade_height_mm=None if height is None else height / 10,
        blades_on=None if blades is None else bool(blades),
        speed_mps=None if speed is None else speed / 1000,
        error_code=error_code,
    )


def decode_position(columns: Columns, mower_id: MowerId) -> PositionRow:
    """The row of POSITION_COLUMNS."""
    _, us, _, lat_e7, lon_e7, heading, accuracy, fix, source, blades, wifi, mobile, satellites = columns
    return PositionRow(
        mower_id=mower_id,
        observed_at=from_us(us),
        lat=lat_e7 / DEGREE,
        lon=lon_e7 / DEGREE,
        heading_deg=None if heading is None else heading / 10,
        accuracy_m=None if accuracy is None else accuracy / 1000,
        rtk_fix=rtk_fix_of(fix),
        rtk_source=_rtk_source_of(source),
        blades_on=None if blades is None else bool(blades),
        wifi_dbm=wifi,
        mobile_dbm=mobile,
        satellites=satellites,
    )


def decode_timeline(columns: Columns, mower_id: MowerId) -> TimelineRow:
    """The row of TIMELINE_COLUMNS. A status that this version does not know reads as failed: it ended somehow."""
    command_id, status, _, at_us, reason, _ = columns
    return TimelineRow(
        result=CommandResult(
            command_id=command_id, mower_id=mower_id, status=status_of(status), at=from_us(at_us), reason=reason
        )
    )


def activity_of(code: int) -> Activity:
    return _ACTIVITIES.get(code, Activity.UNKNOWN)


def rtk_fix_of(code: int | None) -> RtkFix | None:
    return None if code is None else _RTK_FIXES.get(code, RtkFix.UNKNOWN)


def _rtk_source_of(code: int | None) -> RtkSource | None:
    return None if code is None else _RTK_SOURCES.get(code, RtkSource.UNKNOWN)


def status_of(code: int) -> CommandStatus:
    return _STATUSES.get(code, CommandStatus.FAILED)
