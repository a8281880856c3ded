"""Counters of telemetry rows that were written or left out."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from core.storage.telemetry_store import Ingested, Written


class RowMetrics:
    """All of them, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._written = Counter("mowdeck_telemetry_rows_written", "New rows of telemetry", ["table"], registry=registry)
        self._skipped = Counter(
            "mowdeck_telemetry_rows_skipped", "States or rows not written, by reason", ["reason"], registry=registry
        )

    def note_written(self, written: Written) -> None:
        """What became of one state."""
        for table, is_written in (("mower_history", written.history), ("mower_positions", written.position)):
            if is_written:
                self._written.labels(table=table).inc()
        if written.skipped is not None:
            self._skipped.labels(reason=written.skipped).inc()

    def note_ingested(self, ingested: Ingested) -> None:
        """What became of one batch; what was rejected is counted with the quarantine."""
        for table, rows in ingested.stored_by_table.items():
            self._written.labels(table=table).inc(rows)
        if ingested.duplicates:
            self._skipped.labels(reason="duplicate").inc(ingested.duplicates)
