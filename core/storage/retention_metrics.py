"""Counters of rows that were let go."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry, Counter, Summary


class RetentionMetrics:
    """All of them, in one registry. The reason (`age`, `room`) is also the kind of the round."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._deleted = Counter(
            "mowdeck_telemetry_rows_deleted",
            "Rows let go: too old (age), or for want of room (room)",
            ["table", "reason"],
            registry=registry,
        )
        self._seconds = Summary(
            "mowdeck_telemetry_retention_round_seconds",
            "How long rounds of retention took",
            ["kind"],
            registry=registry,
        )

    def timed(self, kind: str) -> AbstractContextManager[object]:
        """Measures a round."""
        return self._seconds.labels(kind=kind).time()

    def count(self, deleted: Mapping[str, int], *, reason: str) -> None:
        """Rows deleted by table."""
        for table, rows in deleted.items():
            self._deleted.labels(table=table, reason=reason).inc(rows)
