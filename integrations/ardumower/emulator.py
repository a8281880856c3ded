"""The emulated mower on the air: the serial bridge of its Bluetooth module around a `SunrayBrain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from core.domain.errors import InvalidInputError
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
from integrations.ardumower.responder import DEFAULT_PASSWORD, SunrayBrain

_LINE_BYTES = 500
PASSWORD_MIN = 1
"""0 would leave the firmware looking for a challenge for ever."""


@dataclass(slots=True, kw_only=True)
class BridgeFaults:
    """What goes wrong between mower and radio."""

    packet_bytes: int = 15
    """Of a notification: 15 on the ESP32, 20 on other bridges."""
    lose_packets: int = 0
    """So many of the next notifications are lost."""
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
            session.notify(CHARACTERISTIC, reply[at : at + size])


def make_emulated_peer(address: str, options: Mapping[str, str]) -> SunrayPeer:
    """For `mowdeck emulate ardumower`. Options: `name`, `password` (a number, or empty for none), `time_scale`,
    `robot_id`, `passkey` (six digits). InvalidInputError names the one that is wrong."""
    unknown = set(options) - {"name", "password", "time_scale", "robot_id", "passkey"}
    if unknown:
        raise InvalidInputError.of(min(unknown), "is no option of this emulator")
    password: int | None = DEFAULT_PASSWORD
    time_scale = 1.0
    try:
        if "password" in options:
            password = int(options["password"]) if options["password"] else None
    except ValueError as err:
        raise InvalidInputError.of("password", "must be a number, or empty") from err
    try:
        time_scale = float(options.get("time_scale", 1.0))
    except ValueError as err:
        raise InvalidInputError.of("time_scale", "must be a number") from err
    if not 0.1 <= time_scale <= 1000:
        raise InvalidInputError.of("time_scale", "must be between 0.1 and 1000")
    if password is not None and not PASSWORD_MIN <= password < 2**31:
        raise InvalidInputError.of("password", f"must be between {PASSWORD_MIN} and {2**31 - 1}")
    passkey = options.get("passkey")
    if passkey is not None and not (len(passkey) == 6 and passkey.isascii() and passkey.isdigit()):
        raise InvalidInputError.of("passkey", "must be six digits")
    brain = SunrayBrain(password=password, time_scale=time_scale, robot_id=options.get("robot_id", address))
    name = options.get("name", "Ardumower")
    return SunrayPeer(address, brain, name, passkey=None if passkey is None else int(passkey))
