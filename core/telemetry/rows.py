"""Rows of the telemetry tables as values: what the store takes, what the journal carries, what reads return."""

from __future__ import annotations

from datetime import datetime

import msgspec

from core.domain.commands import CommandResult
from core.domain.ids import MowerId
from core.domain.mower import Activity, Connectivity, RtkFix, RtkSource


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One change of state. No position columns."""

    mower_id: MowerId
    observed_at: datetime
    activity: Activity
    connectivity: Connectivity
    battery_percent: int | None = None
    is_charging: bool | None = None
    rtk_fix: RtkFix | None = None
    rtk_source: RtkSource | None = None
    blade_height_mm: float | None = None
    blades_on: bool | None = None
    speed_mps: float | None = None
    error_code: str | None = None


class PositionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the track. `lat` and `lon` are whole 1e-7 degrees apart from rounding on the wire."""

    mower_id: MowerId
    observed_at: datetime
    lat: float
    lon: float
    heading_deg: float | None = None
    accuracy_m: float | None = None
    rtk_fix: RtkFix | None = None
    rtk_source: RtkSource | None = None
    blades_on: bool | None = None
    wifi_dbm: int | None = None
    mobile_dbm: int | None = None
    satellites: int | None = None


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True):
    """One transition of a command."""

    result: CommandResult

    @property
    def mower_id(self) -> MowerId:
        return self.result.mower_id


class RecordRow(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a small document about a mower, e.g. a day of its health or a session of mowing.

    (mower, `kind`, `key`) names the document; of two versions the one with the later `updated_at` stands. The kinds
    and their bodies are in `core.telemetry.records`; a kind that a version does not know is kept as it is.
    """

    mower_id: MowerId
    kind: str
    key: str
    at: datetime
    """When what it tells of happened or began: what ranges and retention go by."""
    updated_at: datetime
    """When this version was made."""
    body: bytes
    """A JSON object of at most limits.RECORD_BYTES."""


Row = HistoryRow | PositionRow | TimelineRow | RecordRow


class SequencedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the box's journal with its place in the stream."""

    seq: int
    row: Row


class HistoryBin(msgspec.Struct, frozen=True, kw_only=True):
    """One bin of a history: last words, rounded battery mean with bounds, last position of the bin."""

    at: datetime
    samples: int
    activity: Activity
    rtk_fix: RtkFix | None
    error_code: str | None
    battery_mean: int | None
    battery_min: int | None
    battery_max: int | None
    is_charging: bool
    lat: float | None = None
    lon: float | None = None
