"""An adapter at work: its scan, its slots, and one connect at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bleak.backends.device import BLEDevice
from bleak.backends.scanner import AdvertisementData

from edge_agent.bluetooth.adapter import BluetoothAdapter
from edge_agent.bluetooth.scan import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class StationStatus:
    """What a person may want to know of an adapter."""

    name: str
    is_scanning: bool
    reason: str | None
    """Why it does not scan."""
    slots: int
    slots_used: int


class Station:
    """Owned by the service."""

    def __init__(
        self,
        adapter: BluetoothAdapter,
        on_heard: Callable[[str, BLEDevice, AdvertisementData], None],
        on_down: Callable[[str], None],
    ) -> None:
        self.adapter = adapter
        self.name = adapter.name
        self.slots_used = 0
        self.connecting = asyncio.Lock()
        """BlueZ aborts one of two connects at the same time; so do the proxies."""
        self.scan = Scan(
            adapter,
            lambda device, data: on_heard(adapter.name, device, data),
            lambda: on_down(adapter.name),
        )

    @property
    def has_slot(self) -> bool:
        """Whether one more connection fits."""
        return self.slots_used < self.adapter.slots

    def status(self) -> StationStatus:
        """For the API and diagnostics."""
        return StationStatus(
            name=self.name,
            is_scanning=self.scan.is_up,
            reason=self.scan.why,
            slots=self.adapter.slots,
            slots_used=self.slots_used,
        )
