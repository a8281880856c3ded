"""An adapter at work: its scan, its slots, and one connect at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bleak.backends.device import BLEDevice
from bleak.backends.scanner import AdvertisementData

from edge_agent.bluetooth.adapter import BluetoothAdapter
from edge_agent.bluetooth.interference import Interference
from edge_agent.bluetooth.last_resort import LastResort
from edge_agent.bluetooth.scan import Scan
from edge_agent.bluetooth.turns import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class StationStatus:
    """What a person may want to know of an adapter."""

    name: str
    is_scanning: bool
    reason: str | None
    """Why it does not scan."""
    slots: int
    slots_used: int
    title: str | None = None
    can_connect: bool = True
    advice: str | None = None
    """What disturbs its connects, as far as it is known, and what helps."""


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
        self.held: set[str] = set()
        """Addresses that are connected over it, or about to be."""
        self.interference = Interference()
        self.last_resort = LastResort()
        self.turns = Turns()
        """Whose connect it is."""
        self.scan = Scan(
            adapter,
            lambda device, data: on_heard(adapter.name, device, data),
            lambda: on_down(adapter.name),
        )

    @property
    def has_slot(self) -> bool:
        """Whether one more connection fits."""
        return self.adapter.can_connect and self.slots_left > 0

    @property
    def slots_left(self) -> int:
        """How many more connections it can carry."""
        meter = self.adapter.meter
        return self.adapter.slots - len(self.held) if meter is None else meter.left(self.held)

    def status(self, now: float) -> StationStatus:
        """For the API and diagnostics."""
        meter = self.adapter.meter
        slots = self.adapter.slots if meter is None else meter.limit
        return StationStatus(
            name=self.name,
            is_scanning=self.scan.is_up,
            reason=self.scan.why,
            slots=slots,
            slots_used=slots - self.slots_left,
            title=self.adapter.title,
            can_connect=self.adapter.can_connect,
            advice=self.interference.advice(now),
        )
