"""A mower, an entry for it, and a link to it, as most tests want them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pygrouw")

from core.domain.ids import EntryId
from core.platform.bluetooth import BluetoothPort
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.integration import Entry, IntegrationContext
from integrations.grouw_ble.emulated_machine import Traits
from integrations.grouw_ble.emulator import GrouwPeer
from integrations.grouw_ble.integration import GrouwBle
from tests.contract.integration_contract import Running, open_context, run_link

PIN = "8352"
FAST: dict[str, Any] = {"poll_moving_s": 0.1, "poll_standing_s": 0.2, "poll_low_s": 0.3, "answer_s": 0.3}


def make_peer(*, time_scale: float = 20.0, pin: str = PIN, **traits: Any) -> GrouwPeer:
    return GrouwPeer(traits=Traits(**traits), time_scale=time_scale, pin=pin)


def entry_for(peer: GrouwPeer, **options: Any) -> Entry:
    name = peer.machine.traits.name
    return Entry(
        entry_id=EntryId("e1"),
        domain="grouw_ble",
        unique_id=peer.address,
        title=name,
        data={"address": peer.address, "name": name},
        options={**FAST, **options},
    )


def with_bluetooth(context: IntegrationContext, bluetooth: BluetoothPort, pin: str = PIN) -> IntegrationContext:
    context.secrets.put("pin", pin)
    return replace(context, bluetooth=bluetooth)


@asynccontextmanager
async def set_up(peer: GrouwPeer, pin: str = PIN, **options: Any) -> AsyncIterator[tuple[GrouwBle, MemoryRadio]]:
    """An entry that is set up, and the radio; no link yet."""
    radio = MemoryRadio(peer)
    async with open_context() as context:
        integration = GrouwBle(with_bluetooth(context, radio, pin), entry_for(peer, **options))
        try:
            yield integration, radio
        finally:
            radio.close()


@asynccontextmanager
async def running(peer: GrouwPeer, **options: Any) -> AsyncIterator[tuple[Running, MemoryRadio]]:
    """A link that runs and has reported its first state."""
    async with set_up(peer, **options) as (integration, radio):
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as link:
            yield link, radio
