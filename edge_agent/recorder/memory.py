"""States that wait to be written, in memory and bounded: while a group is collected, while the disk is full, and
while nobody knows what time it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from core.domain import limits
from core.domain.ids import BootId, MowerId
from core.domain.mower import MowerState

CLOSE_TO_CLOCK = timedelta(minutes=5)
"""An `observed_at` this close to the box's clock came from it, and moves with it; another is the vendor's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A state, when it came (monotonic seconds of `boot_id`), what the box's clock said then, and whether that
    was to be believed (`is_dated`)."""

    mower_id: MowerId
    state: MowerState
    monotonic_s: float
    boot_id: BootId
    wall: datetime
    is_dated: bool


def dated(held: Held, *, wall: datetime, monotonic_s: float) -> MowerState:
    """The state as it would have been dated had the clock been right: `wall` and `monotonic_s` are now, of the
    same boot."""
    if held.is_dated:
        return held.state
    is_own_time = abs(held.state.observed_at - held.wall) <= CLOSE_TO_CLOCK
    if not is_own_time:
        return held.state
    came_at = wall - timedelta(seconds=monotonic_s - held.monotonic_s)
    return msgspec.structs.replace(held.state, observed_at=came_at + (held.state.observed_at - held.wall))


class Waiting:
    """States in order of arrival. When there is no room the older half is thinned to every second state and the
    loss is counted: the newest stay whole, the oldest stay covered."""

    def __init__(self, *, capacity: int = limits.UNDATED_ROWS) -> None:
        self._capacity = capacity
        self._items: deque[Held] = deque()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._items)

    def put(self, held: Held) -> None:
        """Adds the newest, thinning the oldest half when there is no room."""
        if len(self._items) >= self._capacity:
            self._thin()
        self._items.append(held)

    def put_back(self, held: Sequence[Held]) -> None:
        """Returns what could not be written to the front; what no longer fits is thinned."""
        self._items.extendleft(reversed(held))
        while len(self._items) > self._capacity:
            self._thin()

    def take(self, count: int) -> list[Held]:
        """Removes and returns the oldest `count`."""
        return [self._items.popleft() for _ in range(min(count, len(self._items)))]

    def _thin(self) -> None:
        """Every second state of the older half goes, so that the whole time stays covered."""
        items = list(self._items)
        half = max(len(items) // 2, 1)
        kept = items[:half][1::2] + items[half:]
        self.dropped += len(items) - len(kept)
        self._items = deque(kept)
