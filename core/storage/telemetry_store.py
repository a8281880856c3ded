"""The TelemetryStore port: what both hosts need from a store of telemetry.

One contract suite (`tests/contract/telemetry_store.py`) runs on every implementation. All methods raise
StorageError (StorageFullError when the disk is full). Every read names the account: a row of another account
is as good as absent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import msgspec

from core.domain.ids import AccountId, EdgeId, MowerId, StreamId
from core.domain.mower import MowerState
from core.sync.messages import RejectedRow
from core.telemetry.rows import HistoryBin as HistoryBin  # noqa: PLC0414  (part of this port)
from core.telemetry.rows import HistoryRow, PositionRow, RecordRow, SequencedRow, TimelineRow
from core.telemetry.track_columns import Layer, TrackColumns


class DirectoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Which account and box a mower belongs to. `is_seed` entries yield to registrations."""

    mower_id: MowerId
    account_id: AccountId
    edge_id: EdgeId | None
    name: str
    is_seed: bool = False


class LatestState(msgspec.Struct, frozen=True, kw_only=True):
    """The newest state of a mower and when this host got it."""

    mower_id: MowerId
    account_id: AccountId
    state: MowerState
    received_at: datetime


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Where a cut read goes on: pass `cursor` as the next `start`."""

    is_truncated: bool = False
    cursor: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackView:
    """A track of bounded size. What is not in it, thinned away or left out here, was nowhere farther than `error_m` from
    the line through what is."""

    rows: Sequence[PositionRow]
    page: Page
    is_simplified: bool
    error_m: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of one state: which rows it made."""

    latest: bool
    history: bool
    position: bool
    skipped: str | None = None
    """Why latest was not written: `older` (history and track rows go in by key), `duplicate`, `foreign-account`,
    `unknown-mower`, `implausible:observed_at`."""
    dropped: tuple[str, ...] = ()
    """Implausible parts that were left out of the state (`battery_percent`, `position:jump`, ...)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalHead:
    """The box's stream: its name, its range, and how far the relay has acknowledged it."""

    stream_id: StreamId
    first_seq: int
    last_seq: int
    acked_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSlice:
    """Rows of the journal in order. `last_seq` is where the slice ends, also when rows before it are gone
    (thinned or aged out): the gap is explained by the range."""

    first_seq: int
    last_seq: int
    rows: tuple[SequencedRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingested:
    """What became of one batch on the relay."""

    acked_seq: int
    stored: int
    duplicates: int
    rejected: tuple[RejectedRow, ...]
    records: tuple[RecordRow, ...] = ()
    """Versions of records that were new or newer."""
    stored_by_table: Mapping[str, int] = field(default_factory=dict)
    """`stored`, for each table with new rows."""


class TelemetryStore(Protocol):
    """Latest, history, track and timeline of many mowers."""

    # -- life
    async def open(self) -> None: ...
    async def close(self) -> None: ...

    # -- directory
    async def put_directory(self, entries: Sequence[DirectoryEntry]) -> None: ...
    async def directory(self) -> Sequence[DirectoryEntry]: ...
    async def purge_mower(self, mower_id: MowerId) -> None:
        """Removes the mower from every table."""
        ...

    # -- writes
    async def record_states(
        self,
        states: Sequence[tuple[MowerId, AccountId, MowerState]],
        *,
        received_at: datetime,
        latest_only: bool = False,
    ) -> Sequence[Written]:
        """The write rules of 03 section 3.3 for each state, all in one transaction (one per call).

        With `latest_only` (the relay's live lane) only admission and the latest state apply: no history and no
        position row, no journal number. The relay's rows come by the journal alone, so that both databases agree.
        """
        ...

    async def record_results(self, rows: Sequence[TimelineRow]) -> int:
        """Transitions of commands, durable on return; duplicates change nothing. Returns how many were new."""
        ...

    async def ingest(
        self,
        edge_id: EdgeId,
        account_id: AccountId,
        stream_id: StreamId,
        rows: Sequence[SequencedRow],
        *,
        last_seq: int,
        received_at: datetime,
        rejected: Sequence[tuple[RejectedRow, bytes]] = (),
    ) -> Ingested:
        """Rows of a box and the new watermark `last_seq`, in one transaction. Rows of mowers that the directory
        does not give to this edge and account, or from more than 10 minutes ahead of `received_at`, go to
        quarantine (as do `rejected`, found earlier) and are named in the answer; the rest is stored."""
        ...

    async def watermark(self, edge_id: EdgeId, stream_id: StreamId) -> int | None:
        """How far this stream is stored here; None for a stream never seen."""
        ...

    async def start_stream(self, edge_id: EdgeId, stream_id: StreamId, acked_seq: int) -> int:
        """Begins a stream at `acked_seq` unless it is known; returns the watermark."""
        ...

    # -- the box's journal
    async def journal_head(self) -> JournalHead: ...
    async def read_journal(self, after_seq: int, limit: int) -> JournalSlice: ...
    async def acknowledge(self, acked_seq: int) -> None: ...

    # -- reads
    async def latest(self, account_id: AccountId, mower_id: MowerId) -> LatestState | None: ...
    async def latest_of(self, account_id: AccountId, mower_ids: Sequence[MowerId]) -> Sequence[LatestState]: ...
    async def history(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, limit: int
    ) -> tuple[Sequence[HistoryRow], Page]: ...
    async def history_bins(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, step_s: int
    ) -> Sequence[HistoryBin]: ...
    async def positions(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, limit: int
    ) -> tuple[Sequence[PositionRow], Page]: ...
    async def track_view(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, most: int
    ) -> TrackView:
        """At most `most` (2 or more) rows. Where more match, those that thinning would keep first; the page is cut only
        beyond SIMPLIFIED_ROWS matches."""
        ...

    async def track_error_m(self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime) -> float:
        """How far a row that thinning took out of the range may have been from the line that is left; 0.0 where
        every row is still there. Ask after the rows: then it is true of them."""
        ...

    async def track_columns(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, layer: Layer
    ) -> TrackColumns:
        """Every row with one reading of each, page by page. InvalidInputError beyond MOST_ROWS, naming the `to` that
        would fit."""
        ...

    async def timeline(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, limit: int
    ) -> tuple[Sequence[TimelineRow], Page]: ...

    # -- care
    async def retain(self, now: datetime) -> dict[str, int]:
        """One round of age retention in bounded batches; rows deleted by table."""
        ...

    async def counts(self) -> dict[str, int]:
        """Rows by table, for diagnostics and tests."""
        ...
