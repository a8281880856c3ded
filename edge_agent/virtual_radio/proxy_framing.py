"""The device's side of ESPHome's native API as frames: plain, or Noise with a pre-shared key. Sans I/O.

As the firmware does it: a device with a key answers a plain client with a Noise error, one without a key answers an
encrypting client with a plain one, and a wrong key is named.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from noise.connection import NoiseConnection

NOISE = b"Noise_NNpsk0_25519_ChaChaPoly_SHA256"
PROLOGUE = b"NoiseAPIInit\x00\x00"
WRONG_KEY = b"Handshake MAC failure"
BAD_INDICATOR = b"Bad indicator byte"
FRAME_MAX = 65_535

Message = tuple[int, bytes]
"""Number of the message's type, and its protobuf."""


class ProxyFraming:
    """One client. `feed` what came; write `take_output`; hang up when `is_over`."""

    def __init__(self, *, name: str, mac: str, key: bytes | None) -> None:
        self.is_over = False
        self._hello = b"\x01" + name.encode() + b"\0" + mac.replace(":", "").lower().encode() + b"\0"
        self._noise = None if key is None else _responder(key)
        self._is_greeted = False
        self._is_open = key is None
        self._buffer = b""
        self._output: list[bytes] = []

    def take_output(self) -> bytes:
        """What is to be written now."""
        output, self._output = b"".join(self._output), []
        return output

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete."""
        self._buffer += data
        found: list[Message] = []
        while self._buffer and not self.is_over:
            before = len(self._buffer)
            message = self._plain() if self._noise is None else self._encrypted(self._noise)
            if message is not None:
                found.append(message)
            if len(self._buffer) == before:
                break
        return found

    def put(self, message: Message) -> None:
        """Frames a message for the client."""
        kind, payload = message
        if self._noise is None:
            self._output.append(b"\0" + _varint(len(payload)) + _varint(kind) + payload)
        elif self._is_open:
            plain = kind.to_bytes(2, "big") + len(payload).to_bytes(2, "big") + payload
            self._put_frame(bytes(self._noise.encrypt(plain)))

    def _plain(self) -> Message | None:
        if self._buffer[0] != 0:
            self._output.append(b"\0" + BAD_INDICATOR)
            self.is_over = True
            return None
        size, at = _read_varint(self._buffer, 1)
        kind, at = _read_varint(self._buffer, at)
        if size is None or kind is None or len(self._buffer) < at + size:
            return None
        payload, self._buffer = self._buffer[at : at + size], self._buffer[at + size :]
        return kind, payload

    def _encrypted(self, noise: NoiseConnection) -> Message | None:
        if self._buffer[0] != 1:
            self._refuse(BAD_INDICATOR)
            return None
        size = int.from_bytes(self._buffer[1:3], "big")
        if len(self._buffer) < 3 + size:
            return None
        frame, self._buffer = self._buffer[3 : 3 + size], self._buffer[3 + size :]
        if self._is_open:
            plain = bytes(noise.decrypt(frame))
            return int.from_bytes(plain[:2], "big"), plain[4:]
        if not self._is_greeted:
            self._is_greeted = True
            self._put_frame(self._hello)
            return None
        try:
            noise.read_message(frame[1:])
        except InvalidTag:
            self._refuse(WRONG_KEY)
            return None
        self._put_frame(b"\0" + bytes(noise.write_message()))
        self._is_open = True
        return None

    def _refuse(self, why: bytes) -> None:
        self._put_frame(b"\x01" + why)
        self.is_over = True

    def _put_frame(self, frame: bytes) -> None:
        assert len(frame) <= FRAME_MAX
        self._output.append(b"\x01" + len(frame).to_bytes(2, "big") + frame)


def _responder(key: bytes) -> NoiseConnection:
    noise = NoiseConnection.from_name(NOISE)
    noise.set_as_responder()
    noise.set_psks(key)
    noise.set_prologue(PROLOGUE)
    noise.start_handshake()
    return noise


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, at: int | None) -> tuple[int | None, int]:
    """The number and where it ends; None when it is not all there yet."""
    number, shift, place = 0, 0, at or 0
    while place < len(data):
        number |= (data[place] & 0x7F) << shift
        shift += 7
        place += 1
        if not data[place - 1] & 0x80:
            return number, place
    return None, place
