"""Tasks of one owner: none of them fails its group, and none outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from types import TracebackType
from typing import Self

import structlog

from core.domain.errors import MowdeckError, UnavailableError

log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[None]]


class OwnedTasks:
    """`async with OwnedTasks() as tasks:`; leaving the block awaits all tasks (cancelling them if it was left by an
    exception), after `cancel_all` at once."""

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._context = Context()
        self._is_closing = False

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._context = copy_context()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._group.__aexit__(kind, err, trace)

    async def cancel_all(self) -> None:
        """Ends all tasks, and takes no new ones from `spawn`."""
        self._is_closing = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def spawn(self, work: Work, name: str) -> asyncio.Task[None] | None:
        """Starts work that nobody waits for; its failure is logged. None when we are closing."""
        if self._is_closing:
            return None

        async def run() -> None:
            try:
                await work()
            except MowdeckError as err:
                log.warning("could not", what=name, code=err.code, detail=err.detail)
            except Exception:  # fire door: one entry's trouble never ends the group of all
                log.exception("unexpected failure", what=name)

        return self._start(run(), name)

    def _start(self, coroutine: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        # not in the context of the caller, which may be a plugin's: these tasks are ours
        task = self._group.create_task(coroutine, name=name, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def own(self, work: Work, name: str) -> None:
        """Awaits work, which goes on when the caller is cancelled. Raises what it raises; UnavailableError when it is
        cut short because the owner ends."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.add_done_callback(_look)

        async def run() -> None:
            try:
                await work()
            except asyncio.CancelledError:
                if not ended.done():
                    ended.set_exception(UnavailableError(f"{name}: the agent is stopping"))
                raise
            except Exception as err:  # noqa: BLE001  (handed to the caller)
                ended.set_exception(err)
            else:
                ended.set_result(None)

        self._start(run(), name)
        await asyncio.shield(ended)


def _look(ended: asyncio.Future[None]) -> None:
    """The caller may be gone; then nobody else takes the exception."""
    if not ended.cancelled():
        ended.exception()
