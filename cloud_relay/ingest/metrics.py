"""Counters of the relay's ingest."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from core.storage.row_metrics import RowMetrics


class IngestMetrics:
    """All counters, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.telemetry = RowMetrics(registry)
        self.batches = Counter("mowdeck_relay_batches", "Journal batches by verdict", ["verdict"], registry=registry)
        self.rows = Counter("mowdeck_relay_rows", "Journal rows by outcome", ["outcome"], registry=registry)
        self.rejected = Counter(
            "mowdeck_telemetry_rows_rejected", "Journal rows put into quarantine", ["reason"], registry=registry
        )
        self.states = Counter("mowdeck_relay_states", "Live states taken", registry=registry)
        self.skipped = Counter("mowdeck_relay_states_skipped", "Live states refused", ["reason"], registry=registry)
        self.implausible = Counter(
            "mowdeck_relay_states_implausible", "Parts of live states dropped", ["field"], registry=registry
        )
        self.results = Counter("mowdeck_relay_results", "Command results by outcome", ["outcome"], registry=registry)
        self.events = Counter("mowdeck_relay_events", "Events of mowers", registry=registry)
