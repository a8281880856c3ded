"""Thins the box's old tracks at night."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import timedelta

import structlog
from prometheus_client import CollectorRegistry

from core.domain.errors import StorageError
from core.domain.ids import MowerId
from core.storage.thinning_metrics import ThinningMetrics
from core.storage.thinning_rounds import EVERY_S, ThinningRounds
from core.storage.track_thinner import TrackThinner
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.settings import EdgeSettings

_log = structlog.get_logger(__name__)


class NightThinning:
    """Runs rounds only by a clock that can be believed: for one from the next century every row is old."""

    def __init__(self, *, rounds: ThinningRounds, clock: ClockKeeper) -> None:
        self._rounds = rounds
        self._clock = clock

    async def run(self) -> None:
        """Rounds until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.round()

    async def round(self) -> None:
        """One round; nothing while the clock is in doubt."""
        if not self._clock.is_trusted:
            return
        try:
            await self._rounds.round()
        except StorageError as err:
            _log.warning("thinning failed and is tried again later", code=err.code, detail=err.detail)


def make_night_thinning(
    settings: EdgeSettings,
    thinner: TrackThinner,
    clock: ClockKeeper,
    registry: CollectorRegistry,
    held: Callable[[], Collection[MowerId]] = frozenset,
) -> NightThinning:
    """As the settings say; never the tracks of mowers that are `held`."""
    rounds = ThinningRounds(
        thinner=thinner,
        clock=clock,
        window=settings.thinning_hours,
        detail=timedelta(days=settings.detail_days),
        metrics=ThinningMetrics(registry),
        held=held,
    )
    return NightThinning(rounds=rounds, clock=clock)
