"""bleak's scanner over a virtual adapter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

from bleak.args import SizedBuffer
from bleak.backends.scanner import AdvertisementData, AdvertisementDataCallback, BaseBleakScanner
from bumble.core import AdvertisingData
from bumble.device import Advertisement

from edge_agent.virtual_radio.adapter import VirtualAdapter

AD = AdvertisingData.Type
UUID_LISTS = {
    AD.INCOMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS: 2,
    AD.COMPLETE_LIST_OF_16_BIT_SERVICE_CLASS_UUIDS: 2,
    AD.INCOMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS: 16,
    AD.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS: 16,
}
SERVICE_DATA = {AD.SERVICE_DATA_16_BIT_UUID: 2, AD.SERVICE_DATA_128_BIT_UUID: 16}
NAMES = (AD.COMPLETE_LOCAL_NAME, AD.SHORTENED_LOCAL_NAME)


def uuid_text(raw: SizedBuffer) -> str:
    """A UUID as bleak spells it, from its little-endian bytes (two or sixteen)."""
    data = bytes(raw)[::-1]
    if len(data) == 2:
        return f"0000{data.hex()}-0000-1000-8000-00805f9b34fb"
    return str(UUID(bytes=data))


@dataclass(slots=True)
class Heard:
    """All that one peer has said; BlueZ keeps parts that a later packet leaves out, and so does this."""

    name: str | None = None
    service_uuids: list[str] = field(default_factory=list)
    manufacturer_data: dict[int, bytes] = field(default_factory=dict)
    service_data: dict[str, bytes] = field(default_factory=dict)

    def merge(self, data: AdvertisingData) -> None:
        """Takes one packet in."""
        for kind, value in data.ad_structures:
            if kind in NAMES:
                self.name = value.decode("utf-8", "replace")
            elif kind == AD.MANUFACTURER_SPECIFIC_DATA and len(value) >= 2:
                self.manufacturer_data[int.from_bytes(value[:2], "little")] = value[2:]
            elif width := UUID_LISTS.get(kind):
                for start in range(0, len(value) - width + 1, width):
                    uuid = uuid_text(value[start : start + width])
                    if uuid not in self.service_uuids:
                        self.service_uuids.append(uuid)
            elif (width := SERVICE_DATA.get(kind)) and len(value) >= width:
                self.service_data[uuid_text(value[:width])] = value[width:]


class VirtualScanner(BaseBleakScanner):
    """Made by `backend.bind`, which sets `adapter`."""

    adapter: ClassVar[VirtualAdapter]

    def __init__(
        self,
        detection_callback: AdvertisementDataCallback | None,
        service_uuids: list[str] | None,
        scanning_mode: str = "active",
        **_platform: Any,
    ) -> None:
        super().__init__(detection_callback, service_uuids)
        self._is_passive = scanning_mode == "passive"
        self._heard: dict[str, Heard] = {}

    async def start(self) -> None:
        self.seen_devices = {}
        self._heard.clear()
        await self.adapter.start_scan(self._on_advertisement)

    async def stop(self) -> None:
        await self.adapter.stop_scan(self._on_advertisement)

    def _on_advertisement(self, packet: Advertisement) -> None:
        address = packet.address.to_string(with_type_qualifier=False)
        heard = self._heard.setdefault(address, Heard())
        heard.merge(packet.data)
        if not self.is_allowed_uuid(heard.service_uuids):
            return
        data = AdvertisementData(
            local_name=heard.name,
            manufacturer_data=dict(heard.manufacturer_data),
            service_data=dict(heard.service_data),
            service_uuids=list(heard.service_uuids),
            tx_power=None,
            rssi=packet.rssi,
            platform_data=({"connectable": packet.is_connectable},),
        )
        # No "path": with one, bleak-retry-connector asks D-Bus.
        details = {"source": "virtual", "adapter": self.adapter.name, "address": address}
        device = self.create_or_update_device(address, address, heard.name, details, data)
        self.call_detection_callbacks(device, data)
