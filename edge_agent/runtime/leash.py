"""Runs a plugin's code so that the caller always gets away from it.

Whatever the code does (hang, ignore cancellation, raise its own CancelledError or SystemExit, return nonsense),
`Leash.run` ends within its deadlines. A task that will not die is abandoned, named in the log and kept in
`leaked` until it ends by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import structlog

from core.domain import limits
from core.domain.clock import Clock
from core.domain.errors import LinkTimeoutError

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class PluginFaultError(Exception):
    """A plugin did what no code may do: its own CancelledError, SystemExit, or an answer of the wrong shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaked:
    """A task that ignored its cancellation: what it was for, and since when."""

    name: str
    since: datetime


@dataclass(frozen=True, slots=True)
class _Value(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


class Leash:
    """Runs foreign awaitables, each in a task of its own that is dead or listed as leaked afterwards."""

    def __init__(self, *, clock: Clock, close_deadline_s: float = limits.CLOSE_DEADLINE_S) -> None:
        self._clock = clock
        self._close_deadline_s = close_deadline_s
        self._leaked: dict[asyncio.Task[Any], Leaked] = {}

    @property
    def leaked(self) -> tuple[Leaked, ...]:
        """Tasks that are still running although they were told to end."""
        return tuple(self._leaked.values())

    async def run(
        self,
        work: Callable[[], Awaitable[T]],
        name: str,
        *,
        deadline_s: float | None = None,
        stop: asyncio.Future[Any] | None = None,
    ) -> T | None:
        """The result of `work()`, or None when `stop` was done first (the work is ended then).

        Raises what the work raised; LinkTimeoutError after `deadline_s`; PluginFaultError for what is no
        Exception. Cancelling the caller cancels the work, waits for it at most the close deadline, and raises
        CancelledError whatever the work did about it.
        """
        task: asyncio.Task[_Value[T] | _Failure] = asyncio.create_task(_contain(work), name=name)
        waiting: set[asyncio.Future[Any]] = {task} if stop is None else {task, stop}
        try:
            await asyncio.wait(waiting, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            was_done = task.done()
            if not was_done:
                await self._end(task, name)
        if stop is not None and stop.done() and not was_done:
            return None
        if not was_done:
            raise LinkTimeoutError(f"{name}: no end within {deadline_s:g} s")
        return _unpack(task, name)

    async def _end(self, task: asyncio.Task[Any], name: str) -> None:
        """Cancels the task and waits for it; an outer cancel during the wait shortens nothing but is kept."""
        task.cancel()
        waiter = asyncio.wait({task}, timeout=self._close_deadline_s)
        try:
            await waiter
        finally:
            if not task.done():
                self._abandon(task, name)

    def _abandon(self, task: asyncio.Task[Any], name: str) -> None:
        self._leaked[task] = Leaked(name=name, since=self._clock.now())
        _log.error("a plugin's task ignores its cancellation and was abandoned", task=name)

        def ended(task: asyncio.Task[Any]) -> None:
            self._leaked.pop(task, None)
            _log.info("an abandoned task ended at last", task=name)

        task.add_done_callback(ended)


async def _contain(work: Callable[[], Awaitable[T]]) -> _Value[T] | _Failure:
    """Keeps everything that the work raises inside the task: a SystemExit would leave through the event loop."""
    try:
        return _Value(await work())
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as err:  # noqa: BLE001  (fire door: a plugin must not end the process)
        return _Failure(err)


def _unpack(task: asyncio.Task[_Value[T] | _Failure], name: str) -> T:
    if task.cancelled():
        raise PluginFaultError(f"{name}: ended by a CancelledError of its own")
    match task.result():
        case _Value(value=value):
            return value
        case _Failure(error=error) if isinstance(error, Exception):
            raise error
        case _Failure(error=error):
            raise PluginFaultError(f"{name}: raised {type(error).__name__}") from error
