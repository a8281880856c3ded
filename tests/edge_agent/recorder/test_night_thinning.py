"""Thinning on the box: by the settings, on a real store, and only by a clock that can be believed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry

from core.domain.clock import from_us
from core.domain.errors import StorageError
from core.telemetry.thinning import keep_set
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.clock.kernel import ClockQuality
from edge_agent.recorder.night_thinning import NightThinning, make_night_thinning
from edge_agent.settings import EdgeSettings
from tests.contract import telemetry_parts as parts
from tests.contract.track_thinning import put, times
from tests.core.storage.test_sqlite_store import opened
from tests.core.telemetry.tracks import BEGIN_US, lanes, mow
from tests.fakes.clock import ManualClock


async def test_old_tracks_are_thinned_at_night_by_a_trusted_clock(tmp_path: Path) -> None:
    rows = mow(lanes, every_s=1.0, rows=3_000)
    settings = EdgeSettings(data_dir=tmp_path, thinning_from_hour=0, thinning_until_hour=0)
    clock = ManualClock(from_us(BEGIN_US) + timedelta(days=14, minutes=45, seconds=7))
    quality = [ClockQuality.UNSYNCHRONISED]
    keeper = ClockKeeper(clock, read_quality=lambda: quality[0])
    async with opened(tmp_path / "a.db", is_journal=False) as store:
        await parts.settle(store)
        await put(store, rows)
        thinning = make_night_thinning(settings, store.thinner, keeper, CollectorRegistry())
        await thinning.round()
        assert await times(store) == {row.at_us for row in rows}
        quality[0] = ClockQuality.SYNCHRONISED
        clock.advance(10)
        await thinning.round()
        young = {row.at_us for row in rows if row.at_us >= BEGIN_US + 45 * 60_000_000}
        left = await times(store)
        assert left - young == keep_set(rows) - young
        assert young <= left


class _Failing:
    async def round(self) -> None:
        raise StorageError("disk")


async def test_a_failure_is_not_the_end() -> None:
    keeper = ClockKeeper(ManualClock(), read_quality=lambda: ClockQuality.SYNCHRONISED)
    await NightThinning(rounds=_Failing(), clock=keeper).round()  # type: ignore[arg-type]
