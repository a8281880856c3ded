"""Who waits for a connection, who holds one, and who lets go for whom.

An adapter holds few connections (a Raspberry Pi's own three to five), and a mower that works is visited for as long
as it works. So whoever waits has the holders asked, the oldest connection first; an emergency stop has all of them
asked at once and goes before everybody else who waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from core.platform.bluetooth import never
from edge_agent.bluetooth.failures import Bond

ASK_AGAIN_S = 1.0
"""So long one holder has before the next is asked too, and so often `is_urgent` is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A connection as it was asked for; see BluetoothPort.connect."""

    address: str
    bond: Bond = "none"
    passkey: int | None = field(default=None, repr=False)
    on_wanted: Callable[[], None] | None = None
    is_urgent: Callable[[], bool] = never


@dataclass(slots=True, kw_only=True, eq=False)
class Waiter:
    """Somebody who waits; `event` is set when it is worth looking again."""

    asked: Asked
    event: asyncio.Event = field(default_factory=asyncio.Event)
    sources: frozenset[str] = frozenset()
    """The adapters of which it wants a slot and none was free."""


@dataclass(slots=True, kw_only=True, eq=False)
class Holding:
    """A slot in use."""

    source: str
    on_wanted: Callable[[], None] | None
    is_asked: bool = False


class SlotQueue:
    """In the order of coming, both lists."""

    def __init__(self) -> None:
        self._waiters: dict[Waiter, None] = {}
        self._holdings: dict[Holding, None] = {}

    @contextmanager
    def waiting(self, asked: Asked) -> Iterator[Waiter]:
        """One who waits, for the length of the block."""
        waiter = Waiter(asked=asked)
        self._waiters[waiter] = None
        try:
            yield waiter
        finally:
            del self._waiters[waiter]
            if waiter.sources:
                self.wake()  # whoever stood back for it may go now

    def heard(self, address: str) -> None:
        """An advertisement: whoever waits for this peer looks again."""
        for waiter in self._waiters:
            if waiter.asked.address == address:
                waiter.event.set()

    def wake(self) -> None:
        """A slot is free, or something else has changed for everybody."""
        for waiter in self._waiters:
            waiter.event.set()

    def stands_back(self, waiter: Waiter, source: str) -> bool:
        """Whether a free slot of this adapter is for somebody else: an emergency stop that waits for one."""
        if waiter.asked.is_urgent():
            return False
        return any(
            source in other.sources and other.asked.is_urgent() for other in self._waiters if other is not waiter
        )

    def ask(self, waiter: Waiter, sources: Collection[str]) -> None:
        """Has a holder of one of these adapters asked to let go; for an emergency stop, all of them."""
        waiter.sources = frozenset(sources)
        askable = [one for one in self._holdings if one.source in sources and one.on_wanted and not one.is_asked]
        for holding in askable if waiter.asked.is_urgent() else askable[:1]:
            holding.is_asked = True
            if holding.on_wanted is not None:
                holding.on_wanted()

    def hold(self, source: str, on_wanted: Callable[[], None] | None) -> Holding:
        """A connection has come up."""
        holding = Holding(source=source, on_wanted=on_wanted)
        self._holdings[holding] = None
        return holding

    def let_go(self, holding: Holding) -> None:
        """It has ended. Idempotent."""
        self._holdings.pop(holding, None)
