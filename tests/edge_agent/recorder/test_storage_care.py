"""The care for the box's file: its room is kept, counted and told; a card too full for it is tried again."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from core.domain.errors import StorageFullError
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.clock.kernel import ClockQuality
from edge_agent.recorder.storage_care import StorageCare
from edge_agent.settings import EdgeSettings
from tests.contract import telemetry_parts as parts
from tests.core.storage.test_disk_budget import budget_of, fill
from tests.core.storage.test_sqlite_store import opened
from tests.fakes.clock import ManualClock


def keeper() -> ClockKeeper:
    return ClockKeeper(ManualClock(), read_quality=lambda: ClockQuality.SYNCHRONISED)


async def test_what_was_let_go_is_counted_and_told(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    told: list[int] = []
    async with opened(tmp_path / "a.db") as store:
        await fill(store, 2)
        before = await store.counts()
        care = StorageCare(
            EdgeSettings(data_dir=tmp_path),
            store,
            keeper(),
            registry,
            lambda: told.append(1),
            budget=budget_of(store, 256 * 1024),
        )
        assert care.problems() == ()
        assert care.status().budget is None
        await care.look()
        gone = before["mower_positions"] - (await store.counts())["mower_positions"]
        assert gone > 0
        labels = {"table": "mower_positions", "reason": "room"}
        assert registry.get_sample_value("mowdeck_telemetry_rows_deleted_total", labels) == gone
        assert told == [1]
        await care.look()
        assert told == [1]
        assert registry.get_sample_value("mowdeck_telemetry_rows_deleted_total", labels) == gone
        assert registry.get_sample_value("mowdeck_telemetry_retention_round_seconds_count", {"kind": "room"}) == 2
    status = care.status().budget
    assert status is not None
    (sentence,) = care.problems()
    assert f"{sum(status.dropped_rows.values())} old rows" in sentence


class _Full:
    status = None

    async def round(self) -> int:
        raise StorageFullError("no room")


async def test_a_card_too_full_to_drop_rows_is_looked_at_again(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as store:
        await parts.settle(store)
        care = StorageCare(EdgeSettings(data_dir=tmp_path), store, keeper(), CollectorRegistry(), budget=_Full())  # type: ignore[arg-type]
        await care.look()
        assert care.problems() == ()
