"""An emulated Grouw mower as a Bluetooth peer, with faults on demand.

    mower = GrouwPeer("F4:81:F4:00:00:01")              # put it on a virtual radio
    mower.faults.lost_answers = 1                       # and let something go wrong

Time is the host's: everything is worked out when somebody looks, `time_scale` machine seconds for each of the host's.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.platform.emulation import (
    CONNECTION_TIMEOUT,
    AttCode,
    AttRefusedError,
    EmulatedAdvertising,
    EmulatedCharacteristic,
    EmulatedPairing,
    EmulatedPeer,
    EmulatedService,
    MowerSession,
)
from integrations.grouw_ble import responder, wire
from integrations.grouw_ble.emulated_machine import Machine, Traits
from integrations.grouw_ble.responder import Memory, Responder

ADDRESS = "F4:81:F4:26:06:25"


@dataclass(slots=True, kw_only=True)
class Faults:
    """What goes wrong. Counters count down, the rest stays until it is changed."""

    lost_answers: int = 0
    doubled_answers: int = 0
    garbled_answers: int = 0
    lost_orders: int = 0
    """Written without any error, and never obeyed."""
    piece_bytes: int = 0
    """Answers come in pieces of this size, as over a small MTU; 0 is whole."""
    joins_answers: bool = False
    """Something unknown and the answer come as one."""
    drops_mid_answer: int = 0
    """The connection ends within an answer."""
    drops_on_write: int = 0
    """The connection ends with the write, which is not obeyed."""
    drops_on_order: int = 0
    """The same, for orders only; they are obeyed."""
    delay_s: float = 0.0
    """Of each answer."""
    lost_pieces: int = 0
    is_silent: bool = False
    """Nothing is heard, and nothing is answered."""


class GrouwPeer(EmulatedPeer):
    """One mower on the air. `machine` and `memory` may be used by tests at any time, after `catch_up`."""

    mtu = 247

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        pin: str = "1234",
        traits: Traits | None = None,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(address)
        self.machine = Machine(traits)
        self.memory = Memory(pin=pin)
        self.faults = Faults()
        self.time_scale = time_scale
        self.responders: dict[MowerSession, Responder] = {}
        self.overriding: dict[int, bytes] = {}
        """Request -> the data with which it is answered instead, whoever asks."""
        self.heard: list[tuple[int, bytes]] = []
        """All requests over all connections: number and data."""
        self._lived_until: float | None = None

    def orders(self) -> list[int]:
        """The orders that were heard."""
        return [data[0] for number, data in self.heard if number == responder.ORDER]

    def count(self, number: int) -> int:
        """How often a request was heard."""
        return sum(heard == number for heard, _ in self.heard)

    # What the radio sees

    @property
    def services(self) -> tuple[EmulatedService, ...]:
        control = EmulatedCharacteristic(
            uuid=wire.CONTROL, properties=frozenset({"write", "write-without-response", "notify"})
        )
        return (EmulatedService(uuid=wire.SERVICE, characteristics=(control,)),)

    def advertising(self) -> EmulatedAdvertising:
        return EmulatedAdvertising(
            name=self.machine.traits.name, service_uuids=(wire.SERVICE,), is_name_in_scan_response=True
        )

    def pairing(self) -> EmulatedPairing:
        return EmulatedPairing(is_open=False)

    # Centrals

    def opened(self, session: MowerSession) -> None:
        self.responders[session] = Responder(machine=self.machine, memory=self.memory, overriding=self.overriding)

    def closed(self, session: MowerSession) -> None:
        self.responders.pop(session, None)

    def write(self, session: MowerSession, characteristic: str, data: bytes) -> None:
        if characteristic != wire.CONTROL:
            raise AttRefusedError(AttCode.WRITE_NOT_PERMITTED)
        central = self.responders.get(session)
        if central is None or self.faults.is_silent:
            return
        if _take(self.faults, "drops_on_write"):
            session.disconnect(CONNECTION_TIMEOUT)
            return
        self.catch_up()
        is_order = data[3:4] == bytes([responder.ORDER])
        if is_order and _take(self.faults, "lost_orders"):
            return
        answers = central.feed(data)
        self.heard += central.heard
        central.heard.clear()
        for answer in answers:
            self._answer(session, answer)
        if is_order and _take(self.faults, "drops_on_order"):
            session.disconnect(CONNECTION_TIMEOUT)

    # Answers, and what happens to them

    def _answer(self, session: MowerSession, answer: bytes) -> None:
        if _take(self.faults, "lost_answers"):
            return
        if self.faults.delay_s > 0.0 and self.host is not None:
            self.host.later(self.faults.delay_s, lambda: self._send(session, answer))
        else:
            self._send(session, answer)

    def _send(self, session: MowerSession, answer: bytes) -> None:
        if not session.is_open:
            return
        if _take(self.faults, "garbled_answers"):
            answer = answer[:-1] + bytes([answer[-1] ^ 0x55])
        if _take(self.faults, "drops_mid_answer"):
            session.notify(wire.CONTROL, answer[: len(answer) // 2])
            session.disconnect(CONNECTION_TIMEOUT)
            return
        times = 2 if _take(self.faults, "doubled_answers") else 1
        if self.faults.joins_answers:
            answer = b"\r\n" + answer[:3] + b"\x99" + bytes(15) + wire.ANSWER_END + answer
        for _ in range(times):
            self._notify(session, answer)

    def _notify(self, session: MowerSession, data: bytes) -> None:
        size = session.mtu - 3
        if self.faults.piece_bytes > 0:
            size = min(size, self.faults.piece_bytes)
        for at in range(0, len(data), size):
            if _take(self.faults, "lost_pieces"):
                continue
            session.notify(wire.CONTROL, data[at : at + size])

    # Time

    def catch_up(self) -> None:
        """Lets the machine live up to the host's now."""
        now = self.host.now() if self.host is not None else 0.0
        if self._lived_until is not None:
            self.machine.advance(max(0.0, now - self._lived_until) * self.time_scale)
        self._lived_until = now

    def rebooted(self) -> None:
        """It stands where it stood."""
        self.responders.clear()
        self.machine.stand()


def _take(faults: Faults, name: str) -> bool:
    """Whether this fault is due now; counts it down."""
    left = getattr(faults, name)
    if left <= 0:
        return False
    setattr(faults, name, left - 1)
    return True
