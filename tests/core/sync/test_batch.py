"""The batch codec: exact both ways, one bad row costs itself only, and no bytes break it."""

from __future__ import annotations

import math
import random
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain import limits
from core.domain.clock import from_us
from core.domain.commands import CommandResult, CommandStatus
from core.domain.errors import MalformedMessageError
from core.domain.ids import CommandId, MowerId, StreamId
from core.domain.mower import Activity, Connectivity, RtkFix
from core.sync.batch import Batch, decode_batch, encode_batch, fit_batch
from core.sync.columns import TEXT_MAX
from core.telemetry.rows import HistoryRow, PositionRow, RecordRow, SequencedRow, TimelineRow
from tests.core.sync.strategies import FIRST_US, sequences

STREAM = StreamId("s1")


def track(count: int, *, first_seq: int = 1, mowers: int = 1, seed: int = 1) -> tuple[SequencedRow, ...]:
    """A mowing track at 1 Hz with noise and times in microseconds."""
    rng = random.Random(seed)
    rows = []
    for index in range(count):
        mower = index % mowers
        rows.append(
            SequencedRow(
                seq=first_seq + index,
                row=PositionRow(
                    mower_id=MowerId(f"mower-{mower}"),
                    observed_at=from_us(FIRST_US + index * 1_000_000 // mowers + rng.randrange(20_000)),
                    lat=round(48_0000000 + mower * 100_000 + index * 30 + rng.randrange(-9, 9)) / 1e7,
                    lon=round(11_0000000 + mower * 100_000 + rng.randrange(-90, 90)) / 1e7,
                    heading_deg=round(90 + rng.random() * 4, 1),
                    accuracy_m=0.02,
                    rtk_fix=RtkFix.FIXED,
                    blades_on=True,
                    satellites=20 + rng.randrange(3),
                ),
            )
        )
    return tuple(rows)


def body_of(data: bytes) -> tuple[bytes, dict[str, Any]]:
    header, compressed = data.split(b"\n", 1)
    return header, msgspec.json.decode(zlib.decompress(compressed))


def with_body(data: bytes, change: dict[str, Any]) -> bytes:
    header, _ = body_of(data)
    return header + b"\n" + zlib.compress(msgspec.json.encode(change))


@settings(max_examples=150, deadline=None)
@given(sequences())
def test_rows_come_back_exactly(rows: tuple[SequencedRow, ...]) -> None:
    first, last = (rows[0].seq, rows[-1].seq) if rows else (5, 9)
    batch = decode_batch(encode_batch(STREAM, first, last, rows))
    assert batch == Batch(stream_id=STREAM, first_seq=first, last_seq=last, rows=rows)


@settings(max_examples=40, deadline=None)
@given(sequences(max_size=60), st.integers(400, 2_000), st.integers(1, 40))
def test_a_backlog_is_cut_into_contiguous_batches(rows: tuple[SequencedRow, ...], size: int, count: int) -> None:
    first, end = (rows[0].seq if rows else 1), (rows[-1].seq if rows else 0) + 7
    got: list[SequencedRow] = []
    left = rows
    while first <= end:
        data, last = fit_batch(STREAM, first, end, left, max_rows=count, max_bytes=size)
        batch = decode_batch(data)
        assert (batch.first_seq, batch.last_seq) == (first, last)
        assert len(batch.rows) <= count
        assert len(data) <= size or len(batch.rows) <= 1
        got.extend(batch.rows)
        left = left[len(batch.rows) :]
        first = last + 1
    assert tuple(got) == rows


def test_a_thousand_positions_take_little() -> None:
    for mowers, most in ((1, 8.0), (10, 9.5)):
        data, last = fit_batch(STREAM, 1, 1_000, track(1_000, mowers=mowers))
        assert last == 1_000
        assert len(data) / 1_000 <= most


def test_incompressible_rows_are_spread_over_batches() -> None:
    rng = random.Random(1)
    rows = tuple(
        SequencedRow(
            seq=seq,
            row=TimelineRow(
                result=CommandResult(
                    command_id=CommandId(f"c{seq}"),
                    mower_id=MowerId("m"),
                    status=CommandStatus.FAILED,
                    at=from_us(FIRST_US),
                    reason=rng.randbytes(1_000).hex(),
                )
            ),
        )
        for seq in range(1, 201)
    )
    data, last = fit_batch(STREAM, 1, 200, rows)
    assert len(data) <= limits.BATCH_BYTES
    assert 30 < last < 200


def test_any_single_row_fits() -> None:
    rng = random.Random(2)
    wild = "".join(chr(rng.randrange(0x10000, 0x10FFFF)) for _ in range(100_000))
    row = HistoryRow(
        mower_id=MowerId("m"),
        observed_at=from_us(FIRST_US),
        activity=Activity.ERROR,
        connectivity=Connectivity.ONLINE,
        error_code=wild,
    )
    data, _ = fit_batch(STREAM, 1, 1, [SequencedRow(seq=1, row=row)])
    assert len(data) <= limits.BATCH_BYTES
    back = decode_batch(data).rows[0].row
    assert back == msgspec.structs.replace(row, error_code=wild[:TEXT_MAX])


def test_values_that_no_json_carries_become_no_value_or_cost_their_row_only() -> None:
    rows = list(track(3))
    rows[0] = SequencedRow(seq=1, row=msgspec.structs.replace(rows[0].row, heading_deg=math.nan, accuracy_m=math.inf))
    rows[1] = SequencedRow(seq=2, row=msgspec.structs.replace(rows[1].row, lat=math.nan))
    batch = decode_batch(encode_batch(STREAM, 1, 3, rows))
    assert [item.seq for item in batch.rows] == [1, 3]
    assert batch.rows[0].row == msgspec.structs.replace(rows[0].row, heading_deg=None, accuracy_m=None)
    assert batch.rows[1] == rows[2]
    assert [(bad.seq, bad.reason) for bad, _ in batch.rejected] == [(2, "lat is missing or not usable")]


def test_a_poison_row_is_rejected_with_its_bytes_and_blocks_nothing() -> None:
    rows = track(4)
    data = encode_batch(STREAM, 1, 4, rows)
    _, body = body_of(data)
    body["positions"]["satellites"][2] = "many"
    batch = decode_batch(with_body(data, body))
    assert [item.seq for item in batch.rows] == [1, 2, 4]
    ((bad, raw),) = batch.rejected
    assert (bad.seq, bad.reason) == (3, "satellites is not a number")
    assert msgspec.json.decode(raw)["seq"] == 3


def test_a_broken_link_of_a_chain_costs_all_rows_after_it() -> None:
    """A delta builds on the ones before: rows after a bad one would be wrong without anybody noticing."""
    data = encode_batch(STREAM, 1, 4, track(4))
    for column in ("lat", "at"):
        _, body = body_of(data)
        body["positions"][column][1] = "x"
        batch = decode_batch(with_body(data, body))
        assert [item.seq for item in batch.rows] == [1]
        assert [bad.seq for bad, _ in batch.rejected] == [2, 3, 4]


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("mower", 7),
        ("mower", None),
        ("rtk_fix", 99),
        ("rtk_fix", -1),
        ("satellites", 2**60),
        ("satellites", 1.5),
        ("blades_on", 2),
        ("lat", 10**10),
        ("at", 10**30),
        ("seq", 50),
    ],
)
def test_wrong_cells_at_the_end(column: str, cell: object) -> None:
    data = encode_batch(STREAM, 1, 4, track(4))
    _, body = body_of(data)
    body["positions"][column][3] = cell
    batch = decode_batch(with_body(data, body))
    assert [item.seq for item in batch.rows] == [1, 2, 3]
    assert len(batch.rejected) == 1


def records(count: int, body: bytes) -> tuple[SequencedRow, ...]:
    at = from_us(FIRST_US)
    return tuple(
        SequencedRow(
            seq=seq,
            row=RecordRow(mower_id=MowerId("m"), kind="note", key=f"k{seq}", at=at, updated_at=at, body=body),
        )
        for seq in range(1, count + 1)
    )


def test_only_a_batch_with_records_needs_a_relay_that_knows_them() -> None:
    for rows, version in ((track(2), b'{"v":1,'), (records(2, b"{}"), b'{"v":2,')):
        assert encode_batch(STREAM, 1, 2, rows).startswith(version)


def test_records_that_compress_well_are_spread_so_that_every_batch_may_be_inflated() -> None:
    rows = records(1_000, b'{"text":"' + b"x" * (limits.RECORD_BYTES - 11) + b'"}')
    first, got = 1, []
    while first <= 1_000:
        data, last = fit_batch(STREAM, first, 1_000, rows[first - 1 :])
        batch = decode_batch(data)
        assert batch.rejected == ()
        assert len(data) <= limits.BATCH_BYTES
        got += batch.rows
        first = last + 1
    assert tuple(got) == rows


@pytest.mark.parametrize(
    "body", [b"[]", b"5", b'{"a":', b'{"a":"\xff"}', b'{"a":"' + b"x" * limits.RECORD_BYTES + b'"}', b'{"a":NaN}']
)
def test_a_body_that_is_none_costs_its_row_only(body: bytes) -> None:
    rows = list(records(3, b'{"a":1}'))
    rows[1] = SequencedRow(seq=2, row=msgspec.structs.replace(rows[1].row, body=body))
    batch = decode_batch(encode_batch(STREAM, 1, 3, rows))
    assert [item.seq for item in batch.rows] == [1, 3]
    assert [bad.seq for bad, _ in batch.rejected] == [2]


def test_a_peer_that_sends_no_object_or_too_much_is_refused_row_by_row() -> None:
    data = encode_batch(STREAM, 1, 3, records(3, b'{"a":1}'))
    _, body = body_of(data)
    body["records"]["body"][0:2] = [[1], {"a": "x" * limits.RECORD_BYTES}]
    batch = decode_batch(with_body(data, body))
    assert [item.seq for item in batch.rows] == [3]
    assert {bad.seq: bad.reason for bad, _ in batch.rejected} == {1: "body is malformed", 2: "body is too-large"}


def test_two_rows_of_one_number_do_not_both_pass() -> None:
    data = encode_batch(STREAM, 1, 4, track(4))
    _, body = body_of(data)
    body["positions"]["seq"][2] = 0
    batch = decode_batch(with_body(data, body))
    assert [item.seq for item in batch.rows] == [1, 2, 3]
    assert batch.rejected[0][0].reason == "seq stands for two rows"


def test_a_newer_peer_may_add_words_columns_tables_and_fields() -> None:
    rows = track(2)
    data = encode_batch(STREAM, 1, 2, rows)
    header, body = body_of(data)
    body["words"][body["positions"]["rtk_fix"][0]] = "quantum"
    body["positions"]["colour"] = ["green", {"deep": []}]
    body["weather"] = {"seq": [1]}
    newer = header.replace(b"}", b',"sent_by":"tomorrow"}') + b"\n" + zlib.compress(msgspec.json.encode(body))
    batch = decode_batch(newer)
    assert batch.rejected == ()
    assert [item.row for item in batch.rows] == [
        msgspec.structs.replace(item.row, rtk_fix=RtkFix.UNKNOWN) for item in rows
    ]


def test_an_unknown_status_of_a_command_is_not_guessed() -> None:
    row = TimelineRow(
        result=CommandResult(
            command_id=CommandId("c"), mower_id=MowerId("m"), status=CommandStatus.EXECUTED, at=from_us(FIRST_US)
        )
    )
    data = encode_batch(STREAM, 1, 1, [SequencedRow(seq=1, row=row)])
    _, body = body_of(data)
    body["words"] = ["undone" if word == "executed" else word for word in body["words"]]
    batch = decode_batch(with_body(data, body))
    assert batch.rows == ()
    assert batch.rejected[0][0].seq == 1


@pytest.mark.parametrize(
    "compressed",
    [
        b"",
        b"nonsense",
        zlib.compress(b"{}")[:-3],
        zlib.compress(b"[]"),
        zlib.compress(b'{"positions":{"lat":[1]}}'),
        zlib.compress(b'{"positions":{"seq":[],"at":[],"mower":[]}}'),
        zlib.compress(b'{"history":{"seq":[' + b"1," * 1_000 + b'1],"at":[],"mower":[]}}'),
        zlib.compress(b'{"words":' + b"[" * 100_000),
        zlib.compress(b" " * (limits.BATCH_BYTES_RAW + 1)),
        zlib.compress(b'{"words":["\xff"]}'),
    ],
    ids=["none", "nonsense", "cut", "list", "keyless", "empty", "too-many", "deep", "bomb", "no-utf8"],
)
def test_an_unreadable_body_is_rejected_as_one_for_its_range(compressed: bytes) -> None:
    header = encode_batch(STREAM, 11, 20, ()).split(b"\n", 1)[0]
    data = header + b"\n" + compressed
    batch = decode_batch(data)
    assert (batch.first_seq, batch.last_seq, batch.rows) == (11, 20, ())
    ((bad, raw),) = batch.rejected
    assert bad.seq == 11
    assert bad.reason.startswith("rows 11 to 20 cannot be read")
    assert raw == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"{}\n",
        b'{"v":3,"stream_id":"s","first_seq":1,"last_seq":1}\n',
        b'{"v":0,"stream_id":"s","first_seq":1,"last_seq":1}\n',
        b'{"v":1,"stream_id":"s/t","first_seq":1,"last_seq":1}\n',
        b'{"v":1,"stream_id":"s","first_seq":2,"last_seq":1}\n',
        b'{"v":1,"stream_id":"s","first_seq":0,"last_seq":1}\n',
        b'{"v":1,"stream_id":"s","first_seq":1,"last_seq":9999999999999999999}\n',
        b"[" * 5_000,
    ],
)
def test_without_a_header_nothing_can_be_said(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_batch(data)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_refused_or_understood(data: bytes) -> None:
    for candidate in (data, b'{"v":1,"stream_id":"s","first_seq":1,"last_seq":9}\n' + zlib.compress(data)):
        try:
            decode_batch(candidate)
        except MalformedMessageError:
            assert candidate is data


@settings(max_examples=200, deadline=None)
@given(sequences(max_size=6), st.data())
def test_mutated_bodies_are_refused_or_understood(rows: tuple[SequencedRow, ...], data: st.DataObject) -> None:
    first, last = (rows[0].seq, rows[-1].seq) if rows else (1, 1)
    header, compressed = encode_batch(STREAM, first, last, rows).split(b"\n", 1)
    body = bytearray(zlib.decompress(compressed))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position : position + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from(
                [b"", b"-", b"9", b"null", b"1e999", b"99999999999999999999", b'"', b"[", b"{", b",", b"\xff"]
            )
        )
        if not body:
            break
    batch = decode_batch(header + b"\n" + zlib.compress(bytes(body)))
    assert all(first <= item.seq <= last for item in batch.rows)
