"""Waiting before the next try: exponential, with full jitter, so that ten thousand boxes do not come back at once."""

from __future__ import annotations

from collections.abc import Callable

from core.domain import limits


class Backoff:
    """Delays drawn from `[0, ceiling)`, where the ceiling doubles from `first_s` to `max_s`.

    `random` gives numbers in `[0, 1)`.
    """

    def __init__(
        self,
        first_s: float = limits.RECONNECT_FIRST_S,
        max_s: float = limits.RECONNECT_MAX_S,
        *,
        random: Callable[[], float],
    ) -> None:
        if not 0 < first_s <= max_s:
            raise ValueError("first_s must be above 0 and at most max_s")
        self._first_s = first_s
        self._max_s = max_s
        self._random = random
        self._ceiling_s = first_s

    @property
    def ceiling_s(self) -> float:
        """The longest that the next delay can be."""
        return self._ceiling_s

    def next_s(self) -> float:
        """Seconds to wait before the next try; the one after may be twice as long."""
        delay_s = self._random() * self._ceiling_s
        self._ceiling_s = min(self._max_s, self._ceiling_s * 2)
        return delay_s

    def reset(self) -> None:
        """Begins again at `first_s`."""
        self._ceiling_s = self._first_s

    def succeed(self, lasted_s: float, *, stable_s: float = limits.RECONNECT_STABLE_S) -> None:
        """A connection ended after `lasted_s`: begins again if it was a stable one."""
        if lasted_s >= stable_s:
            self.reset()
