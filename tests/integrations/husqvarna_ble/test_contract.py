"""The contract of all integrations: bytes in memory, keeping the connection and letting it go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from core.platform.contract.memory_radio import MemoryRadio
from core.platform.integration import Integration, IntegrationContext
from integrations.husqvarna_ble import create
from integrations.husqvarna_ble.wire import Model
from tests.contract.integration_contract import IntegrationContract
from tests.integrations.husqvarna_ble.mowers import entry_for, make_peer, with_bluetooth


class TestHusqvarnaContract(IntegrationContract):
    options: Mapping[str, Any] = {"releases": False}
    traits: Mapping[str, Any] = {}

    @asynccontextmanager
    async def make(self, context: IntegrationContext) -> AsyncIterator[Integration]:
        peer = make_peer(**self.traits)
        radio = MemoryRadio(peer)
        try:
            yield create(with_bluetooth(context, radio), entry_for(peer, **self.options))
        finally:
            radio.close()


class TestReleasingContract(TestHusqvarnaContract):
    options: Mapping[str, Any] = {"releases": True}


class TestSisterBrandContract(TestHusqvarnaContract):
    traits: Mapping[str, Any] = {
        "name": "SILENO minimo",
        "model": Model(device_type=99, variant=3),
        "counts_blades": False,
    }
