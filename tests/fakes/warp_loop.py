"""An event loop whose time jumps: when nothing is ready it is at once as late as the next timer.

For worlds in one process without sockets. Work in executor threads holds the clock until it is done.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(2026, 6, 1, 8, 0, tzinfo=UTC)


class WarpLoop(asyncio.SelectorEventLoop):
    """Virtual seconds since the loop was made."""

    def __init__(self) -> None:
        self._now = 0.0
        self._in_threads = 0
        super().__init__(selectors.DefaultSelector())

    def time(self) -> float:
        return self._now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        self._in_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _future: asyncio.Future[Any]) -> None:
        self._in_threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Its threads end in real time: a deadline for that (3.12 and later) must not pass at once."""
        self._in_threads += 1
        try:
            await super().shutdown_default_executor(*(() if timeout is None else (timeout,)))
        finally:
            self._in_threads -= 1

    def _run_once(self) -> None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if not self._ready and not self._in_threads and not self._stopping:  # type: ignore[attr-defined]
            while scheduled and scheduled[0].cancelled():
                timer = heapq.heappop(scheduled)
                timer._scheduled = False  # type: ignore[attr-defined]
                self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
            if scheduled and not self._has_ready_file():
                self._now = max(self._now, scheduled[0].when())
        super()._run_once()  # type: ignore[misc]

    def _has_ready_file(self) -> bool:
        events = self._selector.select(0)  # type: ignore[attr-defined]
        if events:
            self._process_events(events)  # type: ignore[attr-defined]
        return bool(events)


class LoopClock:
    """A `Clock` in the running loop's time."""

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
