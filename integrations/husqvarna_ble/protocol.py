"""One conversation with a mower, sans I/O: bytes to send, bytes that came, and what they mean. Pure.

    session = Session(channel)
    session.open()             -> bytes to write; then feed() until is_open
    session.ask(operation)     -> bytes to write; then feed() until it returns the Answer

One request is outstanding at a time. Whatever comes in, `feed` raises nothing: noise is passed over, and answers that
nobody waits for are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from core.domain.errors import ConflictError
from integrations.husqvarna_ble import frames
from integrations.husqvarna_ble.frames import FrameReader
from integrations.husqvarna_ble.wire import OPERATIONS, Operation, Result, word


class Stage(Enum):
    """How far the conversation is."""

    NEW = "new"
    SETUP = "setup"
    HANDSHAKE = "handshake"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The channel is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the mower answered to the outstanding request. `result` is its number, also one that we do not know."""

    operation: Operation
    result: int
    payload: bytes = b""

    @property
    def is_ok(self) -> bool:
        return self.result == Result.OK

    @property
    def result_word(self) -> str:
        """The vendor's name of the result."""
        return word(Result, self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Said unasked; `operation` is None when we do not know its numbers."""

    operation: Operation | None
    rest: bytes


Said = Ready | Answer | Heard


class Session:
    """The client's side, for one connection; never used again."""

    def __init__(self, channel: int) -> None:
        if not 0 < channel <= 0xFFFFFFFF:
            raise ValueError("a channel is a number from 1 to 2^32 - 1")
        self.channel = channel
        self.stage = Stage.NEW
        self.strays = 0
        """Frames that were not for us, came too late, or were not understood."""
        self._asked: Operation | None = None
        self._reader = FrameReader()

    @property
    def is_open(self) -> bool:
        return self.stage is Stage.OPEN

    @property
    def asked(self) -> Operation | None:
        """The request that waits for its answer."""
        return self._asked

    @property
    def skipped(self) -> int:
        """Bytes that belonged to no frame."""
        return self._reader.skipped

    def open(self) -> bytes:
        """The first bytes to write. ConflictError when that was done before."""
        if self.stage is not Stage.NEW:
            raise ConflictError("the session is open or opening")
        self.stage = Stage.SETUP
        return frames.encode(frames.SetupRequest(channel=self.channel))

    def take_channel(self) -> bytes:
        """The bytes that follow the mower's answer to the first ones."""
        if self.stage is not Stage.HANDSHAKE:
            raise ConflictError(f"the session is {self.stage.value}")
        return frames.encode(frames.HandshakeRequest(channel=self.channel))

    def ask(self, operation: Operation, payload: bytes = b"") -> bytes:
        """The bytes of a request. ConflictError while one waits, or before the channel is open."""
        if self.stage is not Stage.OPEN:
            raise ConflictError(f"the session is {self.stage.value}")
        if self._asked is not None:
            raise ConflictError(f"{self._asked.name} still waits for its answer")
        self._asked = operation
        request = frames.Request(channel=self.channel, group=operation.group, number=operation.number, payload=payload)
        return frames.encode(request)

    def give_up(self) -> None:
        """Nobody waits any more; an answer that comes now is a stray. So is a half of one."""
        self._asked = None
        self._reader.reset()

    def feed(self, data: bytes) -> list[Said]:
        """What the bytes complete."""
        said: list[Said] = []
        for frame in self._reader.feed(data):
            one = self._take(frame)
            if one is None:
                self.strays += 1
            else:
                said.append(one)
        return said

    def _take(self, frame: frames.Frame) -> Said | None:
        match frame:
            case frames.SetupReply(channel=self.channel) if self.stage is Stage.SETUP:
                self.stage = Stage.HANDSHAKE
                return Ready()
            case frames.HandshakeReply(channel=self.channel) if self.stage is Stage.HANDSHAKE:
                self.stage = Stage.OPEN
                return Ready()
            case frames.Response(channel=self.channel) if self._asked is not None:
                return self._take_answer(frame, self._asked)
            case frames.Event(channel=self.channel):
                return Heard(operation=OPERATIONS.get((frame.group, frame.number)), rest=frame.rest)
            case _:
                return None

    def _take_answer(self, frame: frames.Response, asked: Operation) -> Answer | None:
        if (frame.group, frame.number) != asked.value:
            return None
        self._asked = None
        return Answer(operation=asked, result=frame.result, payload=frame.payload)
