"""Waiting in a manual clock's time."""

from __future__ import annotations

import asyncio

from tests.fakes.clock import ManualClock


class ManualWait:
    """A `Wait` whose seconds pass only in `advance`."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._alarms: list[tuple[float, asyncio.Timeout]] = []

    async def __call__(self, event: asyncio.Event, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(None) as alarm:
                self._alarms.append((self.clock.monotonic() + seconds, alarm))
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._alarms = [entry for entry in self._alarms if entry[1] is not alarm]

    @property
    def is_waiting(self) -> bool:
        """Whether anybody waits now."""
        return bool(self._alarms)

    async def advance(self, seconds: float) -> None:
        """The clock moves on; whoever waited for less is woken."""
        self.clock.advance(seconds)
        loop_time = asyncio.get_running_loop().time()
        for due, alarm in self._alarms:
            if due <= self.clock.monotonic():
                alarm.reschedule(loop_time)
        await asyncio.sleep(0)
