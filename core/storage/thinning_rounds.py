"""Rounds of thinning at night: slice after slice, within a budget, with room for other writers in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from core.domain.clock import Clock
from core.domain.ids import MowerId
from core.storage.thinning_metrics import ThinningMetrics
from core.storage.track_thinner import TrackNo, TrackThinner
from core.telemetry.night_window import NightWindow

_log = structlog.get_logger(__name__)

BUDGET_S = 900.0
"""One round takes about this long at most; no slice is begun after it."""
EVERY_S = 1800.0
"""Pause between two rounds."""
PAUSE_MAX_S = 1.0

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """What one round did. `is_cut`: budget or night ended before all was done."""

    slices: int = 0
    scanned: int = 0
    deleted: int = 0
    is_cut: bool = False


class ThinningRounds:
    """Thins what is older than `detail` while the window is open."""

    def __init__(
        self,
        *,
        thinner: TrackThinner,
        clock: Clock,
        window: NightWindow,
        detail: timedelta,
        metrics: ThinningMetrics,
        budget_s: float = BUDGET_S,
        sleep: Sleep = asyncio.sleep,
        held: Callable[[], Collection[MowerId]] = frozenset,
    ) -> None:
        """`held`: mowers whose tracks are not thinned now, asked at the beginning of each round."""
        self._thinner = thinner
        self._clock = clock
        self._window = window
        self._detail = detail
        self._metrics = metrics
        self._budget_s = budget_s
        self._sleep = sleep
        self._held = held

    async def round(self) -> RoundReport:
        """One round, or nothing outside of the window. StorageError; what was thinned until then stays thinned."""
        begun_s = self._clock.monotonic()
        before = self._clock.now() - self._detail
        total = RoundReport(is_cut=not self._may_go_on(begun_s))
        tracks = () if total.is_cut else await self._thinner.tracks(before, self._held())
        for track in tracks:
            total = await self._thin_track(track, before, begun_s, total)
            if total.is_cut:
                break
        if total.slices:
            self._metrics.seconds.observe(self._clock.monotonic() - begun_s)
            _log.info("old tracks thinned", slices=total.slices, scanned=total.scanned, deleted=total.deleted)
        return total

    async def _thin_track(self, track: TrackNo, before: datetime, begun_s: float, total: RoundReport) -> RoundReport:
        while self._may_go_on(begun_s):
            slice_begun_s = self._clock.monotonic()
            thinned = await self._thinner.thin_slice(track, before)
            if thinned is None:
                return total
            total = replace(
                total,
                slices=total.slices + 1,
                scanned=total.scanned + thinned.scanned,
                deleted=total.deleted + thinned.deleted,
            )
            self._metrics.scanned.inc(thinned.scanned)
            self._metrics.deleted.inc(thinned.deleted)
            # as long as the slice took: others have the writer for at least half of the time
            await self._sleep(min(self._clock.monotonic() - slice_begun_s, PAUSE_MAX_S))
        return replace(total, is_cut=True)

    def _may_go_on(self, begun_s: float) -> bool:
        is_in_time = self._clock.monotonic() - begun_s < self._budget_s
        return is_in_time and self._window.is_open(self._clock.now())
