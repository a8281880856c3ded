"""Batches of journal rows on the wire (`up/journal`).

    {"v":1,"stream_id":"...","first_seq":1,"last_seq":1000}\\n<zlib of the columns as JSON>

The header stands outside of the compressed part, so that a batch whose body is damaged can still be accounted for
by its range. `first_seq..last_seq` is what the batch speaks for: a number in it without a row was thinned or aged
out on the box. Rows of all tables share one sequence and come back in its order.

Resolution: coordinates are whole 1e-7 degrees (11 mm), times whole microseconds, all other numbers exact.
Unknown fields, tables and columns are ignored. A higher `v` is not understood at all.

Version ladder: 1: history, positions, timeline. 2: records as well; a batch without records still says 1. A relay
that knows no records does not take them and does not lose them: they wait on the box.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from core.domain import limits
from core.domain.clock import from_us, to_us
from core.domain.commands import CommandResult, CommandStatus
from core.domain.errors import MalformedMessageError
from core.domain.ids import MowerId, StreamId, is_safe_id
from core.domain.mower import Activity, Connectivity, RtkFix, RtkSource
from core.sync.columns import (
    Column,
    Degrees,
    Delta,
    Document,
    Flag,
    Identifier,
    Integer,
    Number,
    Reading,
    Text,
    Word,
    Words,
    count_cells,
)
from core.sync.messages import RejectedRow
from core.telemetry.rows import HistoryRow, PositionRow, RecordRow, Row, SequencedRow, TimelineRow

BATCH_VERSION = 2
_WITHOUT_RECORDS = 1
_HEADER_MAX = 1_024
_ZLIB_LEVEL = 6


class BatchHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a batch: whose rows, and the range it speaks for."""

    v: int
    stream_id: StreamId
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as it was understood. `rejected` holds what was not, each with its bytes for the quarantine."""

    stream_id: StreamId
    first_seq: int
    last_seq: int
    rows: tuple[SequencedRow, ...]
    rejected: tuple[tuple[RejectedRow, bytes], ...] = ()


class _Body(msgspec.Struct, kw_only=True, omit_defaults=True):
    words: tuple[str, ...] = ()
    mowers: tuple[str, ...] = ()
    history: dict[str, msgspec.Raw] = {}
    positions: dict[str, msgspec.Raw] = {}
    timeline: dict[str, msgspec.Raw] = {}
    records: dict[str, msgspec.Raw] = {}


_SEQ, _MOWER, _AT = Delta("seq"), Integer("mower"), Delta("at")
_HISTORY: tuple[Column, ...] = (
    Word("activity", Activity),
    Word("connectivity", Connectivity),
    Integer("battery_percent"),
    Flag("is_charging"),
    Word("rtk_fix", RtkFix),
    Word("rtk_source", RtkSource),
    Number("blade_height_mm"),
    Flag("blades_on"),
    Number("speed_mps"),
    Text("error_code"),
)
_POSITIONS: tuple[Column, ...] = (
    Degrees("lat", 90),
    Degrees("lon", 180),
    Number("heading_deg"),
    Number("accuracy_m"),
    Word("rtk_fix", RtkFix),
    Word("rtk_source", RtkSource),
    Flag("blades_on"),
    Integer("wifi_dbm"),
    Integer("mobile_dbm"),
    Integer("satellites"),
)
_TIMELINE: tuple[Column, ...] = (Identifier("command_id"), Word("status", CommandStatus), Text("reason"))
_RECORDS: tuple[Column, ...] = (Identifier("kind"), Identifier("key"), Delta("updated_at"), Document("body"))

_encoder = msgspec.json.Encoder()
_header_decoder = msgspec.json.Decoder(BatchHeader)
_body_decoder = msgspec.json.Decoder(_Body)


def encode_batch(stream_id: StreamId, first_seq: int, last_seq: int, rows: Sequence[SequencedRow]) -> bytes:
    """One batch that speaks for `first_seq..last_seq`; `rows` ordered by their numbers within it."""
    return _compress(stream_id, first_seq, last_seq, _encode_body(rows), has_records=_has_records(rows))


def _has_records(rows: Sequence[SequencedRow]) -> bool:
    return any(isinstance(item.row, RecordRow) for item in rows)


def _compress(stream_id: StreamId, first_seq: int, last_seq: int, body: bytes, *, has_records: bool) -> bytes:
    version = BATCH_VERSION if has_records else _WITHOUT_RECORDS
    header = BatchHeader(v=version, stream_id=stream_id, first_seq=first_seq, last_seq=last_seq)
    return _encoder.encode(header) + b"\n" + zlib.compress(body, _ZLIB_LEVEL)


def _encode_body(rows: Sequence[SequencedRow]) -> bytes:
    words, mowers = Words(), Words()
    body: dict[str, Any] = {"words": words.items, "mowers": mowers.items}
    history = [(item.seq, item.row.observed_at, item.row) for item in rows if isinstance(item.row, HistoryRow)]
    positions = [(item.seq, item.row.observed_at, item.row) for item in rows if isinstance(item.row, PositionRow)]
    timeline = [(item.seq, item.row.result.at, item.row.result) for item in rows if isinstance(item.row, TimelineRow)]
    records = [(item.seq, item.row.at, _RecordCells(item.row)) for item in rows if isinstance(item.row, RecordRow)]
    for name, columns, table in (
        ("history", _HISTORY, history),
        ("positions", _POSITIONS, positions),
        ("timeline", _TIMELINE, timeline),
        ("records", _RECORDS, records),
    ):
        if table:
            body[name] = _encode_table(columns, table, words, mowers)
    return _encoder.encode(body)


class _RecordCells:
    """A record as its columns: times are whole microseconds there."""

    __slots__ = ("body", "key", "kind", "mower_id", "updated_at")

    def __init__(self, row: RecordRow) -> None:
        self.mower_id, self.kind, self.key, self.body = row.mower_id, row.kind, row.key, row.body
        self.updated_at = to_us(row.updated_at)


def fit_batch(
    stream_id: StreamId,
    first_seq: int,
    last_seq: int,
    rows: Sequence[SequencedRow],
    *,
    max_rows: int = limits.BATCH_ROWS,
    max_bytes: int = limits.BATCH_BYTES,
) -> tuple[bytes, int]:
    """As many of `rows` as one batch takes, and the last number it then speaks for: `last_seq`, or that of its
    last row when rows were left for the next. One row always goes, whatever its size."""
    count = min(len(rows), max_rows)
    while True:
        chosen = rows[:count]
        end = last_seq if count == len(rows) else chosen[-1].seq
        body = _encode_body(chosen)
        share = limits.BATCH_BYTES_RAW / len(body)
        if share >= 1.0 or count <= 1:
            data = _compress(stream_id, first_seq, end, body, has_records=_has_records(chosen))
            if len(data) <= max_bytes or count <= 1:
                return data, end
            share = max_bytes / len(data)
        count = max(1, min(count - 1, int(count * 0.9 * share)))


def decode_batch(data: bytes) -> Batch:
    """The batch in `data`. A row that cannot be understood is in `rejected`; when that is the whole body, one
    entry stands for the range. MalformedMessageError when not even the header holds."""
    line = data[:_HEADER_MAX].partition(b"\n")[0]
    try:
        header = _header_decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as err:
        raise MalformedMessageError(f"header of a batch: {err}") from err
    if not _WITHOUT_RECORDS <= header.v <= BATCH_VERSION:
        # Not acknowledged: the rows are safe on the box until this relay has been brought up to date.
        raise MalformedMessageError(f"batch version {header.v}, this side knows {BATCH_VERSION} at most")
    if not is_safe_id(header.stream_id) or not 0 < header.first_seq <= header.last_seq < 2**53:
        raise MalformedMessageError("header of a batch: stream or range is wrong")
    try:
        rows, rejected = _decode_body(header, data[len(line) + 1 :])
    except MalformedMessageError as err:
        reason = f"rows {header.first_seq} to {header.last_seq} cannot be read: {err.detail}"
        rows, rejected = [], [(RejectedRow(seq=header.first_seq, reason=reason), data)]
    return Batch(
        stream_id=header.stream_id,
        first_seq=header.first_seq,
        last_seq=header.last_seq,
        rows=tuple(rows),
        rejected=tuple(rejected),
    )


def _encode_table(
    columns: Sequence[Column], table: Sequence[tuple[int, datetime, Any]], words: Words, mowers: Words
) -> dict[str, Any]:
    indexes = [mowers.index(source.mower_id) for _, _, source in table]
    encoded = {
        _SEQ.name: _SEQ.write([seq for seq, _, _ in table], words, indexes),
        _MOWER.name: indexes,
        _AT.name: _AT.write([to_us(at) for _, at, _ in table], words, indexes),
    }
    for column in columns:
        values = [getattr(source, column.name) for _, _, source in table]
        if any(value is not None for value in values):
            encoded[column.name] = column.write(values, words, indexes)
    return encoded


@dataclass(frozen=True, slots=True)
class _Table:
    columns: Sequence[Column]
    required: tuple[str, ...]
    make: Callable[[MowerId, datetime, dict[str, Any]], Row]


def _make_record(mower_id: MowerId, at: datetime, cells: dict[str, Any]) -> RecordRow:
    return RecordRow(mower_id=mower_id, at=at, **{**cells, "updated_at": from_us(cells["updated_at"])})


_TABLES = {
    "history": _Table(
        _HISTORY,
        ("activity", "connectivity"),
        lambda mower_id, at, cells: HistoryRow(mower_id=mower_id, observed_at=at, **cells),
    ),
    "positions": _Table(
        _POSITIONS,
        ("lat", "lon"),
        lambda mower_id, at, cells: PositionRow(mower_id=mower_id, observed_at=at, **cells),
    ),
    "timeline": _Table(
        _TIMELINE,
        ("command_id", "status"),
        lambda mower_id, at, cells: TimelineRow(result=CommandResult(mower_id=mower_id, at=at, **cells)),
    ),
    "records": _Table(_RECORDS, ("kind", "key", "updated_at", "body"), _make_record),
}


def _decode_body(header: BatchHeader, compressed: bytes) -> tuple[list[SequencedRow], list[tuple[RejectedRow, bytes]]]:
    body = _inflate(compressed)
    reader = _BodyReader(header, body)
    for name, table in _TABLES.items():
        raw = getattr(body, name)
        if raw:
            reader.read(table, raw)
    reader.rows.sort(key=lambda item: item.seq)
    return reader.rows, reader.rejected


def _inflate(compressed: bytes) -> _Body:
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(compressed, limits.BATCH_BYTES_RAW)
    except zlib.error as err:
        raise MalformedMessageError(f"not compressed as it should be ({err})") from err
    if inflater.unconsumed_tail:
        raise MalformedMessageError(f"inflates to more than {limits.BATCH_BYTES_RAW} bytes")
    if not inflater.eof:
        raise MalformedMessageError("ends too early")
    try:
        return _body_decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise MalformedMessageError(str(err)) from err


class _BodyReader:
    """Reads the tables of one body into `rows` and `rejected`."""

    def __init__(self, header: BatchHeader, body: _Body) -> None:
        self.rows: list[SequencedRow] = []
        self.rejected: list[tuple[RejectedRow, bytes]] = []
        self._header = header
        self._words = body.words
        self._mower_ids = tuple(MowerId(text) if is_safe_id(text) else None for text in body.mowers)
        self._seen: set[int] = set()

    def read(self, table: _Table, raw: dict[str, msgspec.Raw]) -> None:
        """One table; its rows are added in the order of the wire."""
        reading, seqs, ats, mower_ids = self._read_keys(raw)
        cells = {column.name: column.read(raw[column.name], reading) for column in table.columns if column.name in raw}
        for name in table.required:
            _require(name, cells.get(name, (None,) * reading.count), reading)
        names = tuple(cells)
        lines = zip(*cells.values(), strict=True) if cells else [()] * reading.count
        for index, (seq, at_us, mower_id, line) in enumerate(zip(seqs, ats, mower_ids, lines, strict=True)):
            reason = reading.bad.get(index)
            if reason is None and seq is not None and at_us is not None and mower_id is not None:
                self._seen.add(seq)
                row = table.make(mower_id, from_us(at_us), dict(zip(names, line, strict=True)))
                self.rows.append(SequencedRow(seq=seq, row=row))
            else:
                values = {"seq": seq, "at": at_us, "mower": mower_id, **dict(zip(names, line, strict=True))}
                self._reject(seq, reason or "incomplete", values)

    def _read_keys(
        self, raw: dict[str, msgspec.Raw]
    ) -> tuple[Reading, Sequence[int | None], Sequence[int | None], Sequence[MowerId | None]]:
        for column in (_SEQ, _MOWER, _AT):
            if column.name not in raw:
                raise MalformedMessageError(f"a table without {column.name}")
        reading = Reading(count=count_cells(raw[_SEQ.name]), words=self._words)
        if not 0 < reading.count <= limits.BATCH_ROWS:
            raise MalformedMessageError(f"a table must have 1 to {limits.BATCH_ROWS} rows")
        seqs = _SEQ.read(raw[_SEQ.name], reading)
        reading.mowers = _MOWER.read(raw[_MOWER.name], reading)
        ats = _AT.read(raw[_AT.name], reading)
        known = len(self._mower_ids)
        mower_ids = [
            self._mower_ids[mower] if mower is not None and 0 <= mower < known else None for mower in reading.mowers
        ]
        for name, values in (("seq", seqs), ("at", ats), ("mower", mower_ids)):
            _require(name, values, reading)
        used = set(self._seen)
        for index, seq in enumerate(seqs):
            if seq is None:
                continue
            if not self._header.first_seq <= seq <= self._header.last_seq:
                reading.reject(index, "seq is outside of the batch's range")
            elif seq in used:
                reading.reject(index, "seq stands for two rows")
            used.add(seq)
        return reading, seqs, ats, mower_ids

    def _reject(self, seq: int | None, reason: str, values: dict[str, Any]) -> None:
        named = self._header.first_seq if seq is None else seq
        self.rejected.append((RejectedRow(seq=named, reason=reason), _encoder.encode(values)))


def _require(name: str, values: Sequence[object], reading: Reading) -> None:
    for index, value in enumerate(values):
        if value is None:
            reading.reject(index, f"{name} is missing or not usable")
