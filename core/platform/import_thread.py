"""Importing plugin code in a thread with a deadline. A thread that hangs cannot be ended: it is left behind, as a
daemon that does not keep the process alive, and its integration stays unloaded until the import returns."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from core.domain.errors import IntegrationLoadError

T = TypeVar("T")


class ImportThreads(Generic[T]):
    """At most one thread per name: who comes second waits for the first's result; a result is kept, a failure not."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._running: dict[str, Future[T]] = {}

    async def call(self, name: str, work: Callable[[], T]) -> T:
        """The result of `work`; IntegrationLoadError past the deadline."""
        future = self._running.get(name)
        if future is None or (future.done() and future.exception() is not None):  # a failure may have been corrected
            future = self._running[name] = Future()
            threading.Thread(target=_run, args=(future, work), name=f"import {name}", daemon=True).start()
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def wake(_: Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(ended.set)

        future.add_done_callback(wake)
        try:
            async with asyncio.timeout(self._deadline_s):
                await ended.wait()
        except TimeoutError as err:
            raise IntegrationLoadError(f"{name} does not import within {self._deadline_s:g} s") from err
        return future.result()


def _run(future: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as err:  # noqa: BLE001  (fire door: the waiter gets it, the thread just ends)
        future.set_exception(err)
    else:
        future.set_result(result)
