"""Frames of the mower's serial protocol: bytes of one frame, and frames out of any stream of bytes. Pure.

    02 FD | length u16 | channel u32 | linked u8 | crc | body ... | crc | 03        (little-endian)

`length` is the total less 4. The first checksum covers bytes 1 to 8, the second all from byte 1 to itself. Facts:
captures of real mowers; the vectors are in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

STX = b"\x02\xfd"
ETX = 0x03
HEADER = 10
"""Bytes up to and with the first checksum."""
SHORTEST = 13
LONGEST = 0xFF + 4
WRITE_BYTES = 17
"""Bytes of one write to the mower."""
NOTIFY_BYTES = 20
"""Bytes of one notification of the mower."""
_LINK_MARK = 0xAF
_CLIENT_NAME = b"Main\x00"


def _table() -> tuple[int, ...]:
    """CRC-8 of each byte: polynomial 0x31, reflected (Maxim, Dallas)."""
    rows = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ 0x8C if value & 1 else value >> 1
        rows.append(value)
    return tuple(rows)


_CRC = _table()


def checksum(data: bytes) -> int:
    """CRC-8/MAXIM-DOW of the bytes."""
    value = 0
    for byte in data:
        value = _CRC[value ^ byte]
    return value


class Kind(IntEnum):
    """What a linked frame is."""

    REQUEST = 0
    RESPONSE = 1
    EVENT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupRequest:
    """The client wants a channel of its choice."""

    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupReply:
    """The mower has given it the channel."""

    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeRequest:
    """The client begins to use its channel."""

    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeReply:
    """The channel may be used."""

    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A question or an order: the operation `group.number` and its values."""

    channel: int
    group: int
    number: int
    payload: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The mower's answer. `result` 0 is well; others come without values."""

    channel: int
    group: int
    number: int
    result: int
    payload: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What the mower says unasked; `rest` is all after the numbers, its layout is not known."""

    channel: int
    group: int
    number: int
    rest: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A frame with right checksums that is none of the others."""

    raw: bytes


Frame = SetupRequest | SetupReply | HandshakeRequest | HandshakeReply | Request | Response | Event | Unknown


def encode(frame: Frame) -> bytes:
    """The bytes of a frame. ValueError when its values do not fit."""
    match frame:
        case SetupRequest(channel=channel):
            return _wrap(0, 0, b"\x14" + _u32(channel) + bytes(4) + _CLIENT_NAME)
        case SetupReply(channel=channel):
            return _wrap(0, 0, b"\x15" + _u32(channel))
        case HandshakeRequest(channel=channel):
            return _wrap(channel, 0, b"\x08\x01")
        case HandshakeReply(channel=channel):
            return _wrap(channel, 0, b"\x09\x01\x01")
        case Request():
            return _wrap(frame.channel, 1, _head(Kind.REQUEST, frame) + _u16(len(frame.payload)) + frame.payload)
        case Response():
            head = _head(Kind.RESPONSE, frame) + bytes([frame.result])
            return _wrap(frame.channel, 1, head + _u16(len(frame.payload)) + frame.payload)
        case Event():
            return _wrap(frame.channel, 1, _head(Kind.EVENT, frame) + frame.rest)
        case Unknown(raw=raw):
            return raw


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "little")


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _head(kind: Kind, frame: Request | Response | Event) -> bytes:
    return bytes([kind, _LINK_MARK]) + _u16(frame.group) + _u16(frame.number)


def _wrap(channel: int, linked: int, body: bytes) -> bytes:
    total = HEADER + len(body) + 2
    if total > LONGEST:
        raise ValueError(f"a frame of {total} bytes is too long")
    front = b"\xfd" + _u16(total - 4) + _u32(channel) + bytes([linked])
    inner = front + bytes([checksum(front)]) + body
    return b"\x02" + inner + bytes([checksum(inner), ETX])


def decode(data: bytes) -> Frame:
    """What one complete frame with right checksums (see `find`) says; Unknown for what is not understood."""
    channel = int.from_bytes(data[4:8], "little")
    body = data[HEADER:-2]
    if data[8] == 1:
        return _decode_linked(channel, body) or Unknown(raw=data)
    asked = int.from_bytes(body[1:5], "little")
    match body[0] if body else None:
        case 0x14 if len(body) == 14:
            return SetupRequest(channel=asked)
        case 0x15 if len(body) >= 5:
            return SetupReply(channel=asked)
        case 0x08:
            return HandshakeRequest(channel=channel)
        case 0x09:
            return HandshakeReply(channel=channel)
        case _:
            return Unknown(raw=data)


def _decode_linked(channel: int, body: bytes) -> Frame | None:
    if len(body) < 6 or body[1] != _LINK_MARK:
        return None
    kind, group, number = body[0], int.from_bytes(body[2:4], "little"), int.from_bytes(body[4:6], "little")
    if kind == Kind.REQUEST and _is_filled(body, 8):
        return Request(channel=channel, group=group, number=number, payload=body[8:])
    if kind == Kind.RESPONSE and _is_filled(body, 9):
        return Response(channel=channel, group=group, number=number, result=body[6], payload=body[9:])
    if kind == Kind.EVENT:
        return Event(channel=channel, group=group, number=number, rest=body[6:])
    return None


def _is_filled(body: bytes, start: int) -> bool:
    """Whether the values that begin at `start` are as long as the two bytes before say."""
    return len(body) >= start and len(body) - start == int.from_bytes(body[start - 2 : start], "little")


def find(buffer: bytes) -> tuple[int, int] | None:
    """Where the first complete frame with right checksums begins and ends, whatever stands before it."""
    start = buffer.find(STX)
    while start >= 0:
        end = _end_of(buffer, start)
        if end is not None:
            return start, end
        start = buffer.find(STX, start + 1)
    return None


def _end_of(buffer: bytes, start: int) -> int | None:
    """Where a frame that begins at `start` ends; None when there is none, or not all of it yet."""
    if len(buffer) < start + SHORTEST or buffer[start + 3] != 0:
        return None
    end = start + buffer[start + 2] + 4
    if end - start < SHORTEST or len(buffer) < end or buffer[end - 1] != ETX:
        return None
    if checksum(buffer[start + 1 : start + HEADER - 1]) != buffer[start + HEADER - 1]:
        return None
    return end if checksum(buffer[start + 1 : end - 2]) == buffer[end - 2] else None


class FrameReader:
    """Frames out of pieces of any size. Noise, and a frame of which a piece is missing, are passed over as soon as
    a whole frame follows, so that nothing that was heard once can hold it up."""

    def __init__(self) -> None:
        self._buffer = b""
        self.skipped = 0
        """Bytes that belonged to no frame."""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes."""
        found: list[Frame] = []
        self._buffer += data
        while (place := find(self._buffer)) is not None:
            start, end = place
            raw, self._buffer = self._buffer[start:end], self._buffer[end:]
            self.skipped += start
            found.append(decode(raw))
        surplus = len(self._buffer) - LONGEST
        if surplus > 0:
            self._buffer = self._buffer[surplus:]
            self.skipped += surplus
        return found

    def reset(self) -> None:
        """Forgets an incomplete frame."""
        self.skipped += len(self._buffer)
        self._buffer = b""


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The bytes in pieces of at most `size`."""
    for start in range(0, len(data), size):
        yield data[start : start + size]
