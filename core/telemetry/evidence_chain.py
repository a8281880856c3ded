"""Lines of evidence that hold together: each carries the hash of the one before, so that a changed, dropped, added or
reordered line is found. The last line says how many there are, so that a file cut short is found too.

The chain shows that the file is as it was written; who wrote it, it does not show.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

FORMAT = "mowdeck-evidence-1"
START = hashlib.sha256(FORMAT.encode()).hexdigest()

What = Literal["alert", "answer", "state", "position", "link", "end"]


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line: `hash` is SHA-256 (hexadecimal) of `previous`, `n`, `what` and `body` as it stands,
    with a space between them."""

    n: int
    what: What
    previous: str
    hash: str
    body: msgspec.Raw


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """The first line that does not hold (counted from 1), and why."""

    line: int
    why: str


_encoder = msgspec.json.Encoder()


def chain(items: Iterable[tuple[What, Any]]) -> Iterator[bytes]:
    """The items as lines without line feeds, and the end."""
    previous, count = START, 0
    for count, (what, item) in enumerate(items, start=1):
        line, previous = _line(count, what, previous, _encoder.encode(item))
        yield line
    yield _line(count + 1, "end", previous, _encoder.encode({"format": FORMAT, "lines": count}))[0]


def find_flaw(lines: Sequence[bytes]) -> Flaw | None:
    """What is wrong with a file's lines; None when all of them are as they were written."""
    previous = START
    for number, data in enumerate(lines, start=1):
        try:
            line = msgspec.json.decode(data, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Flaw(line=number, why="it is no line of evidence")
        expected, previous_hash = _line(number, line.what, previous, bytes(line.body))
        if line.n != number or line.previous != previous:
            return Flaw(line=number, why="it does not follow on the line before it")
        if data != expected:
            return Flaw(line=number, why="it was changed")
        previous = previous_hash
        if line.what == "end":
            return None if number == len(lines) else Flaw(line=number + 1, why="it follows the end")
    return Flaw(line=len(lines) + 1, why="the end is missing")


def _line(number: int, what: What, previous: str, body: bytes) -> tuple[bytes, str]:
    seal = hashlib.sha256(b"%s %d %s %s" % (previous.encode(), number, what.encode(), body)).hexdigest()
    line = Line(n=number, what=what, previous=previous, hash=seal, body=msgspec.Raw(body))
    return _encoder.encode(line), seal
