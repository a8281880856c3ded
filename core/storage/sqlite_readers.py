"""A few threads that read, each with a read-only connection of its own."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from core.storage.sqlite_tickets import Ticket, translate

BUSY_TIMEOUT_S = 5.0
_PROGRESS_STEPS = 20_000
"""Instructions of the virtual machine between two looks at the clock: a few tenths of a millisecond."""

Inbox = queue.SimpleQueue[Ticket[Any] | None]


class ReaderThread(threading.Thread):
    """Takes reads from a shared inbox until it gets None. A read that outlives `limit_s` or its asker is stopped."""

    def __init__(self, path: Path, inbox: Inbox, *, name: str, limit_s: float, ended: Ticket[None]) -> None:
        super().__init__(name=f"mowdeck-{name}-reader", daemon=True)
        self._path = path
        self._inbox = inbox
        self._limit_s = limit_s
        self._ended = ended
        self._current: Ticket[Any] | None = None
        self._deadline = 0.0

    def run(self) -> None:
        connection: sqlite3.Connection | None = None
        try:
            while (ticket := self._inbox.get()) is not None:
                self._current, self._deadline = ticket, time.monotonic() + self._limit_s
                try:
                    if connection is None:
                        connection = self._connect()
                    ticket.result = self._read(connection, ticket)
                except Exception as err:  # noqa: BLE001  (a fire door: the error goes to the one who asked)
                    ticket.error = translate(err)
                ticket.deliver()
        finally:
            if connection is not None:
                connection.close()
            self._ended.deliver()

    def _read(self, connection: sqlite3.Connection, ticket: Ticket[Any]) -> Any:
        """All statements of one read see the same moment."""
        if ticket.future.cancelled():
            return None
        connection.execute("BEGIN")
        try:
            return ticket.job(connection)
        finally:
            connection.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        uri = f"file:{quote(str(self._path))}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S)
        connection.execute("PRAGMA query_only = 1")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.set_progress_handler(self._should_stop, _PROGRESS_STEPS)
        return connection

    def _should_stop(self) -> int:
        ticket = self._current
        return int(time.monotonic() > self._deadline or (ticket is not None and ticket.future.cancelled()))
