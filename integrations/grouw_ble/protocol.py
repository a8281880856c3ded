"""A conversation with a mower, sans I/O: bytes to write, bytes that came, and what they mean. Pure.

Nothing in an answer says which request it belongs to. A status therefore counts as the answer to the *oldest* request
that may still be under way: it may be taken for older than it is, and never for newer. So what was said before a command
is never mistaken for the command's effect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from integrations.grouw_ble import codec
from integrations.grouw_ble.wire import ANSWER_BYTES, ANSWER_END, PREFIX, SHORT_BYTES, OtherAnswer, PinTold, Status

LATE_S = 15.0
"""An answer that has not come after this long does not come any more."""
_ASKED_MAX = 16


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """`data` in writes of at most `size` bytes; the mower takes them as one stream."""
    for at in range(0, len(data), size):
        yield data[at : at + size]


class AnswerReader:
    """Whole answers out of a stream that was cut and joined anywhere. Whatever comes in, it raises nothing."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.skipped = 0
        """Bytes that belonged to no answer."""

    def feed(self, data: bytes) -> list[bytes]:
        """The answers that `data` completes."""
        self._buffer += data
        found: list[bytes] = []
        while self._seek():
            size = self._size()
            if size > 0:
                found.append(bytes(self._buffer[:size]))
                del self._buffer[:size]
            elif len(self._buffer) >= ANSWER_BYTES:
                self._skip(1)
            else:
                break
        return found

    def _size(self) -> int:
        """Of the answer at the front; 0 while it is not whole, or when it is none. It cannot have both sizes."""
        sizes = (SHORT_BYTES, ANSWER_BYTES)
        return next((size for size in sizes if self._buffer.startswith(ANSWER_END, size - len(ANSWER_END))), 0)

    def _seek(self) -> bool:
        """Drops all before the next prefix; keeps what may become one."""
        at = self._buffer.find(PREFIX)
        if at < 0:
            kept = next(size for size in (2, 1, 0) if self._buffer.endswith(PREFIX[:size]))
            self._skip(len(self._buffer) - kept)
            return False
        self._skip(at)
        return True

    def _skip(self, count: int) -> None:
        self.skipped += count
        del self._buffer[:count]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """When a request was written: monotonic seconds, and the date (aware UTC)."""

    at: float
    began_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusHeard:
    """A status, true at `asked` or later."""

    status: Status
    asked: Asked


Heard = StatusHeard | PinTold


class Session:
    """The box's side of one connection; never used again."""

    def __init__(self) -> None:
        self._reader = AnswerReader()
        self._asked: deque[Asked] = deque(maxlen=_ASKED_MAX)
        self.strays = 0
        """Answers that nobody had asked for."""

    @property
    def skipped(self) -> int:
        return self._reader.skipped

    def ask_status(self, asked: Asked) -> bytes:
        """The bytes to write; its answer comes out of `feed`."""
        self._asked.append(asked)
        return codec.status_request()

    def feed(self, data: bytes, now: float) -> list[Heard]:
        """What the bytes say; `now` is monotonic."""
        while self._asked and now - self._asked[0].at > LATE_S:
            self._asked.popleft()
        heard: list[Heard] = []
        for frame in self._reader.feed(data):
            match codec.decode(frame):
                case Status() as status if self._asked:
                    heard.append(StatusHeard(status=status, asked=self._asked.popleft()))
                case PinTold() as told:
                    heard.append(told)
                case Status() | OtherAnswer():
                    self.strays += 1
        return heard
