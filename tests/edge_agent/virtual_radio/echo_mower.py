"""A mower that says back what it is told, for tests of the radio and of the Bluetooth service."""

from __future__ import annotations

from core.platform.emulation import (
    AttCode,
    AttRefusedError,
    EmulatedAdvertising,
    EmulatedCharacteristic,
    EmulatedPairing,
    EmulatedPeer,
    EmulatedService,
    MowerSession,
    Security,
)

ADDRESS = "C0:00:00:00:00:01"
SERVICE = "98bd0001-0b0e-421a-84e5-ddbf75dc6de4"
COMMAND = "98bd0002-0b0e-421a-84e5-ddbf75dc6de4"
ANSWER = "98bd0003-0b0e-421a-84e5-ddbf75dc6de4"
NAME = "98bd0004-0b0e-421a-84e5-ddbf75dc6de4"
COMPANY = 0x0426


class EchoMower(EmulatedPeer):
    """Writes to COMMAND come back on ANSWER, in pieces of `piece` bytes."""

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        security: Security = "open",
        passkey: int | None = None,
        is_secure_connections: bool = True,
        piece: int = 20,
        interval_ms: int = 20,
    ) -> None:
        super().__init__(address)
        self.security: Security = security
        self.policy = EmulatedPairing(passkey=passkey, is_secure_connections=is_secure_connections)
        self.piece = piece
        self.interval_ms = interval_ms
        self.written: list[bytes] = []
        self.events: list[str] = []
        self.sessions: list[MowerSession] = []

    @property
    def services(self) -> tuple[EmulatedService, ...]:
        return (
            EmulatedService(
                uuid=SERVICE,
                characteristics=(
                    EmulatedCharacteristic(
                        uuid=COMMAND,
                        properties=frozenset({"write", "write-without-response"}),
                        security=self.security,
                    ),
                    EmulatedCharacteristic(
                        uuid=ANSWER, properties=frozenset({"read", "notify"}), security=self.security
                    ),
                    EmulatedCharacteristic(uuid=NAME, properties=frozenset({"read"})),
                ),
            ),
        )

    def advertising(self) -> EmulatedAdvertising:
        return EmulatedAdvertising(
            name="Echo",
            service_uuids=(SERVICE,),
            manufacturer_data={COMPANY: b"\x01\x02"},
            interval_ms=self.interval_ms,
        )

    def pairing(self) -> EmulatedPairing:
        return self.policy

    def opened(self, session: MowerSession) -> None:
        self.events.append("opened")
        self.sessions.append(session)

    def closed(self, session: MowerSession) -> None:
        self.events.append("closed")
        self.sessions.remove(session)

    def read(self, session: MowerSession, characteristic: str) -> bytes:
        return b"Echo" if characteristic == NAME else (self.written[-1] if self.written else b"")

    def write(self, session: MowerSession, characteristic: str, data: bytes) -> None:
        if data == b"refuse":
            raise AttRefusedError(AttCode.APPLICATION)
        if data == b"bug":
            raise RuntimeError("a bug of the emulator")
        self.written.append(data)
        for start in range(0, len(data), self.piece):
            session.notify(ANSWER, data[start : start + self.piece])

    def rebooted(self) -> None:
        self.events.append("rebooted")
