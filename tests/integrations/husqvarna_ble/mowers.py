"""A mower, an entry for it, and a link to it, as most tests want them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from core.domain.ids import EntryId
from core.platform.bluetooth import BluetoothPort
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.integration import Entry, IntegrationContext
from integrations.husqvarna_ble.emulated_machine import Traits
from integrations.husqvarna_ble.emulator import HusqvarnaPeer
from integrations.husqvarna_ble.integration import HusqvarnaBle
from tests.contract.integration_contract import Running, open_context, run_link

PIN = "1234"
CHANNEL = 1197489078
FAST: dict[str, Any] = {
    "poll_moving_s": 0.1,
    "poll_standing_s": 0.2,
    "poll_fault_s": 0.3,
    "settle_s": 0.0,
    "answer_s": 0.3,
}


def make_peer(*, time_scale: float = 20.0, **traits: Any) -> HusqvarnaPeer:
    return HusqvarnaPeer(traits=Traits(**traits), time_scale=time_scale)


def entry_for(peer: HusqvarnaPeer, **options: Any) -> Entry:
    traits = peer.machine.traits
    data = {
        "address": peer.address,
        "channel": CHANNEL,
        "serial": str(traits.serial),
        "name": traits.name,
        "device_type": traits.model.device_type,
        "variant": traits.model.variant,
    }
    return Entry(
        entry_id=EntryId("e1"),
        domain="husqvarna_ble",
        unique_id=peer.address,
        title=traits.name,
        data=data,
        options={**FAST, **options},
    )


def with_bluetooth(context: IntegrationContext, bluetooth: BluetoothPort, pin: str = PIN) -> IntegrationContext:
    context.secrets.put("pin", pin)
    return replace(context, bluetooth=bluetooth)


@asynccontextmanager
async def set_up(
    peer: HusqvarnaPeer, pin: str = PIN, **options: Any
) -> AsyncIterator[tuple[HusqvarnaBle, MemoryRadio]]:
    """An entry that is set up, and the radio; no link yet."""
    radio = MemoryRadio(peer)
    async with open_context() as context:
        integration = HusqvarnaBle(with_bluetooth(context, radio, pin), entry_for(peer, **options))
        try:
            yield integration, radio
        finally:
            radio.close()


@asynccontextmanager
async def running(peer: HusqvarnaPeer, **options: Any) -> AsyncIterator[tuple[Running, MemoryRadio]]:
    """A link that runs and has reported its first state."""
    async with set_up(peer, **options) as (integration, radio):
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as link:
            yield link, radio
