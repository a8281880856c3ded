"""From what a box says that it hears to samples: each advertisement once per path, and silence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from core.survey.sample import Place, Sample

SILENCE_S = 10.0
"""Longer than any mower of ours is silent between two advertisements."""
SILENT_EVERY_S = 5.0


@dataclass(slots=True, kw_only=True)
class Listener:
    """Follows one peer through the answers of `/box/bluetooth`. `now` is monotonic, `at` the same moment as a date."""

    address: str | None
    """None: nothing is listened for."""
    is_connected: bool = False
    """The box holds a connection to it: it may not advertise, so silence says nothing."""
    _packets: dict[str, int] = field(default_factory=dict)
    _heard_at: float | None = None
    _silent_at: float = float("-inf")

    def take(self, view: Mapping[str, Any], *, at: datetime, now: float, place: Place | None) -> list[Sample]:
        """The samples that are new since the last look. The first look only counts what was heard before it."""
        if self.address is None:
            return []
        near = next((one for one in view["nearby"] if one["address"] == self.address), None)
        self.is_connected = near is not None and near["is_connected"]
        is_first = self._heard_at is None
        found = [] if near is None else [s for path in near["paths"] if (s := self._hear(path, at, place))]
        if found or is_first or self.is_connected or not any(a["is_scanning"] for a in view["adapters"]):
            self._heard_at = now
            return [] if is_first else found
        if now - (self._heard_at or 0.0) < SILENCE_S or now - self._silent_at < SILENT_EVERY_S:
            return []
        self._silent_at = now
        return [Sample(at=at, rssi_dbm=None, place=place)]

    def _hear(self, path: Mapping[str, Any], at: datetime, place: Place | None) -> Sample | None:
        before = self._packets.get(path["source"])
        self._packets[path["source"]] = path["packets"]
        if path["packets"] in (before, 0):  # nothing new, or nothing that had a strength
            return None
        heard_at = at - timedelta(seconds=path["seen_s_ago"])
        return Sample(at=heard_at, rssi_dbm=path["rssi_dbm"], adapter=path["source"], place=place)
