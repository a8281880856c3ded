"""An emulated Husqvarna mower as a Bluetooth peer, with faults on demand.

    mower = HusqvarnaPeer("C4:64:E3:00:00:01")          # put it on a virtual radio
    mower.faults.lost_notifications = 1                 # and let something go wrong
    mower.machine.fail(9)                               # or let it get into trouble

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
    Undo,
)
from integrations.husqvarna_ble import wire
from integrations.husqvarna_ble.advertised import COMPANY, MOWER_GROUP, Advertised, write_advertised
from integrations.husqvarna_ble.emulated_machine import Machine, Traits
from integrations.husqvarna_ble.frames import NOTIFY_BYTES, pieces
from integrations.husqvarna_ble.responder import Answered, Lock, Responder
from integrations.husqvarna_ble.wire import Operation

IDLE_S = 60.0
"""A central that has said nothing for this long is dropped."""
ADDRESS = "C4:64:E3:23:04:12"


@dataclass(slots=True, kw_only=True)
class Faults:
    """What goes wrong. Counters count down, the rest stays until it is changed."""

    not_pairable: bool = False
    loses_login: int = 0
    """Before so many of the next frames the mower forgets that the operator has signed in."""
    lost_answers: int = 0
    lost_notifications: int = 0
    doubled_notifications: int = 0
    garbled_notifications: int = 0
    merges_notifications: bool = False
    """An event and the answer come in pieces of the wrong size, run together."""
    drops_mid_frame: int = 0
    """The connection ends after the first piece of an answer."""
    drops_on_write: int = 0
    lost_start_answers: int = 0
    """So many starts are obeyed, and their answer is lost."""
    drops_on_start: int = 0
    """The connection ends with a start, which is obeyed."""
    delay_s: float = 0.0
    """Of each answer."""
    piece_bytes: int = 0
    """Answers come in pieces of this size; 0 is the usual one."""
    is_silent: bool = False
    """Nothing is heard, and nothing is answered."""


class HusqvarnaPeer(EmulatedPeer):
    """One mower on the air. `machine` and `lock` may be used by tests at any time, after `catch_up`."""

    mtu = 65

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        pin: int = 1234,
        traits: Traits | None = None,
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(address)
        self.machine = Machine(traits)
        self.lock = Lock(pin=pin)
        self.faults = Faults()
        self.time_scale = time_scale
        self.is_pairing_mode = True
        self.responders: dict[MowerSession, Responder] = {}
        self.heard: list[Operation] = []
        """Everything that was asked or ordered over all connections."""
        self.answers: dict[Operation, Answered] = {}
        """Answers that take the place of the machine's, on connections that are made from now on too."""
        self._lived_until: float | None = None
        self._idle: dict[MowerSession, Undo] = {}

    # What the radio sees

    @property
    def services(self) -> tuple[EmulatedService, ...]:
        return (
            EmulatedService(
                uuid=wire.SERVICE,
                characteristics=(
                    EmulatedCharacteristic(
                        uuid=wire.REQUESTS, properties=frozenset({"write", "write-without-response"})
                    ),
                    EmulatedCharacteristic(
                        uuid=wire.RESPONSES, properties=frozenset({"read", "notify"}), security="encrypted"
                    ),
                    EmulatedCharacteristic(uuid=wire.PRODUCT, properties=frozenset({"read"})),
                ),
            ),
        )

    def advertising(self) -> EmulatedAdvertising:
        traits = self.machine.traits
        said = Advertised(serial=traits.serial, is_pairable=self._is_pairable, group=MOWER_GROUP, model=traits.model)
        return EmulatedAdvertising(
            name=traits.name,
            service_uuids=(wire.SERVICE,),
            manufacturer_data={COMPANY: write_advertised(said)},
            is_manufacturer_data_in_scan_response=True,
        )

    @property
    def _is_pairable(self) -> bool:
        return self.is_pairing_mode and not self.faults.not_pairable

    def pairing(self) -> EmulatedPairing:
        return EmulatedPairing(is_open=self._is_pairable)

    # Centrals

    def opened(self, session: MowerSession) -> None:
        self.responders[session] = responder = Responder(self.machine, self.lock)
        responder.answers = self.answers
        self._expect_life(session)

    def closed(self, session: MowerSession) -> None:
        self.responders.pop(session, None)
        undo = self._idle.pop(session, None)
        if undo is not None:
            undo()

    def _expect_life(self, session: MowerSession) -> None:
        """Drops the central when nothing follows."""
        undo = self._idle.pop(session, None)
        if undo is not None:
            undo()
        if self.host is not None:
            self._idle[session] = self.host.later(IDLE_S, lambda: session.disconnect(CONNECTION_TIMEOUT))

    def read(self, session: MowerSession, characteristic: str) -> bytes:  # noqa: ARG002  (the port names it)
        if characteristic == wire.PRODUCT:
            return b"Automower".ljust(20, b"\x00")
        if characteristic == wire.RESPONSES:
            return b""
        raise AttRefusedError(AttCode.READ_NOT_PERMITTED)

    def write(self, session: MowerSession, characteristic: str, data: bytes) -> None:
        if characteristic != wire.REQUESTS:
            raise AttRefusedError(AttCode.WRITE_NOT_PERMITTED)
        responder = self.responders.get(session)
        if responder is None:
            return
        self._expect_life(session)
        if self.faults.is_silent:
            return
        if _take(self.faults, "drops_on_write"):
            session.disconnect(CONNECTION_TIMEOUT)
            return
        self.catch_up()
        if responder.is_logged_in and _take(self.faults, "loses_login"):
            responder.is_logged_in = False
        replies = responder.feed(data)
        is_start = Operation.START_TRIGGER in responder.heard
        self.heard += responder.heard
        responder.heard.clear()
        if is_start and _take(self.faults, "drops_on_start"):
            session.disconnect(CONNECTION_TIMEOUT)
            return
        if is_start and _take(self.faults, "lost_start_answers"):
            return
        for reply in replies:
            self._answer(session, responder, reply)

    # Answers, and what happens to them

    def _answer(self, session: MowerSession, responder: Responder, reply: bytes) -> None:
        if _take(self.faults, "lost_answers"):
            return
        if self.faults.delay_s > 0.0 and self.host is not None:
            self.host.later(self.faults.delay_s, lambda: self._send(session, responder, reply))
        else:
            self._send(session, responder, reply)

    def _send(self, session: MowerSession, responder: Responder, reply: bytes) -> None:
        if not session.is_open:
            return
        size = self.faults.piece_bytes or NOTIFY_BYTES
        if self.faults.merges_notifications:
            reply = responder.event(Operation.GET_STATE, bytes([self.machine.state & 0xFF])) + reply
            size = max(NOTIFY_BYTES, session.mtu - 3)
        parts = list(pieces(reply, size))
        if _take(self.faults, "drops_mid_frame"):
            session.notify(wire.RESPONSES, parts[0][: len(reply) // 2])
            session.disconnect(CONNECTION_TIMEOUT)
            return
        for part in parts:
            self._notify(session, part)

    def _notify(self, session: MowerSession, part: bytes) -> None:
        if _take(self.faults, "lost_notifications"):
            return
        if _take(self.faults, "garbled_notifications"):
            part = part[:-1] + bytes([part[-1] ^ 0x55])
        session.notify(wire.RESPONSES, part)
        if _take(self.faults, "doubled_notifications"):
            session.notify(wire.RESPONSES, part)

    # Time

    def catch_up(self) -> None:
        """Lets the machine live up to the host's now."""
        now = self.host.now() if self.host is not None else 0.0
        if self._lived_until is not None:
            lived_s = max(0.0, now - self._lived_until) * self.time_scale
            self.machine.advance(lived_s)
            self.lock.advance(lived_s)
        self._lived_until = now

    def rebooted(self) -> None:
        """It comes back where it stood, without any PIN entered, and pairs for a while again."""
        self.responders.clear()
        if self.machine.is_moving:
            self.machine.pause()
        self.is_pairing_mode = True


def _take(faults: Faults, name: str) -> bool:
    """Whether this fault is due now; counts it down."""
    left = getattr(faults, name)
    if left <= 0:
        return False
    setattr(faults, name, left - 1)
    return True
