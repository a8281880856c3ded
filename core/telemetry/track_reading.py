"""A track read from CSV or GPX 1.1 piece by piece, by a bounded memory. Pure: bytes in, rows and mistakes out.

Each row of a file becomes one PositionRow or one Mistake that names its line; nothing is dropped in silence. After
a mistake from which no reader finds its way (not UTF-8, no header, broken XML) `is_broken` is true and the rest of the
file is not read.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from datetime import UTC
from typing import Protocol
from xml.parsers import expat

import msgspec

from core.domain.errors import Mistake
from core.domain.ids import MowerId
from core.telemetry.rows import PositionRow

LINE_BYTES = 4_096
"""Longer lines of CSV, and longer times and names in GPX, are refused."""
DEPTH = 32
_GPX = "http://www.topografix.com/GPX/1/1 "
_COLUMNS = frozenset(PositionRow.__struct_fields__) - {"mower_id"}
_BOM = b"\xef\xbb\xbf"

Read = list[PositionRow | Mistake]


class TrackReader(Protocol):
    """Reads one file of one mower's track."""

    is_broken: bool

    def feed(self, piece: bytes) -> Read: ...
    def end(self) -> Read: ...


class CsvReader:
    """The columns that CsvTrack writes; `observed_at` may be called `time`, all but it, `lat` and `lon` may be away."""

    def __init__(self, mower_id: MowerId) -> None:
        self.is_broken = False
        self._mower_id = mower_id
        self._kept = b""
        self._is_skipping = False
        self._line = 0
        self._header: list[str] | None = None

    def feed(self, piece: bytes) -> Read:
        lines = (self._kept + piece).split(b"\n")
        self._kept = lines.pop()
        read = [one for line in lines for one in self._take(line)]
        if len(self._kept) > LINE_BYTES:
            if not self._is_skipping:
                read += self._refuse_long(self._line + 1)
            self._kept, self._is_skipping = b"", True
        return read

    def end(self) -> Read:
        """The last line, which may have no line end."""
        last, self._kept = self._kept, b""
        read = list(self._take(last)) if last else []
        if self._header is None and not self.is_broken:
            read += self._break("no header")
        return read

    def _take(self, line: bytes) -> Read:
        self._line += 1
        if self.is_broken:
            return []
        if self._is_skipping:
            self._is_skipping = False
            return []
        if len(line) > LINE_BYTES:
            return self._refuse_long(self._line)
        try:
            text = line.removeprefix(_BOM if self._line == 1 else b"").decode().rstrip("\r")
        except UnicodeDecodeError:
            return self._break("not UTF-8")
        if not text:
            return []
        try:
            cells = next(csv.reader([text], strict=True))
        except csv.Error as err:
            return [Mistake(field=f"line {self._line}", reason=str(err))]
        if self._header is None:
            return self._begin(cells)
        if len(cells) != len(self._header):
            return [Mistake(field=f"line {self._line}", reason=f"{len(cells)} cells under {len(self._header)} columns")]
        values = {name: cell for name, cell in zip(self._header, cells, strict=True) if cell}
        return [make_row(self._mower_id, values, f"line {self._line}")]

    def _begin(self, cells: list[str]) -> Read:
        names = ["observed_at" if cell == "time" else cell for cell in cells]
        if len(set(names)) < len(names) or not {"observed_at", "lat", "lon"} <= set(names) <= _COLUMNS:
            return self._break("the header must name observed_at (or time), lat and lon, and only known columns, once")
        self._header = names
        return []

    def _refuse_long(self, line: int) -> Read:
        if self._header is None:
            return self._break("no header")
        return [Mistake(field=f"line {line}", reason=f"longer than {LINE_BYTES} bytes")]

    def _break(self, reason: str) -> Read:
        if self.is_broken:
            return []
        self.is_broken = True
        return [Mistake(field=f"line {max(self._line, 1)}", reason=reason)]


class GpxReader:
    """Every `trkpt` with its `time`. A document type, and with it every entity, is refused."""

    def __init__(self, mower_id: MowerId) -> None:
        self.is_broken = False
        self._mower_id = mower_id
        self._read: Read = []
        self._path: list[str] = []
        self._values: dict[str, str] | None = None
        self._time: str | None = None
        self._place = ""
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._finish
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    def feed(self, piece: bytes) -> Read:
        return self._parse(piece, is_last=False)

    def end(self) -> Read:
        """Refuses a file that was cut off."""
        return self._parse(b"", is_last=True)

    def _parse(self, piece: bytes, *, is_last: bool) -> Read:
        if self.is_broken:
            return []
        try:
            self._parser.Parse(piece, is_last)
        except (expat.ExpatError, _RefusedXmlError) as err:
            self.is_broken = True
            self._read.append(Mistake(field=f"line {self._parser.CurrentLineNumber}", reason=str(err)))
        read, self._read = self._read, []
        return read

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name != _GPX + "gpx":
            raise _RefusedXmlError("not a GPX 1.1 document")
        self._path.append(name)
        if len(self._path) > DEPTH:
            raise _RefusedXmlError(f"nested deeper than {DEPTH}")
        if name == _GPX + "trkpt":
            self._values = {key: attributes[key] for key in ("lat", "lon") if key in attributes}
            self._place = f"line {self._parser.CurrentLineNumber}"
        elif self._values is not None and self._path[-2:] == [_GPX + "trkpt", _GPX + "time"]:
            self._time = ""

    def _text(self, text: str) -> None:
        if self._time is not None:
            self._time += text
            if len(self._time) > LINE_BYTES:
                raise _RefusedXmlError(f"a time longer than {LINE_BYTES} bytes")

    def _finish(self, name: str) -> None:
        self._path.pop()
        if self._values is None:
            return
        if self._time is not None and name == _GPX + "time":
            self._values["observed_at"], self._time = self._time.strip(), None
        elif name == _GPX + "trkpt":
            self._read.append(make_row(self._mower_id, self._values, self._place))
            self._values = None

    def _refuse_doctype(self, *_: object) -> None:
        raise _RefusedXmlError("a document type is not allowed")


class _RefusedXmlError(Exception):
    """Well-formed, yet not read."""


def make_row(mower_id: MowerId, values: Mapping[str, str], place: str) -> PositionRow | Mistake:
    """The row that the texts say, whole 1e-7 degrees and UTC, or what is wrong at `place`."""
    try:
        row = msgspec.convert({**values, "mower_id": mower_id}, PositionRow, strict=False)
    except msgspec.ValidationError as err:
        return Mistake(field=place, reason=str(err))
    if row.observed_at.tzinfo is None:
        return Mistake(field=place, reason="a time without its zone")
    if not (-90 <= row.lat <= 90 and -180 <= row.lon <= 180):
        return Mistake(field=place, reason="no place on Earth")
    if not all(math.isfinite(value) for value in (row.heading_deg, row.accuracy_m) if value is not None):
        return Mistake(field=place, reason="not a finite number")
    try:
        at = row.observed_at.astimezone(UTC)
    except OverflowError:
        return Mistake(field=place, reason="a time outside the years 1 to 9999")
    return msgspec.structs.replace(row, observed_at=at, lat=round(row.lat, 7), lon=round(row.lon, 7))
