"""The Sunray AT protocol without I/O: lines, checksums and the shift that the firmware calls encryption.

A request is `AT+S,0x13` and CR LF, a reply `S,28.60,...,0x92` and CR LF: the last field is the sum of all bytes before
its comma, modulo 256. `AT+V` is always plain; its answer names a challenge, and from then on every other *request* has
its printable bytes shifted by `password % challenge`. Replies are always plain. A request with a wrong checksum or key
gets no answer at all. The shift hides nothing from anybody who listens; it only keeps strangers' buttons away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from integrations.ardumower.wire import Version, read_version

REPLY_BYTES = 16 * 1024
"""A longer line is noise: the longest real one (obstacles) has a few kilobytes."""
REQUEST_BYTES = 500
"""The firmware drops what is longer."""
END = b"\r\n"
VERSION = "AT+V"
_FIRST, _COUNT = 32, 95
"""Printable ASCII: the bytes that are shifted."""
_FIELDS = 2_048
_SUM = re.compile(rb"0[xX][0-9A-Fa-f]{1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A sound reply: `name` is its letter or word (`S`, `S2`, `C`), `fields` what follows, without the checksum."""

    name: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A line that came and cannot be believed, and why."""

    reason: str


def checksum(data: bytes) -> int:
    """Sum of the bytes modulo 256."""
    return sum(data) & 0xFF


def seal(body: str) -> bytes:
    """`AT+S` -> `AT+S,0x13`. ValueError for what is not one printable line that the firmware takes."""
    data = body.encode("ascii")
    if not data or not all(_FIRST <= byte < _FIRST + _COUNT for byte in data):
        raise ValueError("a request is one line of printable ASCII")
    line = data + b",0x%02x" % checksum(data)
    if len(line) > REQUEST_BYTES:
        raise ValueError(f"a request has at most {REQUEST_BYTES} bytes")
    return line


def shift(line: bytes, key: int) -> bytes:
    """The line with its printable bytes moved on by `key`, around the end; a negative key moves them back."""
    return bytes(_FIRST + (b - _FIRST + key) % _COUNT if _FIRST <= b < _FIRST + _COUNT else b for b in line)


def read_reply(line: bytes) -> Reply | Damage:
    """What a line without its end says."""
    body, comma, sum_text = line.rpartition(b",")
    if not comma or not body:
        return Damage(reason="no checksum")
    if _SUM.fullmatch(sum_text) is None:
        return Damage(reason="no checksum")
    if int(sum_text, 16) != checksum(body):
        return Damage(reason="wrong checksum")
    try:
        name, *fields = body.decode("ascii").split(",")
    except UnicodeDecodeError:
        return Damage(reason="not ASCII")
    if not name.isalnum() or len(name) > 4 or len(fields) > _FIELDS:
        return Damage(reason="no reply of this protocol")
    return Reply(name=name, fields=tuple(fields))


class LineReader:
    """Bytes in, in whatever pieces; replies out. Bounded: a line without end is given up."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._is_too_long = False

    def feed(self, data: bytes) -> list[Reply | Damage]:
        """The replies that these bytes complete; empty lines are none."""
        self._rest += data
        *lines, rest = bytes(self._rest).replace(b"\r", b"\n").split(b"\n")
        self._rest = bytearray(rest)
        found: list[Reply | Damage] = []
        for line in lines:
            if self._is_too_long or len(line) > REPLY_BYTES:
                found.append(Damage(reason="too long"))
            elif line:
                found.append(read_reply(line))
            self._is_too_long = False
        if len(self._rest) > REPLY_BYTES:
            self._rest.clear()
            self._is_too_long = True
        return found

    def close(self) -> list[Reply | Damage]:
        """What is left when no more bytes come: a last line may lack its end."""
        return self.feed(b"\n") if self._rest or self._is_too_long else []


class Session:
    """The shift of one mower: which key holds, and whether the password is known to be right."""

    def __init__(self, password: int) -> None:
        self._password = password
        self._key: int | None = None
        self._is_doubtful = False
        self.version: Version | None = None
        """Of the newest greeting."""
        self.is_proven = False
        """Whether a shifted request was ever answered: then the password is right."""
        self.restarts = 0
        """How often the mower has started anew since the first greeting: each time it picks another challenge."""

    def __repr__(self) -> str:
        return f"Session(is_greeted={self.is_greeted}, is_proven={self.is_proven})"

    @property
    def is_greeted(self) -> bool:
        """Whether the key is known and nothing speaks against it."""
        return self._key is not None and not self._is_doubtful

    @property
    def has_key(self) -> bool:
        """Whether there is a key at all, be it doubtful: good enough for a request to stand still."""
        return self._key is not None

    @property
    def is_shifting(self) -> bool:
        """Whether the mower wants shifted requests."""
        return self.version is not None and self.version.is_shifting

    @staticmethod
    def greeting() -> bytes:
        """The request that has to come first; a mower that has started anew needs it again."""
        return seal(VERSION) + END

    def take_greeting(self, reply: Reply) -> bool:
        """Learns the key from the answer; False when it makes no sense."""
        version = read_version(reply.fields)
        if reply.name != "V" or version is None:
            return False
        if self.version is not None and self.version.challenge != version.challenge:
            self.restarts += 1
        self.version = version
        self._key = self._password % version.challenge if version.is_shifting else 0
        self._is_doubtful = False
        return True

    def request(self, body: str) -> bytes:
        """The bytes of one request, with the end of the line. LookupError before a greeting."""
        if self._key is None:
            raise LookupError("the mower has not been greeted")
        return shift(seal(body), self._key) + END

    def doubt(self) -> None:
        """No answer came: the mower may have started anew, so it has to be greeted again."""
        self._is_doubtful = True
