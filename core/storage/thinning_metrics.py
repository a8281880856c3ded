"""Counters of the thinning of tracks."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Summary


class ThinningMetrics:
    """All of them, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.scanned = Counter(
            "mowdeck_telemetry_thinning_rows_scanned", "Rows of tracks that thinning has judged", registry=registry
        )
        self.deleted = Counter(
            "mowdeck_telemetry_thinning_rows_deleted", "Rows of tracks that thinning has deleted", registry=registry
        )
        self.seconds = Summary(
            "mowdeck_telemetry_thinning_round_seconds", "How long rounds of thinning took", registry=registry
        )
