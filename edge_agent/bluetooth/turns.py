"""One connect at a time on an adapter, and an emergency stop before all others.

BlueZ aborts one of two connects at the same time; so do the proxies. A connect to a mower that does not answer takes
as long as its deadline, and a stop of another mower must not wait for that: the attempt that is under way gives way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from core.platform.bluetooth import never

LOOK_AGAIN_S = 0.25
"""So often a waiter's `is_urgent` is looked at: it may become true while it waits."""


class GaveWay(Exception):  # noqa: N818 - no failure of anybody
    """An attempt was abandoned for an emergency stop of another mower. Never leaves the connector."""


class Turn:
    """Of one who waits for the adapter, or has it."""

    def __init__(self, is_urgent: Callable[[], bool]) -> None:
        self.is_urgent = is_urgent
        self.woken = asyncio.Event()
        self._scope: asyncio.Timeout | None = None

    @asynccontextmanager
    async def abandonable(self) -> AsyncIterator[None]:
        """The part of a turn that may be cut short, with GaveWay. What comes up in that very moment is kept."""
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scope = scope
                try:
                    yield
                finally:
                    self._scope = None
        except Exception as err:
            if scope.expired():
                raise GaveWay from err
            raise

    def abandon(self) -> None:
        """Cuts it short, if it is in a part that allows it. Idempotent."""
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())


class Turns:
    """Of one adapter, in the order of coming, the urgent first."""

    def __init__(self) -> None:
        self._waiting: dict[Turn, None] = {}
        self._current: Turn | None = None

    @asynccontextmanager
    async def taken(
        self, is_urgent: Callable[[], bool] = never, *, deadline_at: float | None = None
    ) -> AsyncIterator[Turn]:
        """The adapter is ours for the length of the block. TimeoutError when it was not by `deadline_at`."""
        turn = Turn(is_urgent)
        self._waiting[turn] = None
        try:
            async with asyncio.timeout_at(deadline_at):
                await self._wait(turn)
            self._current = turn
        finally:
            del self._waiting[turn]
            self._wake()
        try:
            yield turn
        finally:
            self._current = None
            self._wake()

    def give_way(self) -> None:
        """Somebody's stop needs this adapter: what is under way is abandoned, unless it is a stop itself."""
        if self._current is not None and not self._current.is_urgent():
            self._current.abandon()

    async def _wait(self, turn: Turn) -> None:
        while self._current is not None or self._first() is not turn:
            if turn.is_urgent():
                self.give_way()
            turn.woken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await turn.woken.wait()

    def _first(self) -> Turn:
        return next((turn for turn in self._waiting if turn.is_urgent()), next(iter(self._waiting)))

    def _wake(self) -> None:
        for turn in self._waiting:
            turn.woken.set()
