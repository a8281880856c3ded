"""The emulated mower on the air: the serial bridge of its Bluetooth module around a `SunrayBrain`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.platform.emulation import (
    AttCode,
    AttRefusedError,
    EmulatedAdvertising,
    EmulatedCharacteristic,
    EmulatedPairing,
    EmulatedPeer,
    EmulatedService,
    MowerSession,
    Property,
    Security,
)
from integrations.ardumower.ble_line import CHARACTERISTIC, SERVICE
from integrations.ardumower.responder import SunrayBrain

_LINE_BYTES = 500


@dataclass(slots=True, kw_only=True)
class BridgeFaults:
    """What goes wrong between mower and radio."""

    packet_bytes: int = 15
    """Of a notification: 15 on the ESP32, 20 on other bridges."""
    lose_packets: int = 0
    """So many of the next notifications are lost."""
    double_packets: int = 0
    garble_packets: int = 0
    says_unasked: bool = False
    """Before each reply comes one that nobody has asked for, in the same notification."""
    drop_after_packets: int | None = None
    """Ends the connection once so many more notifications were sent."""
    drop_on_request: str | None = None
    """Ends the connection instead of answering a request that begins like this (deciphered, after obeying it)."""


class SunrayPeer(EmulatedPeer):
    """One mower with a Bluetooth module. The bridge keeps the line that is coming in, as real ones do."""

    mtu = 23

    def __init__(
        self, address: str, brain: SunrayBrain, name: str = "Ardumower", *, passkey: int | None = None
    ) -> None:
        super().__init__(address)
        self.passkey = passkey
        """Fixed in the bridge, which then talks over a bond made with it only; None: no bond is needed."""
        self.brain = brain
        self.name = name
        self.faults = BridgeFaults()
        self._line = bytearray()
        self._session: MowerSession | None = None

    @property
    def services(self) -> tuple[EmulatedService, ...]:
        properties: frozenset[Property] = frozenset({"read", "write", "write-without-response", "notify"})
        security: Security = "open" if self.passkey is None else "authenticated"
        bridge = EmulatedCharacteristic(uuid=CHARACTERISTIC, properties=properties, security=security)
        return (EmulatedService(uuid=SERVICE, characteristics=(bridge,)),)

    def advertising(self) -> EmulatedAdvertising:
        return EmulatedAdvertising(name=self.name, service_uuids=(SERVICE,))

    def pairing(self) -> EmulatedPairing:
        return EmulatedPairing(passkey=self.passkey)

    def opened(self, session: MowerSession) -> None:
        self._session = session
        self._line.clear()

    def closed(self, session: MowerSession) -> None:
        if self._session is session:
            self._session = None

    def rebooted(self) -> None:
        self.brain.reboot()
        self._line.clear()
        self._session = None

    def read(self, session: MowerSession, characteristic: str) -> bytes:  # noqa: ARG002  (the port names them)
        return b""

    def write(self, session: MowerSession, characteristic: str, data: bytes) -> None:
        if characteristic != CHARACTERISTIC:
            raise AttRefusedError(AttCode.WRITE_NOT_PERMITTED)
        for byte in data:
            if byte in b"\r\n":
                line, self._line = bytes(self._line), bytearray()
                if line:
                    self._hear(session, line)
            elif len(self._line) < _LINE_BYTES:
                self._line.append(byte)

    def _hear(self, session: MowerSession, line: bytes) -> None:
        host = self.host
        if host is None:
            return
        count = len(self.brain.heard)
        reply = self.brain.hear(line, host.now())
        begins = self.faults.drop_on_request
        if begins is not None and any(body.startswith(begins) for body in self.brain.heard[count:]):
            session.disconnect()
            return
        if reply is None:
            return
        send: Callable[[], None] = lambda: self._notify(session, reply)  # noqa: E731
        if self.brain.faults.reply_delay_s > 0:
            host.later(self.brain.faults.reply_delay_s, send)
        else:
            send()

    def _notify(self, session: MowerSession, reply: bytes) -> None:
        faults = self.faults
        size = min(faults.packet_bytes, session.mtu - 3)
        if faults.says_unasked:
            reply, size = b"X,1,0xb5\r\n" + reply, session.mtu - 3
        for at in range(0, len(reply), size):
            if not session.is_open:
                return
            if faults.drop_after_packets is not None:
                if faults.drop_after_packets <= 0:
                    faults.drop_after_packets = None
                    session.disconnect()
                    return
                faults.drop_after_packets -= 1
            if faults.lose_packets > 0:
                faults.lose_packets -= 1
                continue
            packet = reply[at : at + size]
            if faults.garble_packets > 0:
                faults.garble_packets -= 1
                packet = packet[:-1] + bytes([packet[-1] ^ 0x15])
            session.notify(CHARACTERISTIC, packet)
            if faults.double_packets > 0:
                faults.double_packets -= 1
                session.notify(CHARACTERISTIC, packet)
