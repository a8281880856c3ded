"""Columns of a journal batch: one array per attribute, small integers wherever a value allows it.

| kind | on the wire |
|---|---|
| `Delta` | integers, each the difference to the one before (for degrees: to the same mower's one before) |
| `Degrees` | a `Delta` of whole 1e-7 degrees |
| `Integer` | integers as they are |
| `Flag` | 0 and 1 |
| `Number` | `{"e": digits, "d": deltas}` of the values times 10**digits when that is exact, else plain numbers: exact both ways |
| `Text`, `Word` | indexes into the batch's list of words |
| `Document` | JSON objects as they are |

`null` is no value; a column without any value is left out. Decoding never raises for the sake of one cell: it
notes the row in `bad` with the reason and goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from core.domain.ids import is_safe_id
from core.telemetry.records import find_body_fault

TEXT_MAX = 4_096
"""Longer texts are cut on the wire, so that any single row fits into a batch."""
DEGREES_SCALE = 10_000_000
_EXACT = 2**53
"""Integers beyond it are refused: no database and no JavaScript takes them without loss."""
_DIGITS = range(8)

_integers = msgspec.json.Decoder(list[int | None])
_numbers = msgspec.json.Decoder(list[float | None])
_anything = msgspec.json.Decoder(list[Any])
_documents = msgspec.json.Decoder(list[msgspec.Raw])


class _Scaled(msgspec.Struct, frozen=True):
    """A column of decimal fractions with `e` digits as whole numbers, delta coded."""

    e: int
    d: list[int | None]


_scaled = msgspec.json.Decoder(_Scaled)


class Words:
    """The batch's list of words; a word is sent once."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self._index: dict[str, int] = {}

    def index(self, word: str) -> int:
        """Where `word` stands; added when new."""
        found = self._index.get(word)
        if found is None:
            found = self._index[word] = len(self.items)
            self.items.append(word[:TEXT_MAX].encode("utf-8", "replace").decode("utf-8"))
        return found


@dataclass(slots=True)
class Reading:
    """What the columns of one table share while they are read. `bad` names rows that cannot be understood."""

    count: int
    words: Sequence[str]
    mowers: Sequence[int | None] = ()
    bad: dict[int, str] = field(default_factory=dict)

    def reject(self, row: int, reason: str) -> None:
        """Notes the first reason why a row is refused."""
        self.bad.setdefault(row, reason)


class Column(Protocol):
    """One attribute of a table: how it is written and read."""

    @property
    def name(self) -> str: ...

    def write(self, values: Sequence[Any], words: Words, mowers: Sequence[int]) -> Any: ...

    def read(self, raw: msgspec.Raw, reading: Reading) -> Sequence[Any]: ...


@dataclass(frozen=True, slots=True)
class Delta:
    """Whole numbers close to their neighbours (sequence numbers, microseconds)."""

    name: str

    def write(self, values: Sequence[int], _words: Words, _mowers: Sequence[int]) -> list[int | None]:
        return _differences(values)

    def read(self, raw: msgspec.Raw, reading: Reading) -> list[int | None]:
        return _sums(integers(raw, self.name, reading, is_chained=True), self.name, reading)


@dataclass(frozen=True, slots=True)
class Degrees:
    """Latitude or longitude (`bound` degrees) as whole 1e-7 degrees, along each mower's own track."""

    name: str
    bound: int

    def write(self, values: Sequence[float], _words: Words, mowers: Sequence[int]) -> list[int | None]:
        last: dict[int, int] = {}
        cells: list[int | None] = []
        for value, mower in zip(values, mowers, strict=True):
            if not math.isfinite(value):
                cells.append(None)  # the reader refuses this row, and only this one
                continue
            whole = round(value * DEGREES_SCALE)
            cells.append(whole - last.get(mower, 0))
            last[mower] = whole
        return cells

    def read(self, raw: msgspec.Raw, reading: Reading) -> list[float | None]:
        last: dict[int | None, int] = {}
        limit = self.bound * DEGREES_SCALE
        degrees: list[float | None] = []
        cells = integers(raw, self.name, reading, is_chained=True)
        for row, (cell, mower) in enumerate(zip(cells, reading.mowers, strict=True)):
            if cell is None:
                degrees.append(None)
                continue
            whole = last[mower] = last.get(mower, 0) + cell
            if -limit <= whole <= limit:
                degrees.append(whole / DEGREES_SCALE)
            else:
                reading.reject(row, f"{self.name} is out of range")
                degrees.append(None)
        return degrees


@dataclass(frozen=True, slots=True)
class Integer:
    """Whole numbers without a pattern."""

    name: str

    def write(self, values: Sequence[int | None], _words: Words, _mowers: Sequence[int]) -> list[int | None]:
        return list(values)

    def read(self, raw: msgspec.Raw, reading: Reading) -> list[int | None]:
        return integers(raw, self.name, reading)


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    name: str

    def write(self, values: Sequence[bool | None], _words: Words, _mowers: Sequence[int]) -> list[int | None]:
        return [None if value is None else int(value) for value in values]

    def read(self, raw: msgspec.Raw, reading: Reading) -> list[bool | None]:
        cells = integers(raw, self.name, reading)
        for row, cell in enumerate(cells):
            if cell is not None and cell not in (0, 1):
                reading.reject(row, f"{self.name} is neither 0 nor 1")
        return [None if cell is None else cell == 1 for cell in cells]


@dataclass(frozen=True, slots=True)
class Number:
    """Floats, exactly (a non-finite one is no value)."""

    name: str

    def write(self, values: Sequence[float | None], _words: Words, _mowers: Sequence[int]) -> Any:
        finite = [value if value is not None and math.isfinite(value) else None for value in values]
        for digits in _DIGITS:
            whole = _whole(finite, 10**digits)
            if whole is not None:
                return {"e": digits, "d": _differences(whole)}
        return finite

    def read(self, raw: msgspec.Raw, reading: Reading) -> list[float | None]:
        if bytes(memoryview(raw)[:1]) == b"{":
            return self._read_scaled(raw, reading)
        try:
            numbers = _numbers.decode(raw)
        except msgspec.DecodeError:
            numbers = _cells(raw, self.name, reading, _is_number)
        return _aligned(numbers, self.name, reading)

    def _read_scaled(self, raw: msgspec.Raw, reading: Reading) -> list[float | None]:
        try:
            column = _scaled.decode(raw)
        except msgspec.DecodeError:
            column = _Scaled(0, [])
        if column.e not in _DIGITS or len(column.d) != reading.count:
            return _reject_all(self.name, reading)
        power = 10**column.e
        sums = _sums(column.d, self.name, reading)
        return [None if whole is None else whole / power for whole in sums]


@dataclass(frozen=True, slots=True)
class Text:
    """Free text."""

    name: str

    def write(self, values: Sequence[str | None], words: Words, _mowers: Sequence[int]) -> list[int | None]:
        return [None if value is None else words.index(value) for value in values]

    def read(self, raw: msgspec.Raw, reading: Reading) -> list[str | None]:
        # PostgreSQL stores no NUL character
        items = [None if "\0" in word else word for word in reading.words]
        return _looked_up(raw, items, self.name, reading)


@dataclass(frozen=True, slots=True)
class Identifier:
    """Text that must be an id."""

    name: str

    def write(self, values: Sequence[str | None], words: Words, _mowers: Sequence[int]) -> list[int | None]:
        return [None if value is None else words.index(value) for value in values]

    def read(self, raw: msgspec.Raw, reading: Reading) -> list[str | None]:
        items = [word if is_safe_id(word) else None for word in reading.words]
        return _looked_up(raw, items, self.name, reading)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of an enum. Open enums turn an unknown word into UNKNOWN; for others the row is refused."""

    name: str
    kind: type[StrEnum]

    def write(self, values: Sequence[StrEnum | None], words: Words, _mowers: Sequence[int]) -> list[int | None]:
        return [None if value is None else words.index(value.value) for value in values]

    def read(self, raw: msgspec.Raw, reading: Reading) -> list[StrEnum | None]:
        return _looked_up(raw, [self._member(word) for word in reading.words], self.name, reading)

    def _member(self, word: str) -> StrEnum | None:
        try:
            return self.kind(word)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Document:
    """Bodies of records: JSON objects, to the byte."""

    name: str

    def write(self, values: Sequence[bytes], _words: Words, _mowers: Sequence[int]) -> list[msgspec.Raw | None]:
        # what is no object would spoil the whole batch; the reader refuses this row, and only this one
        return [None if find_body_fault(value) else msgspec.Raw(value) for value in values]

    def read(self, raw: msgspec.Raw, reading: Reading) -> list[bytes | None]:
        try:
            cells = _documents.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            cells = []
        texts = [b"null" if cell is None else bytes(cell) for cell in _aligned(cells, self.name, reading)]
        bodies = [None if text == b"null" else text for text in texts]
        for row, body in enumerate(bodies):
            fault = None if body is None else find_body_fault(body)
            if fault is not None:
                reading.reject(row, f"{self.name} is {fault}")
        return bodies


def count_cells(raw: msgspec.Raw) -> int:
    """How many cells a column has; 0 for what is no column."""
    try:
        return len(_anything.decode(raw))
    except (msgspec.DecodeError, RecursionError):
        return 0


def integers(raw: msgspec.Raw, name: str, reading: Reading, *, is_chained: bool = False) -> list[int | None]:
    """The column as whole numbers or None, `reading.count` of them. In a chained column every cell builds on the
    ones before, so a bad one costs all rows after it too."""
    try:
        cells = _integers.decode(raw)
    except msgspec.DecodeError:
        cells = _cells(raw, name, reading, _is_integer, is_chained=is_chained)
    cells = _aligned(cells, name, reading)
    for row, cell in enumerate(cells):
        if cell is not None and not -_EXACT <= cell <= _EXACT:
            cells[row] = None
            _reject_from(row, f"{name} is too large", reading, is_chained=is_chained)
    return cells


def _is_integer(cell: Any) -> bool:
    return type(cell) is int


def _is_number(cell: Any) -> bool:
    return type(cell) is float or (type(cell) is int and -_EXACT <= cell <= _EXACT)


def _cells(
    raw: msgspec.Raw, name: str, reading: Reading, is_good: Callable[[Any], bool], *, is_chained: bool = False
) -> list[Any]:
    """The slow way for a column with a wrong cell: its row is refused, and the column goes on."""
    try:
        cells = _anything.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _reject_all(name, reading)
    for row, cell in enumerate(cells):
        if cell is not None and not is_good(cell):
            cells[row] = None
            _reject_from(row, f"{name} is not a number", reading, is_chained=is_chained)
    return cells


def _reject_from(row: int, reason: str, reading: Reading, *, is_chained: bool) -> None:
    for each in range(row, reading.count) if is_chained else (row,):
        reading.reject(each, reason)


def _aligned(cells: list[Any], name: str, reading: Reading) -> list[Any]:
    return cells if len(cells) == reading.count else _reject_all(name, reading)


def _reject_all(name: str, reading: Reading) -> list[Any]:
    for row in range(reading.count):
        reading.reject(row, f"column {name} cannot be read")
    return [None] * reading.count


def _differences(values: Sequence[int | None]) -> list[int | None]:
    last = 0
    cells: list[int | None] = []
    for value in values:
        if value is None:
            cells.append(None)
        else:
            cells.append(value - last)
            last = value
    return cells


def _sums(cells: Sequence[int | None], name: str, reading: Reading) -> list[int | None]:
    total = 0
    values: list[int | None] = []
    for row, cell in enumerate(cells):
        if cell is None:
            values.append(None)
            continue
        total += cell
        if -_EXACT <= total <= _EXACT:
            values.append(total)
        else:
            reading.reject(row, f"{name} is too large")
            values.append(None)
    return values


def _whole(values: Sequence[float | None], power: int) -> list[int | None] | None:
    """The values times `power` as whole numbers, or None when that would lose anything of any."""
    whole: list[int | None] = []
    for value in values:
        if value is None:
            whole.append(None)
            continue
        scaled = value * power
        if not -_EXACT <= scaled <= _EXACT or round(scaled) / power != value:
            return None
        whole.append(round(scaled))
    return whole


def _looked_up(raw: msgspec.Raw, items: Sequence[Any], name: str, reading: Reading) -> list[Any]:
    """The cells as indexes into `items`, in which None is an item that may not be used."""
    count = len(items)
    found: list[Any] = []
    for row, cell in enumerate(integers(raw, name, reading)):
        item = items[cell] if cell is not None and 0 <= cell < count else None
        if item is None and cell is not None:
            reading.reject(row, f"{name} is not usable")
        found.append(item)
    return found
