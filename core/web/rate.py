"""Token buckets: how often somebody may do something, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    """`burst` at once, then `rate_per_s`. Times are monotonic seconds."""

    rate_per_s: float
    burst: float
    level: float
    filled_at: float

    @classmethod
    def full(cls, rate_per_s: float, burst: float, now: float) -> TokenBucket:
        return cls(rate_per_s=rate_per_s, burst=burst, level=burst, filled_at=now)

    def take(self, now: float) -> float:
        """0 and one token less, or the seconds until there is one."""
        self.level = min(self.burst, self.level + max(0.0, now - self.filled_at) * self.rate_per_s)
        self.filled_at = now
        if self.level >= 1:
            self.level -= 1
            return 0.0
        return (1 - self.level) / self.rate_per_s


class RateLimiter:
    """A bucket per key. At most `capacity` keys are remembered; the one unused longest is forgotten first, which
    gives it a full bucket again: size it above the number of keys that can be active at once."""

    def __init__(self, *, rate_per_s: float, burst: float, capacity: int = 10_000) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._capacity = capacity
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def take(self, key: Hashable, now: float) -> float:
        """0 if the key may go on, else the seconds to wait."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket.full(self._rate_per_s, self._burst, now)
            while len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket.take(now)
