"""Thousands of histories of box, network and relay. A failing seed is in the test's message."""

from __future__ import annotations

import random

import pytest

from core.domain.ids import StreamId
from core.telemetry.records import is_newer
from core.telemetry.rows import RecordRow
from tests.core.sync.journal_world import Faults, World, key_of

CHUNK = 100


def _chunks(quick: int, slow: int) -> list[object]:
    return [*range(quick), *(pytest.param(number, marks=pytest.mark.slow) for number in range(quick, slow))]


def _faults(rng: random.Random) -> Faults:
    return Faults(
        loss=rng.choice([0.0, 0.02, 0.2]),
        duplication=rng.choice([0.0, 0.1]),
        delay_s=rng.choice([0.0, 0.1, 8.0, 45.0]),  # above 30 s acks come after the sender gave up
        crash_rate=rng.choice([0.0, 0.005, 0.03]),
    )


def _live(seed: int) -> World:
    """Some minutes with faults."""
    rng = random.Random(seed)
    world = World(seed, _faults(rng))
    for _ in range(rng.randrange(2, 7)):
        world.record(rng.choice([0, 1, 5, 20, 60]))
        world.revise(rng.choice([0, 0, 1, 9]))
        world.run_until(world.now + rng.choice([0.1, 3.0, 40.0]))
    return world


def _same(world: World, *, may_have_lost: bool = False) -> None:
    """Row for row what the box has; what the box lost meanwhile may be there too, nothing else."""
    have = {key_of(row): row for row in world.box.rows.values()}
    missing = have.keys() - world.relay.rows.keys()
    assert not missing, f"{len(missing)} rows are missing"
    for key, row in have.items():
        found = world.relay.rows[key]
        is_lost_version = isinstance(row, RecordRow) and isinstance(found, RecordRow) and is_newer(found, row)
        assert found == row or (may_have_lost and is_lost_version), key
    for key, row in world.relay.rows.items():
        name = (row.mower_id, row.body) if isinstance(row, RecordRow) else key
        assert world.ever_recorded.get(name) == row


@pytest.mark.parametrize("chunk", _chunks(6, 40))
def test_at_rest_both_have_the_same_rows(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        try:
            world = _live(seed)
            world.settle()
            _same(world)
            assert len(world.relay.rows) == len(world.box.rows)
        except AssertionError as err:
            raise AssertionError(f"seed {seed}: {err}") from err


@pytest.mark.parametrize("chunk", _chunks(4, 20))
def test_rows_that_vanish_leave_explained_gaps(chunk: int) -> None:
    for seed in range(10_000 + chunk * CHUNK, 10_000 + (chunk + 1) * CHUNK):
        try:
            world = _live(seed)
            world.thin(0.5)
            world.run_until(world.now + 10.0)
            world.settle()
            _same(world)
        except AssertionError as err:
            raise AssertionError(f"seed {seed}: {err}") from err


@pytest.mark.parametrize("chunk", _chunks(4, 20))
def test_power_cuts_and_restored_databases_lose_no_row_that_the_box_has(chunk: int) -> None:
    for seed in range(20_000 + chunk * CHUNK, 20_000 + (chunk + 1) * CHUNK):
        rng = random.Random(seed)
        try:
            world = _live(seed)
            if rng.random() < 0.7:
                world.lose_tail(rng.choice([1, 3, 50]))
                world.record(rng.choice([0, 1, 20, 60]))
                world.revise(rng.choice([0, 5]))
            if rng.random() < 0.5:
                world.lose_relay_disk(rng.randrange(world.box.last_seq + 1))
            if rng.random() < 0.2:
                world.box.stream_id = StreamId("s2")
                world.box.acked_seq = 0
                world.restart_box()
            world.run_until(world.now + rng.choice([0.1, 40.0]))
            world.record(2)
            world.settle()
            _same(world, may_have_lost=True)
        except AssertionError as err:
            raise AssertionError(f"seed {seed}: {err}") from err


def test_without_faults_nothing_is_sent_twice() -> None:
    world = World(1, Faults(delay_s=0.0), batch_rows=1_000)
    world.record(10_500)
    world.settle()
    assert world.relay.stored_again == 0
    assert world.batches == 11
    assert world.now < 30


def test_a_trickle_does_not_make_a_batch_per_row() -> None:
    world = World(2, Faults(), batch_rows=1_000)
    world.settle()
    for _ in range(600):
        world.record(1)
        world.run_until(world.now + 0.1)
    world.settle()
    assert len(world.relay.rows) == 600
    assert world.batches <= 40
