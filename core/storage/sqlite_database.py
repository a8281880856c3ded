"""One SQLite file: one thread writes, a few read, and nothing blocks the event loop.

Durability. The database is in WAL mode with `synchronous=NORMAL`: a commit survives the death of the process at
once, but a power cut only after the log has been synced. The writer syncs the log
- before a `durable` write returns (results of commands; reads of the journal, because what the relay has seen
  must never be forgotten by the box), and
- otherwise at most COMMIT_WINDOW_S after the first commit since the last sync.
So a power cut costs at most COMMIT_WINDOW_S of telemetry and never a durable write.

Writes that wait together are committed together. Should one of them fail, all are rolled back and each is run again
alone, so that a write fails only for reasons of its own. A write is a function of the connection that may run
more than once; what it remembers outside of the database it forgets in an `on_rollback` hook.

Cancelling an awaited write does not undo it: once handed over it is done once, whole. A cancelled read is stopped.
Queues are bounded; callers wait for a place.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from core.domain import limits
from core.domain.errors import StorageError
from core.storage.commit_counts import CommitCounts
from core.storage.migrations import Migration
from core.storage.sqlite_readers import Inbox, ReaderThread
from core.storage.sqlite_tickets import Job, Ticket
from core.storage.sqlite_writer import WriterThread

T = TypeVar("T")

PENDING_WRITES = 256
PENDING_READS = 64
READ_LIMIT_S = 10.0
"""A single read may take this long before it is stopped (StorageError)."""

BUSY_TIMEOUT_S = 5.0
"""How long a write waits for a lock of another process (a backup, an inspection)."""


class SqliteDatabase:
    """Opened and closed once; its threads live from `open` to `close`."""

    def __init__(
        self,
        path: Path,
        *,
        migrations: Sequence[Migration],
        name: str = "telemetry",
        readers: int = 2,
        read_limit_s: float = READ_LIMIT_S,
        sync_after_s: float = limits.COMMIT_WINDOW_S,
        page_limit: int | None = None,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        sync: Callable[[int], None] = os.fdatasync,
    ) -> None:
        """`page_limit` bounds the file (pages of 4 KiB): beyond it writes raise StorageFullError. `sync` brings an
        open file to the disk."""
        self.path = path
        self.counts = CommitCounts()
        """What was committed and synced, of all openings."""
        self._migrations = migrations
        self._name = name
        self._reader_count = readers
        self._read_limit_s = read_limit_s
        self._sync_after_s = sync_after_s
        self._page_limit = page_limit
        self._busy_timeout_s = busy_timeout_s
        self._sync = sync
        self._hooks: list[Callable[[], None]] = []
        self._writer: WriterThread | None = None
        self._readers: list[ReaderThread] = []
        self._reads: Inbox = queue.SimpleQueue()
        self._endings: list[Ticket[None]] = []
        self._write_places = asyncio.Semaphore(PENDING_WRITES)
        self._read_places = asyncio.Semaphore(PENDING_READS)

    def on_rollback(self, forget: Callable[[], None]) -> None:
        """`forget` is called on the writer's thread whenever a transaction was undone or somebody else wrote."""
        self._hooks.append(forget)

    async def open(self) -> None:
        """Migrates the file (made if absent) and starts the threads. DatabaseNewerError, StorageError."""
        if self._writer is not None:
            raise StorageError("the database is already open")
        opened, ended = Ticket(_nothing, _nowhere), Ticket(_nothing, _nowhere)
        writer = WriterThread(
            self.path,
            name=self._name,
            migrations=self._migrations,
            forget=self._forget,
            sync_after_s=self._sync_after_s,
            page_limit=self._page_limit,
            busy_timeout_s=self._busy_timeout_s,
            sync=self._sync,
            counts=self.counts,
            opened=opened,
            ended=ended,
        )
        self._forget()
        writer.start()
        try:
            await opened.future
        except asyncio.CancelledError:
            writer.inbox.put(None)
            raise
        except Exception:
            writer.join()  # it has said its last word
            raise
        self._writer, self._endings = writer, [ended]
        for _ in range(self._reader_count):
            gone = Ticket(_nothing, _nowhere)
            reader = ReaderThread(self.path, self._reads, name=self._name, limit_s=self._read_limit_s, ended=gone)
            self._endings.insert(0, gone)
            self._readers.append(reader)
            reader.start()

    async def close(self) -> None:
        """Does what was handed over, syncs, and ends the threads. Harmless when not open."""
        writer, readers, endings = self._writer, self._readers, self._endings
        if writer is None:
            return
        self._writer, self._readers, self._endings = None, [], []
        for _ in readers:
            self._reads.put(None)
        *reader_endings, writer_ending = endings
        try:
            await asyncio.gather(*(ending.future for ending in reader_endings))
        finally:
            writer.inbox.put(None)  # last: closing the last connection folds the log into the database
        try:
            await writer_ending.future
        finally:
            if writer_ending.future.done() and not writer_ending.future.cancelled():
                for thread in (*readers, writer):
                    thread.join()  # they have said their last word

    async def write(self, job: Job[T], *, durable: bool = False) -> T:
        """Runs `job` in a transaction on the writer's thread; with `durable` the log is synced before it returns."""
        await self._write_places.acquire()
        writer = self._writer
        if writer is None:
            self._write_places.release()
            raise StorageError("the database is not open")
        ticket = Ticket(job, self._write_places.release, durable=durable)
        writer.inbox.put(ticket)
        return await ticket.future

    async def read(self, job: Job[T]) -> T:
        """Runs `job` on a read-only connection in a reader's thread. StorageError when it takes too long."""
        await self._read_places.acquire()
        if self._writer is None:
            self._read_places.release()
            raise StorageError("the database is not open")
        ticket = Ticket(job, self._read_places.release)
        self._reads.put(ticket)
        return await ticket.future

    def _forget(self) -> None:
        for hook in self._hooks:
            hook()


def _nothing(_connection: sqlite3.Connection) -> None:
    """The job of a ticket that only signals."""


def _nowhere() -> None:
    """A signal holds no place in a queue."""
