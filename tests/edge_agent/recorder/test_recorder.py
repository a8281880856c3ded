"""Recording on a real store: groups, full disks, poison and clocks that are not yet right."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from core.domain import limits
from core.domain.errors import StorageError, StorageFullError
from core.domain.ids import AccountId, BootId, MowerId
from core.domain.mower import MowerState
from core.storage.retention_metrics import RetentionMetrics
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry, Written
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.clock.kernel import ClockQuality
from edge_agent.recorder import recorder as module
from edge_agent.recorder.recorder import Recorder
from edge_agent.recorder.retention import Retention
from tests.edge_agent.runtime.plugin import state
from tests.fakes.clock import START, ManualClock

MOWER, OURS = MowerId("m"), AccountId("ours")
LONG = (START - timedelta(days=2000), START + timedelta(days=2000))


class Bench:
    """A recorder whose store can be made to fail."""

    def __init__(self, store: SqliteTelemetryStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.quality = ClockQuality.SYNCHRONISED
        self.keeper = ClockKeeper(clock, read_quality=lambda: self.quality)
        self.error: Exception | None = None
        self.poison: int | None = None
        self.groups: list[int] = []
        self.commits = asyncio.Event()
        self.recorder = self.make()

    def make(self, capacity: int = limits.UNDATED_ROWS) -> Recorder:
        return Recorder(
            store=self,  # type: ignore[arg-type]
            clock=self.keeper,
            boot_id=BootId("b"),
            account_id=lambda: OURS,
            on_commit=self.commits.set,
            capacity=capacity,
        )

    async def record_states(
        self, states: Sequence[tuple[MowerId, AccountId, MowerState]], **fields: Any
    ) -> Sequence[Written]:
        if self.error is not None:
            raise self.error
        if any(seen.battery_percent == self.poison for _, _, seen in states):
            raise ValueError("poison")
        self.groups.append(len(states))
        return await self.store.record_states(states, **fields)

    async def retain(self, now: object) -> dict[str, int]:
        if self.error is not None:
            raise self.error
        return await self.store.retain(now)  # type: ignore[arg-type]

    def put(self, count: int = 1, first: int = 0) -> None:
        for number in range(first, first + count):
            self.recorder.put(MOWER, state(observed_at=self.keeper.now(), battery_percent=number))
            self.clock.advance(1)

    async def batteries(self) -> list[int | None]:
        rows, _ = await self.store.history(OURS, MOWER, *LONG, limit=5_000)
        return [row.battery_percent for row in rows]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    clock = ManualClock()
    store = SqliteTelemetryStore(tmp_path / "t.db", clock=clock, is_journal=True)
    await store.open()
    await store.put_directory([DirectoryEntry(mower_id=MOWER, account_id=OURS, edge_id=None, name="m")])
    yield Bench(store, clock)
    await store.close()


async def test_states_of_a_window_are_one_commit(bench: Bench) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bench.recorder.run())
        bench.put(7)
        began = asyncio.get_running_loop().time()
        await bench.commits.wait()
        assert asyncio.get_running_loop().time() - began < limits.COMMIT_WINDOW_S
        task.cancel()
    assert bench.groups == [7]
    assert await bench.batteries() == list(range(7))
    assert bench.recorder.status().is_recording


async def test_what_waits_is_written_at_the_end(bench: Bench) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bench.recorder.run())
        await asyncio.sleep(0)
        bench.put(3)
        task.cancel()
    assert await bench.batteries() == [0, 1, 2]


async def test_a_long_queue_is_written_in_bounded_groups(bench: Bench) -> None:
    for number in range(module.GROUP_ROWS + 10):
        bench.recorder.put(MOWER, state(observed_at=START + timedelta(milliseconds=number), battery_percent=number % 9))
    assert await bench.recorder.flush()
    assert bench.groups == [module.GROUP_ROWS, 10]


async def test_parts_that_cannot_be_are_counted_by_name(bench: Bench) -> None:
    bench.recorder.put(MOWER, state(observed_at=bench.keeper.now(), battery_percent=101))
    bench.recorder.put(MOWER, state(observed_at=bench.keeper.now() + timedelta(days=7), battery_percent=50))
    assert await bench.recorder.flush()
    status = bench.recorder.status()
    assert status.implausible_parts == {"battery_percent": 1}
    assert status.refused_rows == {"implausible:observed_at": 1}


async def test_a_full_disk_is_said_and_recovered_from(bench: Bench) -> None:
    bench.error = StorageFullError("no room")
    bench.put(5)
    assert not await bench.recorder.flush()
    status = bench.recorder.status()
    assert (status.is_recording, status.failure, status.waiting_rows) == (False, "no room", 5)
    bench.put(5, first=5)
    bench.error = None
    assert await bench.recorder.flush()
    assert await bench.batteries() == list(range(10))
    assert bench.recorder.status().is_recording
    assert bench.recorder.status().dropped_rows == 0


async def test_memory_is_bounded_while_the_disk_is_full(bench: Bench) -> None:
    bench.recorder = bench.make(capacity=20)
    bench.error = StorageFullError("no room")
    for first in range(0, 100, 10):
        bench.put(10, first=first)
        assert not await bench.recorder.flush()
    status = bench.recorder.status()
    assert status.waiting_rows <= 20
    assert status.dropped_rows + status.waiting_rows == 100
    bench.error = None
    assert await bench.recorder.flush()
    assert (await bench.batteries())[-10:] == list(range(90, 100))


async def test_a_poison_state_does_not_hold_up_the_others(bench: Bench) -> None:
    bench.poison = 2
    bench.put(5)
    assert await bench.recorder.flush()
    assert await bench.batteries() == [0, 1, 3, 4]
    assert bench.recorder.status().refused_rows == {"unwritable": 1}


async def test_a_wrong_clock_waits_and_is_corrected(bench: Bench) -> None:
    bench.quality = ClockQuality.UNSYNCHRONISED
    bench.put(3)
    assert not await bench.recorder.flush()
    assert bench.recorder.status().waiting_rows == 3
    assert not bench.recorder.status().is_recording
    bench.clock.jump(200 * 86_400)
    bench.quality = ClockQuality.SYNCHRONISED
    bench.clock.advance(10)
    assert await bench.recorder.flush()
    rows, _ = await bench.store.history(OURS, MOWER, *LONG, limit=10)
    came_at = START + timedelta(days=200)
    assert [row.observed_at for row in rows] == [came_at + timedelta(seconds=n) for n in range(3)]


async def test_a_lost_race_with_the_end_loses_nothing(bench: Bench) -> None:
    """Cancelled in the middle of a commit, the group is written all the same, and once."""
    rng = random.Random(4)
    for round_number in range(20):
        bench.put(2, first=2 * round_number)
        task = asyncio.create_task(bench.recorder.flush())
        for _ in range(rng.randint(0, 6)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert await bench.recorder.flush()
    assert await bench.batteries() == list(range(40))


async def test_what_the_store_does_not_believe_is_counted(bench: Bench) -> None:
    bench.recorder.put(MOWER, state(observed_at=START + timedelta(days=3000)))
    assert await bench.recorder.flush()
    assert sum(bench.recorder.status().refused_rows.values()) == 1


async def test_retention_only_by_a_trusted_clock(bench: Bench) -> None:
    bench.put(3)
    await bench.recorder.flush()
    retention = Retention(store=bench, clock=bench.keeper, metrics=RetentionMetrics(CollectorRegistry()))  # type: ignore[arg-type]
    bench.clock.advance(40 * 86_400)
    bench.quality = ClockQuality.UNSYNCHRONISED
    bench.clock.advance(10)
    assert await retention.round() == {}
    bench.quality = ClockQuality.SYNCHRONISED
    bench.clock.advance(10)
    bench.error = StorageError("disk")
    assert await retention.round() == {}
    bench.error = None
    assert (await retention.round())["mower_history"] == 3
    assert await bench.batteries() == []
