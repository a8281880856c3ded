"""The TelemetryStore on SQLite: the box's store, and the relay's embedded default."""

from __future__ import annotations

import secrets
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from core.domain import limits
from core.domain.clock import Clock, to_us
from core.domain.errors import StorageError
from core.domain.ids import AccountId, EdgeId, MowerId, StreamId, make_id
from core.domain.mower import MowerState
from core.storage import sqlite_ingest, sqlite_journal, sqlite_reads, sqlite_retention
from core.storage.command_ledger import CommandLedger
from core.storage.commit_counts import CommitCounts
from core.storage.disk_budget import FLOOR_BYTES, DiskBudget, ReadUsage
from core.storage.migrations import read_migrations
from core.storage.sqlite_bins import read_bins
from core.storage.sqlite_database import READ_LIMIT_S, SqliteDatabase
from core.storage.sqlite_directory import SqliteDirectory, read_directory
from core.storage.sqlite_health import HealthDays, ZoneOf
from core.storage.sqlite_ingest import Batch, Ingest
from core.storage.sqlite_journal import JournalNumbers
from core.storage.sqlite_recording import Recording, insert_result
from core.storage.sqlite_records import SqliteRecords
from core.storage.sqlite_sessions import Sessions
from core.storage.sqlite_thinning import SqliteTrackThinner, delete_stretches, read_error_mm
from core.storage.sqlite_track import read_track
from core.storage.sqlite_track_columns import read_columns
from core.storage.telemetry_store import (
    DirectoryEntry,
    HistoryBin,
    Ingested,
    JournalHead,
    JournalSlice,
    LatestState,
    Page,
    TrackView,
    Written,
)
from core.sync.messages import RejectedRow
from core.telemetry.binning import check_bins
from core.telemetry.record_kinds import RECORD_KINDS
from core.telemetry.rows import HistoryRow, PositionRow, SequencedRow, TimelineRow
from core.telemetry.track_columns import Layer, TrackColumns

RandomBytes = Callable[[int], bytes]
UTC_ZONE = ZoneInfo("UTC")


class SqliteTelemetryStore:
    """One file. With `is_journal` (the box) rows are numbered for the relay; without (the relay) boxes' streams
    are kept. Retentions of zero keep rows forever. `zone_of` says where a mower's days begin. See `SqliteDatabase` for what a power cut may cost."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        is_journal: bool,
        random_bytes: RandomBytes = secrets.token_bytes,
        history_retention: timedelta = limits.HISTORY_RETENTION,
        positions_retention: timedelta = limits.POSITIONS_RETENTION,
        timeline_retention: timedelta = limits.TIMELINE_RETENTION,
        zone_of: ZoneOf = lambda _mower_id: UTC_ZONE,
        read_limit_s: float = READ_LIMIT_S,
        page_limit: int | None = None,
    ) -> None:
        self._clock = clock
        self._random_bytes = random_bytes
        self._is_journal = is_journal
        self._retentions = {
            "mower_history": history_retention,
            "mower_positions": positions_retention,
            "command_timeline": timeline_retention,
        }
        self._database = SqliteDatabase(
            path, migrations=read_migrations(), read_limit_s=read_limit_s, page_limit=page_limit
        )
        self._directory = SqliteDirectory(moves_rows=is_journal)
        self._numbers = JournalNumbers(is_enabled=is_journal)
        days = HealthDays(self._numbers, zone_of) if is_journal else None
        sessions = Sessions(self._numbers) if is_journal else None
        self._recording = Recording(self._directory, self._numbers, days, sessions)
        self._ingest = Ingest(self._directory)
        self.command_ledger = CommandLedger(self._database, self._directory, self._numbers)
        """The box's memory of commands, in the same file."""
        self.records = SqliteRecords(self._database, self._directory, self._numbers, clock)
        """Small documents about mowers, in the same file."""
        self.thinner = SqliteTrackThinner(self._database)
        """Thins the track in the same file."""
        for part in (self._directory, self._numbers, self._recording):
            self._database.on_rollback(part.forget)

    @property
    def commit_counts(self) -> CommitCounts:
        """What the file's writer has done so far."""
        return self._database.counts

    def disk_budget(
        self,
        *,
        budget_bytes: int,
        reserve_percent: int,
        floor_bytes: int = FLOOR_BYTES,
        read_usage: ReadUsage = shutil.disk_usage,
    ) -> DiskBudget:
        """Bounds the file (the box): see there."""
        self._require_journal()
        return DiskBudget(
            self._database,
            clock=self._clock,
            budget_bytes=budget_bytes,
            reserve_percent=reserve_percent,
            floor_bytes=floor_bytes,
            read_usage=read_usage,
        )

    # -- life
    async def open(self) -> None:
        """Makes or migrates the file. DatabaseNewerError, StorageError."""
        await self._database.open()
        stream_id = self._make_stream_id()
        await self._database.write(lambda connection: sqlite_journal.begin_stream(connection, stream_id), durable=True)

    async def close(self) -> None:
        """Finishes what was handed over and ends all threads."""
        await self._database.close()

    # -- directory
    async def put_directory(self, entries: Sequence[DirectoryEntry]) -> None:
        await self._database.write(lambda connection: self._directory.put(connection, entries), durable=True)

    async def directory(self) -> Sequence[DirectoryEntry]:
        return await self._database.read(read_directory)

    async def purge_mower(self, mower_id: MowerId) -> None:
        """First out of sight, then its rows in batches. Cut off in the middle, it is simply called again."""

        def hide(connection: sqlite3.Connection) -> None:
            self._directory.remove(connection, mower_id)

        def purge(connection: sqlite3.Connection) -> bool:
            more = sqlite_retention.purge_some(connection, mower_id, limits.RETENTION_BATCH_ROWS)
            self._directory.forget()
            self._recording.forget()
            return more

        await self._database.write(hide, durable=True)
        while await self._database.write(purge):
            pass
        after_seq: int | None = 0
        while after_seq is not None:
            after_seq = await self._database.write(partial(_sweep, after_seq))

    # -- writes
    async def record_states(
        self,
        states: Sequence[tuple[MowerId, AccountId, MowerState]],
        *,
        received_at: datetime,
        latest_only: bool = False,
    ) -> Sequence[Written]:
        recorded = await self._database.write(
            lambda connection: self._recording.record(connection, states, received_at, latest_only=latest_only)
        )
        if recorded.records:
            accounts = {mower_id: account_id for mower_id, account_id, _ in states}
            for row in recorded.records:
                self.records.tell(accounts[row.mower_id], [row])
        return recorded.written

    async def record_results(self, rows: Sequence[TimelineRow]) -> int:
        def job(connection: sqlite3.Connection) -> int:
            new = sum(
                insert_result(connection, row, self._directory, self._numbers, keeps_unknown=self._is_journal)
                for row in rows
            )
            self._numbers.save(connection)
            return new

        return await self._database.write(job, durable=True)

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
        batch = Batch(
            edge_id=edge_id,
            account_id=account_id,
            stream_id=stream_id,
            rows=rows,
            last_seq=last_seq,
            received_at=received_at,
            rejected=rejected,
        )
        # durable: the box lets go of what is acknowledged
        ingested = await self._database.write(lambda connection: self._ingest.ingest(connection, batch), durable=True)
        self.records.tell(account_id, ingested.records)
        return ingested

    async def watermark(self, edge_id: EdgeId, stream_id: StreamId) -> int | None:
        return await self._database.read(
            lambda connection: sqlite_ingest.read_watermark(connection, edge_id, stream_id)
        )

    async def start_stream(self, edge_id: EdgeId, stream_id: StreamId, acked_seq: int) -> int:
        return await self._database.write(
            lambda connection: sqlite_ingest.start_stream(connection, edge_id, stream_id, acked_seq), durable=True
        )

    # -- the box's journal
    async def journal_head(self) -> JournalHead:
        last_seq = await self._durable_seq()
        return await self._database.read(lambda connection: sqlite_journal.read_head(connection, last_seq))

    async def read_journal(self, after_seq: int, limit: int) -> JournalSlice:
        """Rows that are on the disk: the relay must never know one that a power cut takes from the box, or its
        number would be given to another row."""
        last_seq = await self._durable_seq()
        return await self._database.read(
            lambda connection: sqlite_journal.read_slice(connection, after_seq, limit, last_seq)
        )

    async def acknowledge(self, acked_seq: int) -> None:
        """ConflictError when the relay has more of this stream than was ever written here."""
        self._require_journal()
        await self._database.write(
            lambda connection: sqlite_journal.acknowledge(connection, acked_seq, self._numbers.last_seq(connection))
        )

    async def restart_stream(self) -> StreamId:
        """A new name for the stream, to be called after the file was restored from a copy."""
        self._require_journal()
        stream_id = self._make_stream_id()
        await self._database.write(
            lambda connection: sqlite_journal.restart_stream(connection, stream_id), durable=True
        )
        return stream_id

    # -- reads
    async def latest(self, account_id: AccountId, mower_id: MowerId) -> LatestState | None:
        found = await self.latest_of(account_id, [mower_id])
        return found[0] if found else None

    async def latest_of(self, account_id: AccountId, mower_ids: Sequence[MowerId]) -> Sequence[LatestState]:
        return await self._database.read(lambda connection: sqlite_reads.read_latest(connection, account_id, mower_ids))

    async def history(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, limit: int
    ) -> tuple[Sequence[HistoryRow], Page]:
        return await self._database.read(
            lambda connection: sqlite_reads.read_history(connection, account_id, mower_id, start, end, limit)
        )

    async def history_bins(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, step_s: int
    ) -> Sequence[HistoryBin]:
        """TooManyBinsError beyond MAX_BINS."""
        check_bins(start, end, step_s)
        return await self._database.read(
            lambda connection: read_bins(connection, account_id, mower_id, start, end, step_s)
        )

    async def positions(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, limit: int
    ) -> tuple[Sequence[PositionRow], Page]:
        return await self._database.read(
            lambda connection: sqlite_reads.read_positions(connection, account_id, mower_id, start, end, limit)
        )

    async def track_view(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, most: int
    ) -> TrackView:
        return await self._database.read(
            lambda connection: read_track(connection, account_id, mower_id, start, end, most)
        )

    async def track_error_m(self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime) -> float:
        return await self._database.read(
            lambda connection: read_error_mm(connection, account_id, mower_id, start, end) / 1000
        )

    async def track_columns(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, layer: Layer
    ) -> TrackColumns:
        return await read_columns(self._database, account_id, mower_id, start, end, layer)

    async def timeline(
        self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime, *, limit: int
    ) -> tuple[Sequence[TimelineRow], Page]:
        return await self._database.read(
            lambda connection: sqlite_reads.read_timeline(connection, account_id, mower_id, start, end, limit)
        )

    # -- care
    async def retain(self, now: datetime) -> dict[str, int]:
        """Each batch is a transaction of its own, so that recording goes on in between."""
        deleted = {}
        for table, keep in self._retentions.items():
            deleted[table] = 0 if not keep else await self._delete_older(table, to_us(now - keep))
        if self._retentions["mower_positions"]:
            before_us = to_us(now - self._retentions["mower_positions"])
            await self._database.write(lambda connection: sqlite_retention.delete_blocks(connection, before_us))
            await self._database.write(lambda connection: delete_stretches(connection, before_us))
        old_us = to_us(now - limits.HISTORY_RETENTION)
        deleted["quarantine"] = await self._database.write(
            lambda connection: sqlite_retention.delete_quarantined(connection, old_us)
        )
        keep = self._retentions["command_timeline"]
        deleted["command_ledger"] = (
            await self.command_ledger.prune(now - max(keep, limits.SEEN_COMMANDS)) if keep else 0
        )
        deleted["mower_records"] = await self._delete_old_records(to_us(now))
        return deleted

    async def counts(self) -> dict[str, int]:
        return await self._database.read(sqlite_retention.count_rows)

    async def _delete_older(self, table: str, before_us: int) -> int:
        total = 0
        while True:
            count = await self._database.write(
                lambda connection: sqlite_retention.delete_older(
                    connection, table, before_us, limits.RETENTION_BATCH_ROWS
                )
            )
            if count == 0:
                return total
            total += count

    async def _delete_old_records(self, now_us: int) -> int:
        def job(connection: sqlite3.Connection) -> int:
            return sqlite_retention.delete_old_records(
                connection, now_us, keep_us, others_us, limits.RETENTION_BATCH_ROWS
            )

        tick = timedelta(microseconds=1)
        keep_us = {name: None if kind.keep is None else kind.keep // tick for name, kind in RECORD_KINDS.items()}
        others_us = limits.RECORD_RETENTION // tick
        total = 0
        while count := await self._database.write(job):
            total += count
        return total

    async def _durable_seq(self) -> int:
        """The last number given, once all rows up to it are on the disk."""
        self._require_journal()
        return await self._database.write(self._numbers.last_seq, durable=True)

    def _require_journal(self) -> None:
        if not self._is_journal:
            raise StorageError("this store keeps no journal: it is a relay's")

    def _make_stream_id(self) -> StreamId:
        return StreamId(make_id(self._clock.now(), self._random_bytes(10)))


def _sweep(after_seq: int, connection: sqlite3.Connection) -> int | None:
    return sqlite_journal.delete_dead_blocks(connection, after_seq, sqlite_journal.SWEEP_BLOCKS)
