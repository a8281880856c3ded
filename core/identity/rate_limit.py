"""Slows down guessing: after some free attempts each further one waits longer."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass

from core.domain.clock import Clock
from core.domain.errors import RateLimitedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many attempts are free, and how the wait grows after them (doubling)."""

    free: int
    first_delay_s: float
    max_delay_s: float
    forget_after_s: float
    """Without an attempt for this long, all is forgotten."""

    def delay_s(self, attempts: int) -> float:
        """How long after the given number of attempts the next one has to wait."""
        beyond = attempts - self.free
        return 0.0 if beyond <= 0 else min(self.max_delay_s, self.first_delay_s * 2.0 ** min(beyond - 1, 40))


PER_USER = Pace(free=5, first_delay_s=1.0, max_delay_s=60.0, forget_after_s=900.0)
"""Capped low: a stranger who guesses must not lock the owner out of their own mowers."""
PER_ADDRESS = Pace(free=20, first_delay_s=1.0, max_delay_s=900.0, forget_after_s=3_600.0)
"""A household, or an office, shares one address."""
ENTRIES = 10_000


@dataclass(slots=True)
class _Entry:
    attempts: int
    last_at: float


class RateLimit:
    """Counts attempts per key, in memory. An attempt counts when it begins, so that many at once gain nothing."""

    def __init__(self, clock: Clock, pace: Pace, *, entries: int = ENTRIES) -> None:
        self._clock = clock
        self._pace = pace
        self._limit = entries
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def check(self, key: str) -> None:
        """RateLimitedError if the key has to wait."""
        entry = self._entry(key)
        if entry is None:
            return
        wait_s = entry.last_at + self._pace.delay_s(entry.attempts) - self._clock.monotonic()
        if wait_s > 0:
            raise RateLimitedError(retry_after_s=wait_s)

    def count(self, key: str) -> None:
        """One more attempt. Of too many keys the one that was quiet for longest is forgotten."""
        entry = self._entry(key) or _Entry(0, 0.0)
        entry.attempts += 1
        entry.last_at = self._clock.monotonic()
        self._entries[key] = entry
        self._entries.move_to_end(key)
        while len(self._entries) > self._limit:
            self._entries.popitem(last=False)

    def uncount(self, key: str) -> None:
        """The last attempt was a good one."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.attempts = max(0, entry.attempts - 1)

    def forget(self, key: str) -> None:
        """The key has proved itself."""
        self._entries.pop(key, None)

    def _entry(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is not None and self._clock.monotonic() - entry.last_at >= self._pace.forget_after_s:
            del self._entries[key]
            return None
        return entry


class Guard:
    """The two limits that every guess passes: who is asked for, and from where."""

    def __init__(self, clock: Clock, *, per_user: Pace = PER_USER, per_address: Pace = PER_ADDRESS) -> None:
        self._users = RateLimit(clock, per_user)
        self._addresses = RateLimit(clock, per_address)

    def begin(self, *, address: str, user: str | None = None) -> None:
        """Counts an attempt; RateLimitedError if it comes too early (then it does not count)."""
        source = network_of(address)
        self._addresses.check(source)
        if user is not None:
            self._users.check(user)
            self._users.count(user)
        self._addresses.count(source)

    def succeed(self, *, address: str, user: str | None = None) -> None:
        """The attempt was right. The user is forgotten; the address only gets this one back, or somebody with one
        good password could guess at all others for free."""
        self._addresses.uncount(network_of(address))
        if user is not None:
            self._users.forget(user)


def network_of(address: str) -> str:
    """What counts as one place: an IPv4 address, or the /64 that one IPv6 customer has."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
