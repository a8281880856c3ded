"""The relay's telemetry file keeps rows as long as its settings say, and ingest counts what it wrote."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from cloud_relay.settings import RelaySettings
from cloud_relay.telemetry import open_telemetry
from core.storage.row_metrics import RowMetrics
from core.storage.telemetry_store import Ingested
from tests.cloud_relay.test_ingest import EDGE, HOME, MOWER, STREAM, entry, history
from tests.fakes.clock import ManualClock


@pytest.mark.parametrize(("history_days", "gone"), [(1, 1), (3, 0)])
async def test_rows_are_kept_as_long_as_set(tmp_path: Path, history_days: int, gone: int) -> None:
    registry = CollectorRegistry()
    metrics = RowMetrics(registry)
    item = history(1)
    settings = RelaySettings(data_dir=tmp_path, history_days=history_days)
    async with open_telemetry(settings, ManualClock()) as store:
        await store.put_directory([entry(MOWER)])

        async def ingest() -> Ingested:
            return await store.ingest(EDGE, HOME, STREAM, [item], last_seq=1, received_at=item.row.observed_at)

        metrics.note_ingested(await ingest())
        metrics.note_ingested(await ingest())
        deleted = await store.retain(item.row.observed_at + timedelta(days=2))
    assert deleted["mower_history"] == gone
    labels = {"table": "mower_history"}
    assert registry.get_sample_value("mowdeck_telemetry_rows_written_total", labels) == 1
    assert registry.get_sample_value("mowdeck_telemetry_rows_skipped_total", {"reason": "duplicate"}) == 1
