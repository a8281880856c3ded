"""Whether those who hold a token may still use it. Remembered for moments, forgotten at once when it changes here."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Generic, TypeVar

from core.domain.clock import Clock

STANDING_TTL_S = 5.0
"""Another process that revokes a session is noticed within this time."""
ENTRIES = 10_000

V = TypeVar("V")

Announce = Callable[[frozenset[str]], None]


class Standing(Generic[V]):
    """A bounded memory of what the database said. Only what holds is remembered: strangers cannot fill it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[V, float]] = OrderedDict()
        self._generation = 0

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[V | None]]) -> V | None:
        """What is known under `key`, or what `ask` says."""
        entry = self._entries.get(key)
        if entry is not None and self._clock.monotonic() < entry[1]:
            return entry[0]
        generation = self._generation
        value = await ask()
        if value is None:
            self._entries.pop(key, None)
        elif generation == self._generation:  # else it was read before a change, and would outlive it
            self._entries[key] = (value, self._clock.monotonic() + STANDING_TTL_S)
            self._entries.move_to_end(key)
            while len(self._entries) > ENTRIES:
                self._entries.popitem(last=False)
        return value

    def forget(self) -> None:
        """Everything is asked anew: changes are rare, and this cannot miss one."""
        self._generation += 1
        self._entries.clear()


class Changes:
    """Told after a commit; passes it on to whoever holds something that has become wrong."""

    def __init__(self, *, on_grants_changed: Announce, on_sessions_ended: Announce) -> None:
        self._on_grants_changed = on_grants_changed
        self._on_sessions_ended = on_sessions_ended
        self._forgetful: list[Callable[[], None]] = []

    def follow(self, forget: Callable[[], None]) -> None:
        """`forget` is called at each change, before anybody else hears of it."""
        self._forgetful.append(forget)

    def tell(self, *, subjects: Collection[str] = (), sessions: Collection[str] = ()) -> None:
        """Subjects whose rights (or names) changed, and sessions and service tokens that have ended."""
        for forget in self._forgetful:
            forget()
        if subjects:
            self._on_grants_changed(frozenset(subjects))
        if sessions:
            self._on_sessions_ended(frozenset(sessions))
