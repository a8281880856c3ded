"""Work handed from the event loop to a database thread, and the way its result comes back."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from core.domain.errors import MowdeckError, StorageError, StorageFullError

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]

_FULL_CODES = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP})


class Ticket(Generic[T]):
    """One job and the future of whoever waits for it. Made on the loop, settled from the thread."""

    __slots__ = ("_done", "_loop", "durable", "error", "future", "is_delivered", "job", "result")

    def __init__(self, job: Job[T], done: Callable[[], None], *, durable: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._done = done
        self.future: asyncio.Future[T] = self._loop.create_future()
        self.job = job
        self.durable = durable
        self.result: T | None = None
        self.error: Exception | None = None
        self.is_delivered = False

    def settle(self) -> None:
        """On the loop: wakes the waiter, unless it was cancelled, and gives the place in the queue back."""
        self._done()
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(cast(T, self.result))  # the job has run: its own T

    def deliver(self) -> None:
        """From the thread: result and error are final."""
        deliver([self])


def deliver(tickets: Sequence[Ticket[Any]]) -> None:
    """From the thread: settles tickets of one loop with one wake-up. A loop that is gone wants no answer."""

    def settle() -> None:
        for ticket in tickets:
            ticket.settle()

    for ticket in tickets:
        ticket.is_delivered = True
    if tickets:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            tickets[0]._loop.call_soon_threadsafe(settle)  # noqa: SLF001  (this module's own class)


def translate(err: Exception) -> Exception:
    """The error of the port for one of sqlite3; anything else (ours, a bug) stays as it is."""
    if not isinstance(err, sqlite3.Error | OSError) or isinstance(err, MowdeckError):
        return err
    code = getattr(err, "sqlite_errorcode", None)
    kind = (
        StorageFullError
        if code in _FULL_CODES or (isinstance(err, OSError) and err.errno == errno.ENOSPC)
        else StorageError
    )
    text = "it took too long and was stopped" if code == sqlite3.SQLITE_INTERRUPT else str(err)
    translated = kind(text)
    translated.__cause__ = err
    return translated
