"""Rounds of thinning: only at night, within the budget, with room for others, counted."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from core.domain.errors import StorageError
from core.domain.ids import MowerId
from core.storage.thinning_metrics import ThinningMetrics
from core.storage.thinning_rounds import PAUSE_MAX_S, RoundReport, ThinningRounds
from core.storage.track_thinner import ThinnedSlice, TrackNo
from core.telemetry.night_window import NightWindow
from tests.fakes.clock import ManualClock

NIGHT = datetime(2026, 6, 1, 1, 30, tzinfo=UTC)


class FakeThinner:
    """Tracks with so many slices; each takes `slice_s`."""

    def __init__(self, clock: ManualClock, slices: dict[int, int], slice_s: float = 1.0) -> None:
        self.clock = clock
        self.slices = slices
        self.slice_s = slice_s
        self.calls: list[str] = []
        self.before: set[datetime] = set()
        self.error: StorageError | None = None

    async def tracks(self, before: datetime, held: Collection[MowerId] = ()) -> Sequence[TrackNo]:
        self.before.add(before)
        self.held = held
        return [TrackNo(number) for number, left in self.slices.items() if left]

    async def thin_slice(self, track: TrackNo, before: datetime) -> ThinnedSlice | None:
        self.before.add(before)
        if not self.slices[track]:
            return None
        if self.error is not None:
            raise self.error
        self.slices[track] -= 1
        self.calls.append(f"slice {track}")
        self.clock.advance(self.slice_s)
        return ThinnedSlice(start=before, end=before, scanned=100, deleted=90, error_m=0.04)

    async def sleep(self, seconds: float) -> None:
        self.calls.append(f"pause {seconds:g}")
        self.clock.advance(seconds)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NIGHT)


def rounds_of(thinner: FakeThinner, *, registry: CollectorRegistry | None = None, **options: Any) -> ThinningRounds:
    return ThinningRounds(
        thinner=thinner,
        clock=thinner.clock,
        window=NightWindow(from_hour=1, until_hour=5, zone=UTC),
        detail=timedelta(days=14),
        metrics=ThinningMetrics(registry or CollectorRegistry()),
        sleep=thinner.sleep,
        **options,
    )


async def test_a_round_thins_all_that_is_old_and_leaves_the_writer_half_of_the_time(clock: ManualClock) -> None:
    thinner = FakeThinner(clock, {1: 2, 2: 0, 3: 1}, slice_s=0.25)
    registry = CollectorRegistry()
    report = await rounds_of(thinner, registry=registry).round()
    assert report == RoundReport(slices=3, scanned=300, deleted=270)
    assert thinner.calls == ["slice 1", "pause 0.25"] * 2 + ["slice 3", "pause 0.25"]
    assert thinner.before == {NIGHT - timedelta(days=14)}
    values = [
        registry.get_sample_value(f"mowdeck_telemetry_thinning_rows_{name}_total") for name in ("scanned", "deleted")
    ]
    assert values == [300, 270]
    assert registry.get_sample_value("mowdeck_telemetry_thinning_round_seconds_sum") == 1.5


async def test_what_is_held_is_asked_anew_each_round(clock: ManualClock) -> None:
    thinner = FakeThinner(clock, {1: 1})
    held = {MowerId("stolen")}
    rounds = rounds_of(thinner, held=lambda: frozenset(held))
    await rounds.round()
    assert thinner.held == {"stolen"}
    held.clear()
    await rounds.round()
    assert thinner.held == set()


async def test_nothing_by_day(clock: ManualClock) -> None:
    clock.advance(5 * 3600)
    thinner = FakeThinner(clock, {1: 2})
    assert await rounds_of(thinner).round() == RoundReport(is_cut=True)
    assert thinner.before == set()


async def test_the_end_of_the_night_ends_the_round(clock: ManualClock) -> None:
    clock.advance(3.5 * 3600 - 5)
    thinner = FakeThinner(clock, {1: 100})
    assert (await rounds_of(thinner).round()) == RoundReport(slices=3, scanned=300, deleted=270, is_cut=True)


async def test_the_budget_ends_the_round_and_the_next_goes_on(clock: ManualClock) -> None:
    thinner = FakeThinner(clock, {1: 7, 2: 1}, slice_s=10.0)
    rounds = rounds_of(thinner, budget_s=30.0)
    reports = [await rounds.round() for _ in range(4)]
    assert [(report.slices, report.is_cut) for report in reports] == [(3, True), (3, True), (2, False), (0, False)]
    assert f"pause {PAUSE_MAX_S:g}" in thinner.calls, "a long slice needs no long pause"


async def test_an_error_is_the_callers(clock: ManualClock) -> None:
    thinner = FakeThinner(clock, {1: 1})
    thinner.error = StorageError("disk")
    with pytest.raises(StorageError):
        await rounds_of(thinner).round()
    thinner.error = None
    assert (await rounds_of(thinner).round()).slices == 1
