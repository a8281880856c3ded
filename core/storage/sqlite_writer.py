"""The one thread that writes: groups waiting jobs into transactions and syncs the log in time."""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import structlog

from core.domain.errors import StorageError
from core.storage.commit_counts import CommitCounts
from core.storage.migrations import Migration, migrate
from core.storage.sqlite_tickets import Ticket, deliver, translate

GROUP_JOBS = 64
"""Jobs in one transaction at most."""
WAL_LIMIT_BYTES = 8 * 1024 * 1024
"""What the log is cut back to after a checkpoint that found it longer."""

_log = structlog.get_logger(__name__)
_Inbox = queue.SimpleQueue[Ticket[Any] | None]


class WriterThread(threading.Thread):
    """Owns the writing connection from its first to its last moment. `inbox` takes tickets, then None to end.

    `opened` is settled when the database is migrated and ready (or could not be opened: then the thread has
    ended), `ended` as the last thing that the thread does.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str,
        migrations: Sequence[Migration],
        forget: Callable[[], None],
        sync_after_s: float,
        page_limit: int | None,
        busy_timeout_s: float,
        sync: Callable[[int], None],
        counts: CommitCounts,
        opened: Ticket[None],
        ended: Ticket[None],
    ) -> None:
        super().__init__(name=f"mowdeck-{name}-writer", daemon=True)
        self.inbox: _Inbox = queue.SimpleQueue()
        self._path = path
        self._migrations = migrations
        self._forget = forget
        self._sync_after_s = sync_after_s
        self._page_limit = page_limit
        self._busy_timeout_s = busy_timeout_s
        self._sync_file = sync
        self._counts = counts
        self._opened = opened
        self._ended = ended
        self._log_fd: int | None = None
        self._sync_due: float | None = None  # monotonic; None: every commit is on the disk
        self._changes = 0
        self._data_version = 0
        self._is_ending = False

    def run(self) -> None:
        try:
            connection = self._connect()
        except Exception as err:  # noqa: BLE001  (handed to whoever opens the store)
            self._opened.error = translate(err)
            self._opened.deliver()
            return
        self._opened.deliver()
        group: list[Ticket[Any]] = []
        try:
            while not self._is_ending:
                group = self._next_group()
                if group:
                    self._commit(connection, group)
            self._ended.error = self._sync()
        except Exception as err:  # noqa: BLE001  (a fire door: nobody may wait for ever for a thread that is gone)
            _log.exception("the writer of a database has broken down", database=self._path.name)
            self._refuse_the_rest(group, translate(err))
        finally:
            self._close(connection)
            self._ended.deliver()

    def _refuse_the_rest(self, group: list[Ticket[Any]], reason: Exception) -> None:
        error = StorageError(f"the writer has broken down: {reason}", hint="Start the service again.")
        refused = [ticket for ticket in group if not ticket.is_delivered]
        while True:
            for ticket in refused:
                ticket.error = error
            deliver(refused)
            following = None if self._is_ending else self.inbox.get()
            if following is None:
                return
            refused = [following]

    def _connect(self) -> sqlite3.Connection:
        if not self._path.exists():  # tracks are private: not left to the umask
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self._path, isolation_level=None, timeout=self._busy_timeout_s, cached_statements=256
        )
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect on a new file only
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise StorageError(f"{self._path.name} cannot be in WAL mode (it is {mode})")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = FAST")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
            if self._page_limit is not None:
                connection.execute(f"PRAGMA max_page_count = {self._page_limit}")
            migrate(connection, self._migrations)
            self._changes = connection.total_changes
            self._sync_due = time.monotonic()
            error = self._sync()
            if error is not None:
                raise error
            self._sync_folder()
        except BaseException:
            self._close(connection)
            raise
        return connection

    def _close(self, connection: sqlite3.Connection) -> None:
        connection.close()
        if self._log_fd is not None:
            os.close(self._log_fd)
            self._log_fd = None

    def _next_group(self) -> list[Ticket[Any]]:
        """All that waits, up to GROUP_JOBS; syncs when that falls due while nothing comes."""
        try:
            timeout = None if self._sync_due is None else max(0.0, self._sync_due - time.monotonic())
            first = self.inbox.get(timeout=timeout)
        except queue.Empty:
            error = self._sync(is_timed=True)
            if error is not None:
                _log.error("the database's log could not be synced", error=str(error))
                self._sync_due = time.monotonic() + self._sync_after_s
            return []
        group = []
        while first is not None:
            group.append(first)
            if len(group) == GROUP_JOBS or self.inbox.empty():
                return group
            first = self.inbox.get_nowait()
        self._is_ending = True
        return group

    def _commit(self, connection: sqlite3.Connection, group: list[Ticket[Any]]) -> None:
        try:
            self._attempt(connection, group)
        except Exception as err:  # noqa: BLE001  (a fire door: the error goes to the one who asked)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._forget()
            if len(group) > 1:
                for ticket in group:
                    self._commit(connection, [ticket])
                return
            group[0].result, group[0].error = None, translate(err)
        else:
            self._sync_if_due(connection, group)
        deliver(group)

    def _attempt(self, connection: sqlite3.Connection, group: list[Ticket[Any]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        version = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._data_version:  # somebody else wrote: what we remember may be old
            self._data_version = version
            self._forget()
        for ticket in group:
            ticket.result = ticket.job(connection)
        connection.execute("COMMIT")

    def _sync_if_due(self, connection: sqlite3.Connection, group: list[Ticket[Any]]) -> None:
        now = time.monotonic()
        if connection.total_changes != self._changes:
            self._changes = connection.total_changes
            self._counts.commits += 1
            if self._sync_due is None:
                self._sync_due = now + self._sync_after_s
        if self._sync_due is None:
            return
        is_prompt = any(ticket.durable for ticket in group)
        if self._sync_due <= now or is_prompt:
            error = self._sync(is_timed=not is_prompt)
            if error is not None:
                self._sync_due = now + self._sync_after_s
                for ticket in group:
                    ticket.error = error if ticket.durable else None

    def _sync(self, *, is_timed: bool = False) -> StorageError | None:
        """The log to the disk, so that a power cut leaves every commit so far; returns what went wrong."""
        if self._sync_due is None:
            return None
        try:
            if self._log_fd is None:
                self._log_fd = os.open(f"{self._path}-wal", os.O_RDONLY)
            self._sync_file(self._log_fd)
        except OSError as err:
            self._counts.failed_syncs += 1
            error = translate(err)
            return error if isinstance(error, StorageError) else StorageError(str(err))
        if is_timed:
            self._counts.timed_syncs += 1
        else:
            self._counts.prompt_syncs += 1
        self._sync_due = None
        return None

    def _sync_folder(self) -> None:
        """The names of the files, once: a synced file without a name is lost all the same."""
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
