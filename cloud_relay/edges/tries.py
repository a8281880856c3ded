"""How often somebody may try something within a time. In memory: a restart forgives."""

from __future__ import annotations

from collections import OrderedDict, deque

from core.domain.clock import Clock
from core.domain.errors import RateLimitedError

KEYS = 10_000
"""Who is remembered; the one that tried longest ago is forgotten first."""


class Tries:
    """At most `count` tries per key within `window_s` seconds (a sliding window)."""

    def __init__(self, clock: Clock, *, count: int, window_s: float) -> None:
        self._clock = clock
        self._count = count
        self._window_s = window_s
        self._of: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, key: str) -> None:
        """RateLimitedError when `key` has used up its tries; says when the next one is free."""
        stamps = self._live(key)
        if len(stamps) >= self._count:
            raise RateLimitedError(retry_after_s=stamps[0] + self._window_s - self._clock.monotonic())

    def count(self, key: str) -> None:
        """One more try of `key`."""
        self._live(key).append(self._clock.monotonic())

    def spend(self, key: str) -> None:
        """`check`, then `count`."""
        self.check(key)
        self.count(key)

    def _live(self, key: str) -> deque[float]:
        stamps = self._of.setdefault(key, deque())
        self._of.move_to_end(key)
        while len(self._of) > KEYS:
            self._of.popitem(last=False)
        while stamps and stamps[0] <= self._clock.monotonic() - self._window_s:
            stamps.popleft()
        return stamps
