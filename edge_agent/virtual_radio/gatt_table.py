"""bumble's GATT server filled from an emulated mower's description."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog
from bumble.att import ATT_Error, Attribute
from bumble.device import Connection, Device
from bumble.gatt import GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR as CCCD
from bumble.gatt import Characteristic, CharacteristicValue, Descriptor, Service

from core.platform.emulation import (
    AttCode,
    AttRefusedError,
    EmulatedCharacteristic,
    EmulatedPeer,
    Property,
    Security,
)
from edge_agent.virtual_radio.peer_faults import PeerFaults
from edge_agent.virtual_radio.peer_session import PeerSession

log = structlog.get_logger(__name__)

T = TypeVar("T")
Permissions = Attribute.Permissions
PROPERTIES: dict[Property, Characteristic.Properties] = {
    "read": Characteristic.Properties.READ,
    "write": Characteristic.Properties.WRITE,
    "write-without-response": Characteristic.Properties.WRITE_WITHOUT_RESPONSE,
    "notify": Characteristic.Properties.NOTIFY,
    "indicate": Characteristic.Properties.INDICATE,
}
READ_NEEDS: dict[Security, Permissions] = {
    "open": Permissions(0),
    "encrypted": Permissions.READ_REQUIRES_ENCRYPTION,
    "authenticated": Permissions.READ_REQUIRES_AUTHENTICATION,
}
WRITE_NEEDS: dict[Security, Permissions] = {
    "open": Permissions(0),
    "encrypted": Permissions.WRITE_REQUIRES_ENCRYPTION,
    "authenticated": Permissions.WRITE_REQUIRES_AUTHENTICATION,
}


class GattTable:
    """The mower's attributes; `characteristics` by UUID."""

    def __init__(
        self,
        peer: EmulatedPeer,
        device: Device,
        session_of: Callable[[Connection], PeerSession | None],
        faults: PeerFaults,
    ) -> None:
        self.characteristics: dict[str, Characteristic[bytes]] = {}
        self._peer = peer
        self._device = device
        self._session_of = session_of
        self._faults = faults
        for service in peer.services:
            members = [self._characteristic(described) for described in service.characteristics]
            device.add_service(Service(service.uuid, members))

    def _characteristic(self, described: EmulatedCharacteristic) -> Characteristic[bytes]:
        uuid = described.uuid.lower()
        properties = Characteristic.Properties(0)
        for name in described.properties:
            properties |= PROPERTIES[name]
        permissions = Permissions(0)
        if "read" in described.properties:
            permissions |= Permissions.READABLE | READ_NEEDS[described.security]
        if described.properties & {"write", "write-without-response"}:
            permissions |= Permissions.WRITEABLE | WRITE_NEEDS[described.security]
        value = CharacteristicValue[bytes](
            read=lambda connection: self._read(connection, uuid),
            write=lambda connection, data: self._write(connection, uuid, data),
        )
        characteristic: Characteristic[bytes] = Characteristic(uuid, properties, permissions, value)
        if described.properties & {"notify", "indicate"}:
            # Explicit: the one that bumble adds by itself is open to everybody.
            needs = Permissions.READABLE | Permissions.WRITEABLE | WRITE_NEEDS[described.security]
            cccd = Descriptor(CCCD, needs, self._device.gatt_server.make_descriptor_value(characteristic))
            characteristic.descriptors = [cccd]
            characteristic.on(
                Characteristic.EVENT_SUBSCRIPTION,
                lambda connection, is_notified, is_indicated: self._subscribed(
                    connection, uuid, is_notified or is_indicated
                ),
            )
        self.characteristics[uuid] = characteristic
        return characteristic

    def _read(self, connection: Connection, uuid: str) -> bytes:
        session = self._session_of(connection)
        if session is None:
            raise ATT_Error(AttCode.UNLIKELY.value)
        return self._answer(lambda: self._peer.read(session, uuid))

    def _write(self, connection: Connection, uuid: str, data: bytes) -> None:
        session = self._session_of(connection)
        if session is None:
            raise ATT_Error(AttCode.UNLIKELY.value)
        if not self._faults.is_mute:
            self._answer(lambda: self._peer.write(session, uuid, bytes(data)))

    def _subscribed(self, connection: Connection, uuid: str, is_on: bool) -> None:
        session = self._session_of(connection)
        if session is not None:
            session.set_subscribed(uuid, is_on)
            self._peer.subscribed(session, uuid, is_on)

    def _answer(self, handler: Callable[[], T]) -> T:
        try:
            return handler()
        except AttRefusedError as err:
            raise ATT_Error(err.code.value) from err
        except Exception as err:
            log.exception("emulator failed", mower=self._peer.address)
            raise ATT_Error(AttCode.UNLIKELY.value) from err
