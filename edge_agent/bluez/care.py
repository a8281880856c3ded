"""What BlueZ needs on one adapter beside bleak."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from edge_agent.bluez.bus import BluezBus

log = structlog.get_logger(__name__)


class BluezCare:
    """Implements `edge_agent.bluetooth.adapter.AdapterCare`."""

    def __init__(self, bus: BluezBus, adapter: str) -> None:
        self._bus = bus
        self._adapter = adapter
        self._on_reset: list[Callable[[], None]] = []
        self._last_owner: str | None = None
        bus.on_owner(self._owner_changed)

    def on_reset(self, callback: Callable[[], None]) -> None:
        self._on_reset.append(callback)

    def _owner_changed(self) -> None:
        owner = self._bus.owner
        if owner is None:
            return
        if self._last_owner not in (None, owner):
            log.warning("BlueZ was started anew", adapter=self._adapter)
            for callback in self._on_reset:
                callback()
        self._last_owner = owner
