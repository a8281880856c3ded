"""The mower's side of the protocol, for the emulator: bytes of one central in, bytes of answers out. Pure.

As on real mowers: one channel per central, PIN before anything but looking who it is, a start that answers 1 although it
works, and a lock after several wrong PINs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from integrations.husqvarna_ble import frames, wire
from integrations.husqvarna_ble.emulated_machine import Machine
from integrations.husqvarna_ble.wire import Operation, OverrideAction, Result

Answered = tuple[int, bytes]
Handler = Callable[["Responder", bytes], Answered]

TRIES = 5
BLOCKED_S = 300.0


@dataclass(slots=True, kw_only=True)
class Lock:
    """The PIN and what wrong ones have led to; one for the mower, over all connections."""

    pin: int = field(default=1234, repr=False)
    wrong: int = 0
    blocked_s: float = 0.0
    """Left of the time in which no PIN is taken."""

    def try_pin(self, pin: int) -> Result:
        if self.blocked_s > 0.0:
            return Result.MOWER_BLOCKED
        if pin == self.pin:
            self.wrong = 0
            return Result.OK
        self.wrong += 1
        if self.wrong >= TRIES:
            self.wrong, self.blocked_s = 0, BLOCKED_S
            return Result.MOWER_BLOCKED
        return Result.UNKNOWN_ERROR  # what real mowers say

    def advance(self, seconds: float) -> None:
        self.blocked_s = max(0.0, self.blocked_s - seconds)


class Responder:
    """One connected central."""

    def __init__(self, machine: Machine, lock: Lock) -> None:
        self.machine = machine
        self.lock = lock
        self.channel: int | None = None
        self.is_open = False
        self.is_logged_in = False
        self.heard: list[Operation] = []
        """Everything that was asked or ordered, oldest first; for tests."""
        self.answers: dict[Operation, Answered] = {}
        """Answers that take the place of the machine's, for faults on demand."""
        self._reader = frames.FrameReader()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that answer what `data` completes; what is not understood gets silence."""
        replies = (self._reply(frame) for frame in self._reader.feed(data))
        return [frames.encode(reply) for reply in replies if reply is not None]

    def event(self, operation: Operation, rest: bytes = b"") -> bytes:
        """The frame of something said unasked."""
        said = frames.Event(channel=self.channel or 0, group=operation.group, number=operation.number, rest=rest)
        return frames.encode(said)

    def _reply(self, frame: frames.Frame) -> frames.Frame | None:
        match frame:
            case frames.SetupRequest(channel=channel):
                self.channel, self.is_open, self.is_logged_in = channel, False, False
                return frames.SetupReply(channel=channel)
            case frames.HandshakeRequest(channel=channel) if channel == self.channel:
                self.is_open = True
                return frames.HandshakeReply(channel=channel)
            case frames.Request(channel=channel) if self.is_open and channel == self.channel:
                result, payload = self._answer(frame)
                return frames.Response(
                    channel=channel, group=frame.group, number=frame.number, result=result, payload=payload
                )
            case _:
                return None

    def _answer(self, request: frames.Request) -> Answered:
        operation = wire.OPERATIONS.get((request.group, request.number))
        if operation is None:
            return Result.INVALID_ID, b""
        self.heard.append(operation)
        if operation in self.answers:
            return self.answers[operation]
        if operation not in _WITHOUT_PIN and not self.is_logged_in:
            return Result.NOT_ALLOWED, b""
        handler = _HANDLERS.get(operation)
        if handler is None:
            return Result.NOT_AVAILABLE, b""
        try:
            return handler(self, request.payload)
        except wire.MalformedAnswerError:
            return Result.INVALID_VALUE, b""

    def enter_pin(self, payload: bytes) -> Answered:
        result = self.lock.try_pin(wire.read_u16(payload))
        self.is_logged_in = result is Result.OK
        return result, b""

    def log_out(self) -> Answered:
        self.is_logged_in = False
        return Result.OK, b""

    def task(self, payload: bytes) -> Answered:
        number = wire.read_u32(payload)
        if number >= len(self.machine.tasks):
            return Result.INVALID_ID, b""
        return Result.OK, wire.write_task(self.machine.tasks[number])

    def message(self, payload: bytes) -> Answered:
        number = wire.read_u32(payload)
        if number >= len(self.machine.messages):
            return Result.INVALID_ID, b""
        return Result.OK, wire.write_message(self.machine.messages[number])

    def trigger(self) -> Answered:
        result = self.machine.trigger()
        return (Result.UNKNOWN_ERROR if result is Result.OK else result), b""


_WITHOUT_PIN = frozenset(
    {
        Operation.ENTER_OPERATOR_PIN,
        Operation.IS_OPERATOR_LOGGED_IN,
        Operation.GET_LOGIN_LEVEL,
        Operation.IS_BLOCKED,
        Operation.GET_BLOCKED_TIME,
        Operation.KEEP_ALIVE,
        Operation.GET_MODEL,
        Operation.GET_SERIAL_NUMBER,
        Operation.GET_NAME,
        Operation.GET_SOFTWARE_VERSION,
    }
)


def _u8(look: Callable[[Machine], int]) -> Handler:
    return lambda responder, _: (Result.OK, wire.write_u8(int(look(responder.machine)) & 0xFF))


def _u32(look: Callable[[Machine], int]) -> Handler:
    return lambda responder, _: (Result.OK, wire.write_u32(int(look(responder.machine)) & 0xFFFFFFFF))


def _order(act: Callable[[Machine, bytes], Result]) -> Handler:
    return lambda responder, payload: (act(responder.machine, payload), b"")


def _override(action: OverrideAction) -> Handler:
    return _order(lambda machine, payload: machine.set_override(action, wire.read_u32(payload)))


def _set_clock(machine: Machine, payload: bytes) -> Result:
    machine.clock = float(wire.read_u32(payload))
    return Result.OK


_HANDLERS: dict[Operation, Handler] = {
    Operation.GET_BATTERY_LEVEL: _u8(lambda m: round(m.battery)),
    Operation.IS_CHARGING: _u8(lambda m: m.is_charging),
    Operation.GET_REMAINING_CHARGING_TIME: _u32(lambda m: m.remaining_charge_s),
    Operation.GET_CUTTING_HEIGHT: _u8(lambda m: m.cutting_height),
    Operation.SET_CUTTING_HEIGHT: _order(lambda m, payload: m.set_cutting_height(wire.read_u8(payload))),
    Operation.SET_MODE: _order(lambda m, payload: m.set_mode(wire.read_u8(payload))),
    Operation.GET_MODE: _u8(lambda m: m.mode),
    Operation.GET_STATE: _u8(lambda m: m.state),
    Operation.GET_ACTIVITY: _u8(lambda m: m.activity),
    Operation.START_TRIGGER: lambda responder, _: responder.trigger(),
    Operation.PAUSE: _order(lambda m, _: m.pause()),
    Operation.GET_ERROR: _u32(lambda m: m.error),
    Operation.GET_RESTRICTION_REASON: _u8(lambda m: m.restriction),
    Operation.GET_NEXT_START_TIME: _u32(lambda m: m.next_start),
    Operation.GET_OVERRIDE: lambda responder, _: (Result.OK, wire.write_override(responder.machine.override)),
    Operation.SET_OVERRIDE_MOW: _override(OverrideAction.FORCEDMOW),
    Operation.SET_OVERRIDE_PARK: _override(OverrideAction.FORCEDPARK),
    Operation.SET_OVERRIDE_PARK_UNTIL_NEXT_START: _order(lambda m, _: m.set_override(OverrideAction.FORCEDPARK, 0)),
    Operation.CLEAR_OVERRIDE: _order(lambda m, _: m.clear_override()),
    Operation.GET_LOGIN_LEVEL: lambda responder, _: (Result.OK, wire.write_u8(int(responder.is_logged_in))),
    Operation.IS_BLOCKED: lambda responder, _: (Result.OK, wire.write_u8(int(responder.lock.blocked_s > 0.0))),
    Operation.GET_BLOCKED_TIME: lambda responder, _: (Result.OK, wire.write_u32(round(responder.lock.blocked_s))),
    Operation.IS_OPERATOR_LOGGED_IN: lambda responder, _: (Result.OK, wire.write_u8(int(responder.is_logged_in))),
    Operation.ENTER_OPERATOR_PIN: Responder.enter_pin,
    Operation.LOG_OUT: lambda responder, _: responder.log_out(),
    Operation.KEEP_ALIVE: lambda _, __: (Result.OK, b""),
    Operation.GET_TIME: _u32(lambda m: int(m.clock)),
    Operation.SET_TIME: _order(_set_clock),
    Operation.GET_NUMBER_OF_TASKS: _u32(lambda m: len(m.tasks)),
    Operation.GET_TASK: Responder.task,
    Operation.GET_NAME: lambda responder, _: (Result.OK, responder.machine.traits.name.encode() + b"\x00"),
    Operation.GET_MODEL: lambda responder, _: (
        Result.OK,
        bytes([responder.machine.traits.model.device_type, responder.machine.traits.model.variant]),
    ),
    Operation.GET_SERIAL_NUMBER: _u32(lambda m: m.traits.serial),
    Operation.GET_SOFTWARE_VERSION: lambda responder, _: (Result.OK, responder.machine.traits.firmware.encode()),
    Operation.GET_ALL_STATISTICS: lambda responder, _: (
        Result.OK,
        wire.write_statistics(responder.machine.statistics),
    ),
    Operation.RESET_BLADE_TIME: _order(lambda m, _: m.reset_blades()),
    Operation.GET_NUMBER_OF_MESSAGES: _u32(lambda m: len(m.messages)),
    Operation.GET_MESSAGE: Responder.message,
}
