"""Turns a mower that was heard for the first time into an offer: a discovery flow that a person may go on with.

Nothing is ever set up without that person; what is known or ignored already is the flow's own to see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from core.domain.errors import MowdeckError
from core.platform.bluetooth import Advertisement
from core.platform.flows import FlowDirector
from core.platform.manifest import Manifest
from edge_agent.bluetooth.discovery import Discovery
from edge_agent.bluetooth.service import BluetoothService

log = structlog.get_logger(__name__)

WAITING = 64
"""Offers that wait to be made; more in one moment are dropped and come again when the peer has been away."""


class Finder:
    """`run` is its life."""

    def __init__(self, service: BluetoothService, manifests: Mapping[str, Manifest], flows: FlowDirector) -> None:
        self._service = service
        self._flows = flows
        self._found: asyncio.Queue[tuple[str, Advertisement]] = asyncio.Queue(WAITING)
        matchers = {domain: manifest.bluetooth for domain, manifest in manifests.items()}
        self.discovery = Discovery(matchers, self._note)

    def _note(self, domain: str, advertisement: Advertisement) -> None:
        try:
            self._found.put_nowait((domain, advertisement))
        except asyncio.QueueFull:
            self.discovery.forget(advertisement.address)

    async def run(self) -> None:
        """Offers what is found, until cancelled."""
        undo = [self._service.listen(self.discovery.heard), self._service.listen_gone(self.discovery.forget)]
        try:
            while True:
                domain, advertisement = await self._found.get()
                details = {
                    "address": advertisement.address,
                    "name": advertisement.name,
                    "rssi_dbm": advertisement.rssi_dbm,
                }
                try:
                    await self._flows.start(domain, "discovery", details)
                except MowdeckError as err:
                    log.info(
                        "no offer made", domain=domain, address=advertisement.address, reason=err.detail or err.code
                    )
        finally:
            for one in undo:
                one()
