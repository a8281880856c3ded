"""bleak's client over a proxy: bleak-esphome's, with its failures as this box's error tree knows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from aioesphomeapi.core import APIConnectionError, BluetoothGATTAPIError
from bleak.backends.characteristic import BleakGATTCharacteristic
from bleak.backends.client import NotifyCallback
from bleak.backends.device import BLEDevice
from bleak.exc import BleakError, BleakGATTProtocolError
from bleak_esphome.backend.client import ESPHomeClient, ESPHomeClientData
from bluetooth_data_tools import mac_to_int

if TYPE_CHECKING:
    from typing_extensions import Buffer

ATT_CODES = range(0x01, 0x14)
"""ATT's own error codes; the numbers above are the ESP32's."""
UNPAIR_S = 5.0


class ProxyClient(ESPHomeClient):
    """Made by subclassing with `data` set, because bleak wants classes. Lives as long as one connection to the proxy."""

    data: ClassVar[ESPHomeClientData]

    def __init__(self, address_or_ble_device: BLEDevice | str, *args: Any, **kwargs: Any) -> None:
        super().__init__(address_or_ble_device, *args, client_data=self.data, **kwargs)

    async def read_gatt_char(self, characteristic: BleakGATTCharacteristic, **kwargs: Any) -> bytearray:
        with _att_codes():
            return await super().read_gatt_char(characteristic, **kwargs)

    async def write_gatt_char(self, characteristic: BleakGATTCharacteristic, data: Buffer, response: bool) -> None:
        with _att_codes():
            await super().write_gatt_char(characteristic, bytes(data), response)

    async def start_notify(
        self, characteristic: BleakGATTCharacteristic, callback: NotifyCallback, **kwargs: Any
    ) -> None:
        with _att_codes():
            await super().start_notify(characteristic, callback, **kwargs)

    async def unpair(self) -> None:
        """Also without a connection to the peer: the bond is the proxy's to forget."""
        try:
            answer = await self.data.client.bluetooth_device_unpair(mac_to_int(self.address), UNPAIR_S)
        except APIConnectionError as err:
            raise BleakError(str(err)) from err
        if not answer.success:
            raise BleakError(f"the proxy did not forget the bond (error {answer.error})")


@contextmanager
def _att_codes() -> Iterator[None]:
    """What the peer has refused, as bleak's other backends say it."""
    try:
        yield
    except BleakError as err:
        cause = err.__cause__
        if isinstance(cause, BluetoothGATTAPIError) and cause.error.error in ATT_CODES:
            raise BleakGATTProtocolError(cause.error.error) from err
        raise
