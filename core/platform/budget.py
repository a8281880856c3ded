"""How many requests a vendor allows: a token bucket per account, which a restart does not refill."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

import msgspec
import structlog

from core.domain.clock import Clock
from core.domain.errors import LimitExceededError, RateLimitedError, StorageError
from core.domain.limits import BUDGET_WAIT_S
from core.platform.durable_file import JsonDocument
from core.platform.manifest import RequestLimit

log = structlog.get_logger(__name__)

FORMAT = 1
DAY_S = 86_400.0
Sleep = Callable[[float], Awaitable[None]]


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    tokens: float
    at: datetime
    lease: float
    """Requests that may have been spent since, unseen by the file."""


class BudgetStore:
    """The budgets of all vendors' accounts in one file.

    Not every request is written down (an SD card wears out): the file says how much was left and how much may have
    been spent since (the lease); after a crash the whole lease counts as spent. So a restart never gives more.
    """

    def __init__(self, path: Path, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self._document = JsonDocument(path, dict[str, _Saved], version=FORMAT, clock=clock)
        self._clock = clock
        self._sleep = sleep
        self._saved: dict[str, _Saved] = {}
        self._budgets: dict[str, Budget] = {}

    def load(self) -> None:
        """Reads the file; a corrupt one is moved aside and all buckets begin empty."""
        self._saved = self._document.load() or {}

    def for_key(self, key: str, limit: RequestLimit) -> Budget:
        """The one budget of a key such as `domain:account`."""
        if key not in self._budgets:
            tokens = self._tokens_left(key, limit)
            self._budgets[key] = Budget(limit, tokens, self._clock, self._sleep, lambda: self._save(key))
        return self._budgets[key]

    def _tokens_left(self, key: str, limit: RequestLimit) -> float:
        saved = self._saved.get(key)
        if saved is None:
            return 0.0 if self._document.problem is not None else float(limit.burst)
        elapsed_s = max(0.0, (self._clock.now() - saved.at).total_seconds())  # a clock set back refills nothing
        return min(float(limit.burst), saved.tokens + elapsed_s * limit.per_day / DAY_S) - saved.lease

    async def _save(self, key: str) -> None:
        budget = self._budgets[key]
        self._saved[key] = _Saved(tokens=budget.tokens(), at=self._clock.now(), lease=budget.lease)
        await self._document.save(self._saved)

    async def close(self) -> None:
        """Writes down exactly what is left, without leases."""
        now = self._clock.now()
        for key, budget in self._budgets.items():
            self._saved[key] = _Saved(tokens=budget.tokens(), at=now, lease=0.0)
        if self._budgets:
            await self._document.save(self._saved)


class Budget:
    """One bucket (the port `integration.RequestBudget`): at most `burst` at once, `per_day` in the long run."""

    def __init__(
        self,
        limit: RequestLimit,
        tokens: float,
        clock: Clock,
        sleep: Sleep,
        save: Callable[[], Awaitable[None]],
    ) -> None:
        self._burst = float(limit.burst)
        self._per_s = limit.per_day / DAY_S
        self._tokens = tokens
        self._clock = clock
        self._sleep = sleep
        self._save = save
        self._counted_at = clock.monotonic()
        self.lease = float(max(1, limit.burst // 10))
        self._unsaved = self.lease
        """Requests since the file was written; a lease's worth at the start, so that the first one is written."""

    def tokens(self) -> float:
        """What is left now; below zero while requests that have been promised wait for their turn."""
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._per_s)
        self._counted_at = now
        return self._tokens

    async def spend(self, requests: int = 1) -> None:
        """Waits until the requests are allowed, first come first served; RateLimitedError when that is more than a
        minute away, LimitExceededError when it never is."""
        if not 1 <= requests <= self._burst:
            raise LimitExceededError(f"between 1 and {self._burst:g} requests at once, not {requests}")
        wait_s = (requests - self.tokens()) / self._per_s
        if wait_s > BUDGET_WAIT_S:
            raise RateLimitedError(retry_after_s=wait_s)
        self._tokens -= requests
        self._unsaved += requests
        try:
            if self._unsaved > self.lease:
                self._unsaved = 0.0  # what is written now includes this request
                await self._save_or_go_on()
            if wait_s > 0:
                await self._sleep(wait_s)
        except BaseException:
            self._tokens = min(self._burst, self._tokens + requests)  # not sent: given back
            raise

    async def _save_or_go_on(self) -> None:
        """A full disk does not stop the box; the next request tries to write again."""
        try:
            await self._save()
        except StorageError as err:
            self._unsaved = self.lease
            log.warning("request budget is not on the disk", detail=err.detail)
