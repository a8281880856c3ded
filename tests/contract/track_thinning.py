"""What every TrackThinner must do, whatever it thins in.

`open_thinning(name)` opens the relay's store of that name with its thinner; opened again it has what was written before.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta

from core.domain.clock import from_us, to_us
from core.domain.ids import MowerId
from core.domain.mower import Activity, Connectivity, RtkFix
from core.storage.telemetry_store import TelemetryStore
from core.storage.track_thinner import SLICE, ThinnedSlice, TrackThinner
from core.telemetry.rows import HistoryRow, PositionRow, SequencedRow
from core.telemetry.significance import DEGREE
from core.telemetry.thinning import TrackPoint, keep_set, thin
from tests.contract.telemetry_parts import EDGE, HOME, MOWER, OTHER, SECOND, STREAM, settle
from tests.contract.telemetry_parts import track as read_track
from tests.core.telemetry.tracks import BEGIN_US, BLADES, FIXES, PLACES, Leg, draw_track, lanes, mow

OpenThinning = Callable[[str], AbstractAsyncContextManager[tuple[TelemetryStore, TrackThinner]]]
Check = Callable[[OpenThinning], Awaitable[None]]

WORDS = {0: RtkFix.FLOAT, 1: RtkFix.FIXED, 2: RtkFix.SINGLE, None: None}
KINDS = ("lane", "lane", "lane", "spiral", "stand", "still", "wander", "race", "jump", "silence")
LATER = timedelta(days=90)


def random_track(seed: int, legs: int = 25, place: int | None = None) -> list[TrackPoint]:
    rng = random.Random(seed)
    plan = [
        Leg(
            kind=rng.choice(KINDS),
            rows=rng.randrange(1, 60),
            every_s=rng.choice([1, 1, 1, 2, 5, 20, 60]),
            blades_on=rng.choice(BLADES),
            fix=rng.choice(FIXES),
            seed=rng.randrange(2**16),
        )
        for _ in range(legs)
    ]
    return draw_track(plan, PLACES[seed % len(PLACES) if place is None else place])


async def put(
    store: TelemetryStore, rows: Sequence[TrackPoint], errors: Sequence[int] = (), mower: MowerId = MOWER
) -> None:
    """A track and instants with an error, as a box sends them."""
    items: list[HistoryRow | PositionRow] = [
        PositionRow(
            mower_id=mower,
            observed_at=from_us(row.at_us),
            lat=row.lat_e7 / DEGREE,
            lon=row.lon_e7 / DEGREE,
            rtk_fix=WORDS[row.rtk_fix],  # type: ignore[index]
            blades_on=row.blades_on,
            satellites=row.at_us % 30,
        )
        for row in rows
    ]
    items += [
        HistoryRow(
            mower_id=mower,
            observed_at=from_us(at_us),
            activity=Activity.ERROR,
            connectivity=Connectivity.ONLINE,
            error_code="stuck",
        )
        for at_us in errors
    ]
    sequenced = [SequencedRow(seq=number, row=row) for number, row in enumerate(items, 1)]
    done = await store.ingest(
        EDGE, HOME, STREAM, sequenced, last_seq=len(items), received_at=from_us(rows[-1].at_us) + LATER
    )
    assert not done.rejected


async def thin_all(thinner: TrackThinner, before: datetime) -> list[ThinnedSlice]:
    slices = []
    for number in await thinner.tracks(before):
        while (thinned := await thinner.thin_slice(number, before)) is not None:
            slices.append(thinned)
    return slices


def end_of(rows: Sequence[TrackPoint]) -> datetime:
    return from_us(rows[-1].at_us) + timedelta(minutes=10)


async def times(store: TelemetryStore, mower: MowerId = MOWER) -> set[int]:
    return {to_us(row.observed_at) for row in await read_track(store, mower)}


async def thinning_agrees_with_the_pure_rule(open_thinning: OpenThinning) -> None:
    for seed in range(12):
        rows = random_track(seed)
        errors = [row.at_us for row in rows[:: 37 + seed]]
        async with open_thinning(f"agree{seed}") as (store, thinner):
            await settle(store)
            await put(store, rows, errors)
            before = {row.observed_at: row for row in await read_track(store)}
            slices = await thin_all(thinner, end_of(rows))
            expected = thin(rows, errors)
            assert await times(store) == expected.kept
            assert all(before[row.observed_at] == row for row in await read_track(store)), "what is left is unchanged"
            assert sum(part.scanned for part in slices) == len(rows)
            assert sum(part.deleted for part in slices) == len(expected.dropped)
            assert round(max(part.error_m for part in slices) * 1_000) == expected.error_mm


async def slices_are_short_and_end_on_the_grid(open_thinning: OpenThinning) -> None:
    rows = mow(lanes, every_s=20.0, rows=5_000)
    async with open_thinning("a") as (store, thinner):
        await settle(store)
        await put(store, rows)
        slices = await thin_all(thinner, end_of(rows))
        assert len(slices) == 5
        for part in slices:
            assert part.end - part.start <= SLICE
            assert (to_us(part.start) - BEGIN_US) % 300_000_000 == (to_us(part.end) - BEGIN_US) % 300_000_000 == 0
        assert await times(store) == keep_set(rows)


async def thinning_again_deletes_nothing(open_thinning: OpenThinning) -> None:
    rows = random_track(3)
    async with open_thinning("a") as (store, thinner):
        await settle(store)
        await put(store, rows)
        await thin_all(thinner, end_of(rows))
        left = await times(store)
    async with open_thinning("a") as (store, thinner):
        assert await thin_all(thinner, end_of(rows)) == []
        assert await thinner.tracks(end_of(rows)) == []
        assert await times(store) == left < {row.at_us for row in rows}


async def nights_in_a_row_equal_one(open_thinning: OpenThinning) -> None:
    rows = random_track(4, legs=60, place=0)
    rng = random.Random(5)
    async with open_thinning("a") as (store, thinner):
        await settle(store)
        await put(store, rows)
        for cut in sorted(rng.sample(range(len(rows)), 9)):
            await thin_all(thinner, from_us(rows[cut].at_us))
            left = await times(store)
            assert {row.at_us for row in rows[cut:]} <= left, "what is younger is never touched"
        await thin_all(thinner, end_of(rows))
        assert await times(store) == keep_set(rows)


async def rows_that_come_behind_the_watermark_stay(open_thinning: OpenThinning) -> None:
    rows = mow(lanes, every_s=1.0, rows=2_000)
    late = rows[10:500:7]
    there = [row for row in rows if row not in late]
    async with open_thinning("a") as (store, thinner):
        await settle(store)
        await put(store, there)
        await thin_all(thinner, from_us(rows[1_200].at_us))
        await put(store, late)
        await thin_all(thinner, end_of(rows))
        left = await times(store)
        assert {row.at_us for row in late} <= left
        assert left - {row.at_us for row in late} == keep_set(there) - {row.at_us for row in late}


async def each_mower_is_thinned_by_itself(open_thinning: OpenThinning) -> None:
    mine, other = random_track(6), random_track(7)
    async with open_thinning("a") as (store, thinner):
        await settle(store)
        await put(store, mine)
        await put(store, other, [other[5].at_us], SECOND)
        late = from_us(mine[-1].at_us + 10**15)
        first, second = await thinner.tracks(late)
        assert await thinner.tracks(late, {SECOND}) == [first], "what is held is evidence"
        while await thinner.thin_slice(first, end_of(mine)):
            pass
        assert await times(store) == keep_set(mine)
        assert await times(store, SECOND) == {row.at_us for row in other}
        while await thinner.thin_slice(second, end_of(other)):
            pass
        assert await times(store, SECOND) == keep_set(other, [other[5].at_us])


async def the_error_of_a_range_is_stated_to_its_account_alone(open_thinning: OpenThinning) -> None:
    rows = mow(lanes, every_s=1.0, rows=3_000)
    begin, end = from_us(rows[0].at_us), end_of(rows)
    async with open_thinning("a") as (store, thinner):
        await settle(store)
        await put(store, rows)
        assert await store.track_error_m(HOME, MOWER, begin, end) == 0.0
        border = begin + timedelta(minutes=20)
        await thin_all(thinner, border)
        stated_m = await store.track_error_m(HOME, MOWER, begin, end)
        assert 0.0 < stated_m <= 0.051
        assert await store.track_error_m(HOME, MOWER, border, end) == 0.0, "there every row is left"
        assert await store.track_error_m(HOME, MOWER, begin - SLICE, begin) == 0.0
        assert await store.track_error_m(OTHER, MOWER, begin, end) == 0.0
        assert await store.track_error_m(HOME, SECOND, begin, end) == 0.0


async def a_purged_mower_is_thinned_anew(open_thinning: OpenThinning) -> None:
    rows = random_track(8)
    async with open_thinning("a") as (store, thinner):
        await settle(store)
        await put(store, rows)
        await thin_all(thinner, end_of(rows))
        await store.purge_mower(MOWER)
        await settle(store)
        await put(store, rows)
        assert await store.track_error_m(HOME, MOWER, from_us(0), end_of(rows)) == 0.0
        await thin_all(thinner, end_of(rows))
        assert await times(store) == keep_set(rows)


async def stated_errors_age_out_with_their_rows(open_thinning: OpenThinning) -> None:
    rows = mow(lanes, every_s=1.0, rows=1_000)
    async with open_thinning("a") as (store, thinner):
        await settle(store)
        await put(store, rows)
        await thin_all(thinner, end_of(rows))
        await store.retain(end_of(rows) + timedelta(days=729))
        assert await store.track_error_m(HOME, MOWER, from_us(0), end_of(rows)) > 0.0
        await store.retain(end_of(rows) + timedelta(days=731))
        assert await times(store) == set()
        assert await store.track_error_m(HOME, MOWER, from_us(0), end_of(rows)) == 0.0


THINNING: tuple[Check, ...] = (
    thinning_agrees_with_the_pure_rule,
    slices_are_short_and_end_on_the_grid,
    thinning_again_deletes_nothing,
    nights_in_a_row_equal_one,
    rows_that_come_behind_the_watermark_stay,
    each_mower_is_thinned_by_itself,
    the_error_of_a_range_is_stated_to_its_account_alone,
    a_purged_mower_is_thinned_anew,
    stated_errors_age_out_with_their_rows,
)
