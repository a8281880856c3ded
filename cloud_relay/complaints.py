"""Complaints that repeat themselves: told often enough to be noticed, not so often that they fill a disk."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

KEYS = 10_000
"""What is remembered; what was complained of longest ago is forgotten first."""


class Complaints:
    """Counts per key, within this process."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Hashable, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, key: Hashable) -> int | None:
        """One more; how many there were when that is worth a line in the log (1, 10, 100, then every 1000th)."""
        number = self._counts.get(key, 0) + 1
        self._counts[key] = number
        self._counts.move_to_end(key)
        if len(self._counts) > KEYS:
            self._counts.popitem(last=False)
        return number if number in (1, 10, 100) or number % 1_000 == 0 else None
