"""The contract of all integrations, held by the simulator: its full model and its small one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from core.domain.ids import EntryId
from core.platform.integration import Entry, Integration, IntegrationContext
from integrations.simulator import create
from tests.contract.integration_contract import IntegrationContract

FAST: Mapping[str, Any] = {"time_scale": 50.0, "report_interval_s": 0.05}


class TestSimulatorContract(IntegrationContract):
    data: Mapping[str, Any] = {"seed": 3, "mowers": 2}

    @asynccontextmanager
    async def make(self, context: IntegrationContext) -> AsyncIterator[Integration]:
        entry = Entry(
            entry_id=EntryId("e1"), domain="simulator", unique_id=None, title="Lawn", data=self.data, options=FAST
        )
        yield create(context, entry)


class TestSmallModelContract(TestSimulatorContract):
    data: Mapping[str, Any] = {"seed": 4, "model": "Meadow 300", "start_battery": 60}
