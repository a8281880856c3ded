"""Polling done once for all integrations: single flight, jitter, an interval that follows the mower's activity,
push with a stale deadline, and respect for `retry_after`.

    async def run(self, report):          # of a link
        await Coordinator(fetch=..., on_data=..., interval_s=..., clock=self.context.clock).run()
"""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

import structlog

from core.domain.clock import Clock
from core.domain.errors import LinkTimeoutError, MowdeckError, NotReadyError, RateLimitedError
from core.domain.limits import RETRY_FIRST_S, RETRY_MAX_S
from core.domain.mower import MOVING, Activity

T = TypeVar("T")

log = structlog.get_logger(__name__)

JITTER = 0.1
"""A wait is lengthened by up to this part of it, so that boxes do not poll in step."""
DEBOUNCE_S = 10.0
"""Polls that were asked for are at least this far apart."""
FETCH_DEADLINE_S = 30.0
NEVER = float("-inf")


def interval_by_activity(activity: Activity, *, moving_s: float, standing_s: float) -> float:
    """Often while the machine moves or may be about to, seldom while it stands."""
    return moving_s if activity in MOVING or activity in (Activity.UNKNOWN, Activity.PAUSED) else standing_s


class Coordinator(Generic[T]):
    """`fetch` gets everything at once and raises IntegrationErrors; `on_data` takes each result, fetched or pushed;
    `interval_s` says how long a result is good for.

    `run` ends only by raising: what is not retryable at once, the rest after `max_failures` in a row, so that the
    link's owner learns that the mower is out of reach; `retry_first_s` after the first, then twice as long each time. A RateLimitedError lengthens the wait and is no failure.
    """

    def __init__(
        self,
        *,
        fetch: Callable[[], Awaitable[T]],
        on_data: Callable[[T], None],
        interval_s: Callable[[T], float],
        clock: Clock,
        name: str = "",
        stale_after_s: float = 300.0,
        max_failures: int = 3,
        deadline_s: float = FETCH_DEADLINE_S,
        retry_first_s: float = RETRY_FIRST_S,
        random: Callable[[], float] = random_module.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._fetch = fetch
        self._on_data = on_data
        self._interval_s = interval_s
        self._clock = clock
        self._name = name
        self._stale_after_s = stale_after_s
        self._max_failures = max_failures
        self._deadline_s = deadline_s
        self._retry_first_s = retry_first_s
        self._random = random
        self._sleep = sleep
        self._flight = asyncio.Lock()
        self._landed = 0
        self._data: T | None = None
        self._error: MowdeckError | None = None
        self._failures = 0
        self._noise = 0.0
        self._wake = asyncio.Event()
        self._fetched_at = NEVER
        self._heard_at = NEVER
        self._blocked_until = NEVER
        self._is_pushing = False
        self._is_requested = False

    @property
    def data(self) -> T | None:
        """The newest result, fetched or pushed."""
        return self._data

    @property
    def is_pushing(self) -> bool:
        """Whether pushes stand in for polls."""
        return self._is_pushing

    def due_at(self) -> float:
        """Monotonic time of the next poll as things are now."""
        if self._data is None or self._failures > 0:
            usual = NEVER  # after a failure the back-off alone counts
        elif self._is_pushing:
            usual = max(self._heard_at, self._fetched_at) + self._stale_after_s
        else:
            # counted from the last poll, so that a stream of pushes cannot put the poll off for ever
            usual = self._fetched_at + self._interval_s(self._data) * (1 + JITTER * self._noise)
        if self._is_requested:
            usual = min(usual, self._fetched_at + DEBOUNCE_S)
        return max(usual, self._blocked_until)

    def push(self, data: T) -> None:
        """Data that came by itself."""
        self._heard_at = self._clock.monotonic()
        self._take(data)

    def set_pushing(self, is_pushing: bool) -> None:
        """The push channel is up (polls only when it falls silent), or down (a poll at once, then as usual)."""
        if is_pushing == self._is_pushing:
            return
        self._is_pushing = is_pushing
        if is_pushing:
            self._heard_at = self._clock.monotonic()
        else:
            self._fetched_at = NEVER
        self._wake.set()

    def request_refresh(self) -> None:
        """A poll soon, after a command for instance: at once, but at most every ten seconds."""
        self._is_requested = True
        self._wake.set()

    async def run(self) -> None:
        """Polls until cancelled, or until a failure that the link's owner has to know."""
        while True:
            self._wake.clear()
            wait_s = self.due_at() - self._clock.monotonic()
            if wait_s > 0:
                await self._pause(wait_s)
                continue
            try:
                await self.refresh()
            except RateLimitedError:
                continue
            except MowdeckError as err:
                if not err.retryable or self._failures >= self._max_failures:
                    raise

    async def _pause(self, seconds: float) -> None:
        """Sleeps, or less when something has changed meanwhile."""
        async with asyncio.TaskGroup() as group:
            pauses = {
                group.create_task(_await(self._sleep(seconds)), name="coordinator sleeps"),
                group.create_task(_await(self._wake.wait()), name="coordinator listens"),
            }
            done, pending = await asyncio.wait(pauses, return_when=asyncio.FIRST_COMPLETED)
            for pause in pending:
                pause.cancel()
            for pause in done:
                pause.result()

    async def refresh(self) -> T:
        """Fetches now; who comes while a fetch is under way gets that one's outcome. Raises what the fetch raises,
        LinkTimeoutError past the deadline, and RateLimitedError, without asking, until a wait is over."""
        landed = self._landed
        async with self._flight:
            if self._landed != landed:
                if self._error is not None:
                    raise self._error
                return cast("T", self._data)
            wait_s = self._blocked_until - self._clock.monotonic()
            if wait_s > 0:
                raise RateLimitedError(retry_after_s=wait_s)
            return await self._fly()

    async def _fly(self) -> T:
        try:
            try:
                async with asyncio.timeout(self._deadline_s):
                    data = await self._fetch()
            except TimeoutError as err:
                raise LinkTimeoutError(f"{self._name}: no answer within {self._deadline_s:g} s") from err
        except MowdeckError as err:
            self._land(err)
            raise
        self._land(None)
        self._take(data)
        return data

    def _land(self, err: MowdeckError | None) -> None:
        """Notes how a fetch went."""
        now = self._clock.monotonic()
        self._landed += 1
        self._fetched_at = now
        self._is_requested = False
        self._noise = self._random()
        if err is None:
            if self._error is not None:
                log.info("polling works again", coordinator=self._name, failures=self._failures)
            self._failures, self._error = 0, None
            return
        if self._error is None:
            log.warning("polling fails", coordinator=self._name, code=err.code, detail=err.detail)
        self._error = err
        asked_s = err.retry_after_s if isinstance(err, NotReadyError | RateLimitedError) else None
        if not isinstance(err, RateLimitedError):
            self._failures += 1
        backoff_s = min(self._retry_first_s * 2 ** min(max(self._failures - 1, 0), 16), RETRY_MAX_S)
        self._blocked_until = now + max(backoff_s, asked_s or 0.0) * (1 + JITTER * self._noise)

    def _take(self, data: T) -> None:
        self._data = data
        self._on_data(data)


async def _await(thing: Awaitable[object]) -> None:
    await thing
