"""How the emulated mower answers, byte for byte as the captures have it; written without the library that the box uses.
Pure: bytes of one central in, answers out."""

from __future__ import annotations

from dataclasses import dataclass, field

from integrations.grouw_ble.emulated_machine import Machine
from integrations.grouw_ble.wire import ANSWER_END, PREFIX

REQUEST_BYTES = 24
REQUEST_END = bytes.fromhex("160601ff0a")
STATUS, ORDER, SESSION, PIN, CHANGE_PIN = 0x00, 0x01, 0x02, 0x0C, 0x06
READ_SETTINGS, WRITE_SETTINGS, READ_AREAS, WRITE_AREAS = 0x19, 0x09, 0x1D, 0x0D
READ_TIMES, WRITE_STARTS, WRITE_DURATIONS = 0x14, 0x04, 0x05
_ANSWER = 0x80
_DATA = 15


@dataclass(slots=True, kw_only=True)
class Memory:
    """What the mower keeps; the same for all centrals."""

    pin: str = field(default="1234", repr=False)
    settings: bytes = bytes((0, 1, 0, 0, 2, 30))
    areas: bytes = bytes((20, 0, 3, 5, 0, 0, 0, 0))
    starts: bytes = bytes((9,) * 7 + (0,) * 7)
    durations: bytes = bytes((6,) * 7 + (0,) * 7)
    local_time: tuple[int, ...] = ()
    """Year, month, day, hour, minute: as the last session set it."""
    beeps: int = 0


@dataclass(slots=True, kw_only=True)
class Responder:
    """One central's stream of requests."""

    machine: Machine
    memory: Memory
    heard: list[tuple[int, bytes]] = field(default_factory=list)
    """Requests in their order: number and data."""
    has_session: bool = False
    overriding: dict[int, bytes] = field(default_factory=dict)
    """Request -> the data with which it is answered instead."""
    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[bytes]:
        """The answers to the requests that `data` completes; none to what is malformed."""
        self._buffer += data
        answers: list[bytes] = []
        while len(self._buffer) >= REQUEST_BYTES:
            at = self._buffer.find(PREFIX)
            if at != 0:
                del self._buffer[: at if at > 0 else len(self._buffer)]
                continue
            request = bytes(self._buffer[:REQUEST_BYTES])
            if not request.endswith(REQUEST_END):
                del self._buffer[:1]
                continue
            del self._buffer[:REQUEST_BYTES]
            answers += self._answer(request[3], request[4 : 4 + _DATA])
        return answers

    def _answer(self, number: int, data: bytes) -> list[bytes]:
        self.heard.append((number, data))
        if number in self.overriding:
            return [_frame(number, self.overriding[number])]
        memory = self.memory
        match number:
            case 0x00:
                return [_frame(STATUS, self._status())]
            case 0x01:
                self.machine.order(data[0])
            case 0x02:
                memory.beeps += 2
                memory.local_time = (data[0] * 100 + data[1], *data[2:6])
                self.has_session = True
            case 0x0C if self.has_session or not self.machine.traits.needs_session:
                return [_frame(PIN, bytes(int(digit) for digit in memory.pin))]
            case 0x06:
                return [self._change_pin(data)]
            case _:
                return self._answer_setting(number, data)
        return []

    def _answer_setting(self, number: int, data: bytes) -> list[bytes]:
        memory = self.memory
        match number:
            case 0x19:
                return [_frame(WRITE_SETTINGS, memory.settings)]
            case 0x09:
                memory.settings = data[:6]
            case 0x1D:
                return [_frame(WRITE_AREAS, memory.areas)]
            case 0x0D:
                memory.areas = data[:8]
            case 0x14:
                return [_frame(WRITE_STARTS, memory.starts), _frame(WRITE_DURATIONS, memory.durations)]
            case 0x04:
                memory.starts = data[:14]
            case 0x05:
                memory.durations = data[:14]
            case _:
                pass
        return []

    def _status(self) -> bytes:
        machine = self.machine
        known = bytes((round(machine.battery), 0x32, 0x1B, machine.station, 0, 4, 0, 1, machine.mode))
        return known + bytes.fromhex("4441")

    def _change_pin(self, data: bytes) -> bytes:
        old, new = data[:4], data[4:8]
        is_right = old == bytes(int(digit) for digit in self.memory.pin) and all(digit <= 9 for digit in new)
        if is_right:
            self.memory.pin = "".join(str(digit) for digit in new)
        return _frame(CHANGE_PIN, b"" if is_right else b"\x01")


def _frame(number: int, data: bytes) -> bytes:
    return PREFIX + bytes([_ANSWER | number]) + data.ljust(_DATA, b"\x00") + ANSWER_END
