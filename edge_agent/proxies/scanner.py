"""bleak's scanner over a proxy: the proxy hears all the time, this listens to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from aioesphomeapi.core import APIConnectionError
from bleak.backends.device import BLEDevice
from bleak.backends.scanner import AdvertisementData, AdvertisementDataCallback, BaseBleakScanner
from bleak.exc import BleakError
from bluetooth_data_tools import int_to_bluetooth_address, parse_advertisement_data_bytes

Packets = Any
"""aioesphomeapi's `BluetoothLERawAdvertisementsResponse`, which has no types."""
TAKEN = "another program listens to this proxy"


class Ear(Protocol):
    """What the scanner needs of a connected proxy."""

    source: str
    can_connect: bool
    confirm_s: float
    """How long `wait_scanning` may take."""

    def subscribe(self, on_packets: Callable[[Packets], None]) -> Callable[[], None]:
        """Asks for advertisements; returns the undo."""
        ...

    async def wait_scanning(self) -> None:
        """Until the proxy says that it scans for this box; at once if its firmware does not tell."""
        ...

    def note_taken(self, *, is_taken: bool) -> None:
        """Whether somebody else has its advertisements."""
        ...


class ProxyScanner(BaseBleakScanner):
    """Made by subclassing with `ear` set, because bleak wants classes.

    Each packet makes a new BLEDevice: no handle is older than what was heard last, and nothing grows.
    """

    ear: ClassVar[Ear]

    def __init__(
        self,
        detection_callback: AdvertisementDataCallback | None,
        service_uuids: list[str] | None,
        _scanning_mode: str = "active",
        **_platform: Any,
    ) -> None:
        super().__init__(detection_callback, service_uuids)
        self._undo: Callable[[], None] | None = None

    async def start(self) -> None:
        try:
            self._undo = self.ear.subscribe(self._received)
            async with asyncio.timeout(self.ear.confirm_s):
                await self.ear.wait_scanning()
        except TimeoutError as err:
            await self.stop()
            self.ear.note_taken(is_taken=True)
            raise BleakError(TAKEN) from err
        except APIConnectionError as err:
            raise BleakError("the proxy is gone") from err
        self.ear.note_taken(is_taken=False)

    async def stop(self) -> None:
        undo, self._undo = self._undo, None
        if undo is not None:
            try:
                undo()
            except APIConnectionError as err:
                raise BleakError("the proxy is gone") from err

    def _received(self, packets: Packets) -> None:
        for packet in packets.advertisements:
            name, uuids, service_data, manufacturer_data, tx_power = parse_advertisement_data_bytes(packet.data)
            address = int_to_bluetooth_address(packet.address)
            data = AdvertisementData(
                local_name=name,
                manufacturer_data=manufacturer_data,
                service_data=service_data,
                service_uuids=uuids,
                tx_power=tx_power,
                rssi=packet.rssi,
                # The protocol does not say whether the peer takes connections; it surely does not over this proxy
                # when the proxy makes none.
                platform_data=({"connectable": self.ear.can_connect},),
            )
            details = {"source": self.ear.source, "address_type": packet.address_type}
            self.call_detection_callbacks(BLEDevice(address, name, details), data)
