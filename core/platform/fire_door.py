"""The fire door between a plugin's code and the box.

Plugin code runs in a task of its own. Whatever comes out of it (any exception, SystemExit and a CancelledError
that nobody asked for included) becomes a MowdeckError here; what does not come out is cut by a deadline, and what
ignores being cut is abandoned and named. Only a plugin that blocks the event loop itself (a synchronous hang)
cannot be cut within one process: the loop's watchdog names it, and an integration that has to block belongs into
a process of its own.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, TypeVar

import structlog

from core.domain.errors import IntegrationError, LinkLostError, LinkTimeoutError, MowdeckError
from core.domain.limits import CLOSE_DEADLINE_S
from core.platform.containment import current_scope

T = TypeVar("T")

log = structlog.get_logger(__name__)

_abandoned: set[asyncio.Task[Any]] = set()
"""Strong references: the loop holds tasks only weakly, and a collected task ends with a misleading message."""


def abandoned() -> tuple[str, ...]:
    """Names of the plugin tasks that were told to end and still run, for diagnostics. `asyncio.run` would wait for
    them for ever: a process that has closed everything else and finds some here has to leave by `os._exit`."""
    return tuple(sorted(task.get_name() for task in _abandoned))


def as_mowdeck_error(err: BaseException, where: str) -> MowdeckError:
    """What an exception out of plugin code means to the box. An error of our tree stays what it is (also out of an
    exception group); lost connections and timeouts are tried again; everything else is a bug of the plugin. The
    foreign error's text stays out of `detail`, for it may hold a secret."""
    known = _find_known(err)
    if known is not None:
        return known
    name = type(err).__name__
    if isinstance(err, TimeoutError):
        return LinkTimeoutError(f"{where}: {name}")
    if isinstance(err, ConnectionError):
        return LinkLostError(f"{where}: {name}")
    return IntegrationError(f"{where}: unexpected {name}")


def text_of(err: BaseException) -> str:
    """`Type: message` of any exception, also of one that cannot be printed; at most 300 characters."""
    try:
        message = str(err)
    except BaseException:  # noqa: BLE001  (an exception's own __str__ is plugin code)
        message = "(no text)"
    return f"{type(err).__name__}: {message}"[:300]


def _find_known(err: BaseException) -> MowdeckError | None:
    """The error of our tree in `err`; of several in a group one that asks for a person goes first."""
    if isinstance(err, MowdeckError):
        return err
    if not isinstance(err, BaseExceptionGroup):
        return None
    known = [found for inner in err.exceptions if (found := _find_known(inner)) is not None]
    return min(known, key=lambda found: found.retryable, default=None)


async def call(
    make: Callable[[], Awaitable[T]],
    *,
    where: str,
    deadline_s: float | None,
    close_deadline_s: float = CLOSE_DEADLINE_S,
    passing: tuple[type[Exception], ...] = (),
    context: Context | None = None,
) -> T:
    """The result of `make()`, which is plugin code, awaited in a task of its own named `where`.

    `context` (of `PluginTasks`) makes it part of that plugin's scope. Raises MowdeckErrors only (and those named in `passing`): the plugin's own, LinkTimeoutError past the deadline, IntegrationError for a bug. A
    cancelled caller is let go after `close_deadline_s` at most.
    """
    loop = asyncio.get_running_loop()
    task: asyncio.Task[T] = loop.create_task(enter(make, where, passing), name=where, context=context)
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline_s)
    except asyncio.CancelledError:
        await end_tasks({task}, close_deadline_s)
        raise
    if not done:
        await end_tasks({task}, close_deadline_s)
        raise LinkTimeoutError(f"{where}: no answer within {deadline_s:g} s")
    if task.cancelled():
        raise IntegrationError(f"{where}: cancelled itself")
    return task.result()


async def enter(make: Callable[[], Awaitable[T]], where: str, passing: tuple[type[Exception], ...] = ()) -> T:
    """`make()` awaited within the plugin's own task, for a SystemExit must not reach the event loop's code."""
    own = asyncio.current_task()
    try:
        return await make()
    except asyncio.CancelledError:
        raise
    except passing:
        raise
    except GeneratorExit as err:
        if _running_task() is not own:  # the coroutine is being closed from outside
            raise
        raise as_mowdeck_error(err, where) from err
    except BaseException as err:  # the fire door: nothing of a plugin gets past it
        raise _translated(err, where) from err


def _translated(err: BaseException, where: str) -> MowdeckError:
    found = as_mowdeck_error(err, where)
    if found is not err and not found.retryable:
        log.error("plugin failed", where=where, error=_redacted(err), frames=_frames(err))
    return found


def _redacted(err: BaseException) -> str:
    """Type and message without the plugin's secrets; the type alone when it is not known whose they could be."""
    scope = current_scope()
    return type(err).__name__ if scope is None else scope.redact(text_of(err))


def _frames(err: BaseException) -> list[str]:
    """Where it came from; a traceback's source lines and values stay out of the log."""
    frames = traceback.extract_tb(err.__traceback__, limit=-12)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


def _running_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def call_now(make: Callable[[], T], *, where: str, context: Context | None = None) -> T:
    """The result of synchronous plugin code; raises MowdeckErrors only. A hang in it cannot be cut."""
    try:
        return make() if context is None else context.run(make)
    except BaseException as err:  # the fire door
        raise _translated(err, where) from err


async def end_tasks(tasks: set[asyncio.Task[T]], deadline_s: float) -> tuple[str, ...]:
    """Cancels the tasks and waits for their end; names of those that did not end are logged and returned."""
    for task in tasks:
        task.cancel()
    running = {task for task in tasks if not task.done()}
    try:
        if running:
            _, running = await asyncio.wait(running, timeout=deadline_s)
    finally:
        for task in tasks:
            _watch(task)
    names = tuple(sorted(task.get_name() for task in running))
    if names:
        log.error("plugin tasks do not end and are abandoned", tasks=names, deadline_s=deadline_s)
    return names


def _watch(task: asyncio.Task[T]) -> None:
    """Keeps a task that still runs, and takes the exception of one that has ended so that asyncio does not complain."""
    if task.done():
        _take(task)
        return
    _abandoned.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[T]) -> None:
    _abandoned.discard(task)
    _take(task)
    log.warning("abandoned plugin task has ended after all", task=task.get_name())


def _take(task: asyncio.Task[T]) -> None:
    if not task.cancelled():
        task.exception()
