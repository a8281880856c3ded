"""What BlueZ needs on one adapter beside bleak: connections and attempts of former lives, stale services, a stuck radio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog
from bleak.exc import BleakDBusError
from dbus_fast.signature import Variant

from edge_agent.bluetooth.adapter import Aborts
from edge_agent.bluez.bus import ADAPTER, DEVICE, FAILURES, PROPERTIES, BluezBus, adapter_path, device_path
from edge_agent.bluez.wifi import uses_wifi_24_ghz

log = structlog.get_logger(__name__)

CLOSE_S = 5.0
"""How long a connection may take to end."""
OFF_S = 1.0
"""How long the radio stays off; the firmware of dongles starts anew in this time."""
SWITCH_S = 10.0
SWITCH_TRIES = 3


class BluezCare:
    """Implements `edge_agent.bluetooth.adapter.AdapterCare`."""

    def __init__(self, bus: BluezBus, adapter: str) -> None:
        self._bus = bus
        self._adapter = adapter
        self._on_reset: list[Callable[[], None]] = []
        self._last_owner = bus.owner
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

    async def close_stale(self, address: str) -> None:
        path = device_path(self._adapter, address)
        if await self._bus.property_of(path, DEVICE, "Connected") is True:
            log.warning("closing a connection of a former life", address=address, adapter=self._adapter)
            await self._disconnect(path)

    async def clear_attempt(self, address: str) -> None:
        path = device_path(self._adapter, address)
        log.warning("clearing an attempt that BlueZ is still busy with", address=address, adapter=self._adapter)
        await self._disconnect(path)  # also cancels a connect that is under way
        if not await self.is_bonded(address):  # removing the device would take the bond with it
            await self.remove(address)

    async def is_bonded(self, address: str) -> bool:
        return await self._bus.property_of(device_path(self._adapter, address), DEVICE, "Paired") is True

    async def remove(self, address: str) -> None:
        path = device_path(self._adapter, address)
        try:
            await self._bus.call(adapter_path(self._adapter), ADAPTER, "RemoveDevice", "o", [path])
        except BleakDBusError as err:
            if not err.dbus_error.endswith(("DoesNotExist", "UnknownObject")):
                log.warning("BlueZ does not forget a peer", address=address, adapter=self._adapter, reason=str(err))
        except FAILURES as err:
            log.warning("BlueZ does not forget a peer", address=address, adapter=self._adapter, reason=str(err))

    @contextmanager
    def watch(self, address: str) -> Iterator[Aborts]:
        """bleak tries again by itself when a connection breaks off while it comes up, and tells nobody: it is counted here."""
        aborts = Aborts()
        is_up = False

        def changed(properties: Mapping[str, Any]) -> None:
            nonlocal is_up
            connected = properties.get("Connected")
            if connected is False and is_up and not aborts.is_over:
                aborts.count += 1
            if connected is not None:
                is_up = bool(connected)

        undo = self._bus.watch(device_path(self._adapter, address), changed)
        try:
            yield aborts
        finally:
            undo()

    async def connections(self) -> int | None:
        try:
            objects = await self._bus.objects()
        except FAILURES:
            return None
        devices = [interfaces[DEVICE] for interfaces in objects.values() if DEVICE in interfaces]
        mine = [device for device in devices if device.get("Adapter") == adapter_path(self._adapter)]
        return sum(device.get("Connected") is True for device in mine)

    async def power_cycle(self) -> bool:
        if await self._bus.property_of(adapter_path(self._adapter), ADAPTER, "Powered") is not True:
            return False  # a person has switched it off, or BlueZ is not there
        log.warning("switching the adapter off and on: it has been stuck for minutes", adapter=self._adapter)
        try:
            await self._switch(on=False)
            await asyncio.sleep(OFF_S)
        except FAILURES as err:
            log.warning("the adapter was not switched off", adapter=self._adapter, reason=str(err))
        finally:
            is_on = await self._switch_on()
        return is_on

    async def uses_wifi_24_ghz(self) -> bool | None:
        return await asyncio.to_thread(uses_wifi_24_ghz)

    async def _switch_on(self) -> bool:
        for _ in range(SWITCH_TRIES):
            try:
                await self._switch(on=True)
                return True
            except FAILURES as err:
                log.warning("the adapter was not switched on", adapter=self._adapter, reason=str(err))
                await asyncio.sleep(OFF_S)
        return False

    async def _switch(self, *, on: bool) -> None:
        body = [ADAPTER, "Powered", Variant("b", on)]
        await self._bus.call(adapter_path(self._adapter), PROPERTIES, "Set", "ssv", body, deadline_s=SWITCH_S)

    async def _disconnect(self, path: str) -> None:
        closed = asyncio.Event()

        def changed(properties: Mapping[str, Any]) -> None:
            if properties.get("Connected") is False:
                closed.set()

        undo = self._bus.watch(path, changed)
        try:
            with contextlib.suppress(*FAILURES):
                async with asyncio.timeout(CLOSE_S):
                    await self._bus.call(path, DEVICE, "Disconnect", deadline_s=CLOSE_S)
                    if await self._bus.property_of(path, DEVICE, "Connected") is True:
                        await closed.wait()
        finally:
            undo()
