"""The TrackThinner port: thins old parts of tracks slice by slice, by the rules of `core.telemetry.thinning`.

One contract suite (`tests/contract/track_thinning.py`) runs on every implementation. All methods raise StorageError.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NewType, Protocol

from core.domain.ids import MowerId

SLICE = timedelta(hours=6)
"""A slice is at most this long."""

TrackNo = NewType("TrackNo", int)
"""One mower's track under one account, as the store numbers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinnedSlice:
    """One slice, `start <= observed_at < end`, that is thinned now."""

    start: datetime
    end: datetime
    scanned: int
    deleted: int
    error_m: float
    """No deleted row was farther from the line between its surviving neighbours; 0 when none was deleted."""


class TrackThinner(Protocol):
    """Thins what is older than `before`. Killed at any moment, the next call goes on as if nothing had happened."""

    async def tracks(self, before: datetime, held: Collection[MowerId] = ()) -> Sequence[TrackNo]:
        """Tracks with rows between their watermark and `before`, the least thinned first; none of mowers that are
        `held` (their tracks are evidence)."""
        ...

    async def thin_slice(self, track: TrackNo, before: datetime) -> ThinnedSlice | None:
        """Thins the next slice behind the watermark and moves it, in one transaction; None when no whole cell of
        the 5-minute grid before `before` has rows. Rows that come behind the watermark later are never thinned."""
        ...
