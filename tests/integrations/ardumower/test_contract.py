"""The contract of all integrations, held over real HTTP and behind a GATT connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.platform.integration import Integration, IntegrationContext
from integrations.ardumower import create
from integrations.ardumower.emulated_http import serve
from integrations.ardumower.emulator import SunrayPeer
from integrations.ardumower.responder import SunrayBrain
from tests.contract.integration_contract import IntegrationContract
from tests.integrations.ardumower.peers import (
    ADDRESS,
    MemoryPort,
    ble_entry,
    lan_entry,
    with_bluetooth,
    with_password,
)

GARDEN = {
    "datum": {"lat": 52.5, "lon": 13.4},
    "rotation_deg": 12.0,
    "areas": "Front: 0 -1, 10 -1, 10 3, 0 3; Back: 0 3, 10 3, 10 7, 0 7",
}


class TestOverHttp(IntegrationContract):
    @asynccontextmanager
    async def make(self, context: IntegrationContext) -> AsyncIterator[Integration]:
        async with serve(SunrayBrain(time_scale=8.0)) as mower:
            yield create(with_password(context), lan_entry(mower.url, **GARDEN))


class TestOldFirmwareWithoutPassword(IntegrationContract):
    @asynccontextmanager
    async def make(self, context: IntegrationContext) -> AsyncIterator[Integration]:
        brain = SunrayBrain(time_scale=8.0, password=None)
        brain.faults.has_old_firmware = True
        async with serve(brain) as mower:
            yield create(with_password(context), lan_entry(mower.url))


class TestOverBluetooth(IntegrationContract):
    @asynccontextmanager
    async def make(self, context: IntegrationContext) -> AsyncIterator[Integration]:
        port = MemoryPort(SunrayPeer(ADDRESS, SunrayBrain(time_scale=8.0)))
        yield create(with_bluetooth(context, port), ble_entry(**GARDEN))
