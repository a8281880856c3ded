"""Frames of real mowers byte for byte, and whatever may come in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pygrouw")

from integrations.grouw_ble import codec
from integrations.grouw_ble.protocol import LATE_S, AnswerReader, Asked, Session, StatusHeard, pieces
from integrations.grouw_ble.wire import Order, OtherAnswer, PinTold, Status
from tests.integrations.grouw_ble import vectors

NOON = datetime(2026, 6, 25, 12, tzinfo=UTC)
STATUSES = [vectors.STATUS_DOCKED, vectors.STATUS_MODE_0, vectors.STATUS_MODE_3, vectors.STATUS_OUTSIDE]


def asked(at: float) -> Asked:
    return Asked(at=at, began_at=NOON + timedelta(seconds=at))


def test_what_is_told_to_a_mower():
    assert codec.status_request() == vectors.STATUS_REQUEST
    assert codec.order(Order.START) == vectors.START
    assert codec.order(Order.RESUME) == vectors.RESUME
    assert codec.order(Order.PAUSE) == vectors.PAUSE
    assert codec.order(Order.DOCK) == vectors.DOCK
    assert codec.pin_request() == vectors.PIN_REQUEST
    assert codec.session_start(vectors.SESSION_AT) == vectors.SESSION


@pytest.mark.parametrize(
    ("frame", "battery", "station", "mode"),
    [
        (vectors.STATUS_DOCKED, 100, 1, 0x14),
        (vectors.STATUS_MODE_0, 100, 1, 0x00),
        (vectors.STATUS_MODE_3, 100, 1, 0x03),
        (vectors.STATUS_OUTSIDE, 100, 0, 0x00),
    ],
)
def test_what_a_mower_says(frame, battery, station, mode):
    status = codec.decode(frame)
    assert isinstance(status, Status)
    assert (status.battery, status.station, status.mode) == (battery, station, mode)
    assert status.data == frame[4:19]


@pytest.mark.parametrize("frame", [vectors.PIN_TOLD, vectors.PIN_TOLD_SHORT])
def test_the_pin_is_told_and_never_shown(frame):
    told = codec.decode(frame)
    assert told == PinTold(pin="1234")
    assert "1234" not in repr(told)
    assert AnswerReader().feed(frame) == [frame]


def test_what_is_no_pin_and_what_is_no_status():
    assert codec.decode(b"DYM\x8c\x01\x02\x03\x0a".ljust(19, b"\x00") + b"\x16\x06\x01") == PinTold(pin=None)
    assert codec.decode(b"DYM\x80".ljust(18, b"\x00") + b"\x16\x06\x01") == OtherAnswer(number=0x80)
    assert codec.decode(b"DYM\x86".ljust(19, b"\x00") + b"\x16\x06\x01") == OtherAnswer(number=0x86)
    for wrong in (b"", b"DYM", vectors.STATUS_DOCKED[:-1], vectors.STATUS_DOCKED + b"\x00", vectors.START):
        with pytest.raises(ValueError, match="whole"):
            codec.decode(wrong)


def test_an_unknown_station_is_kept_as_it_was_said():
    frame = bytearray(vectors.STATUS_DOCKED)
    frame[7], frame[12], frame[4] = 7, 0x63, 200
    status = codec.decode(bytes(frame))
    assert isinstance(status, Status)
    assert (status.battery, status.station, status.mode, status.is_in_station) == (200, 7, 0x63, None)


@given(st.lists(st.sampled_from([*STATUSES, vectors.PIN_TOLD]), max_size=6), st.integers(1, 40))
@settings(max_examples=100)
def test_answers_cut_and_joined_anywhere(frames, size):
    reader = AnswerReader()
    found = [frame for piece in pieces(b"".join(frames), size) for frame in reader.feed(piece)]
    assert found == frames
    assert reader.skipped == 0


@given(st.lists(st.sampled_from([*STATUSES, vectors.PIN_TOLD]), min_size=1, max_size=5), st.data())
@settings(max_examples=100)
def test_answers_cut_at_any_places(frames, data):
    stream = b"".join(frames)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    reader = AnswerReader()
    found = [
        frame
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for frame in reader.feed(stream[begin:end])
    ]
    assert found == AnswerReader().feed(stream) == frames


@given(
    st.sampled_from([*STATUSES, vectors.PIN_TOLD]),
    st.lists(st.tuples(st.integers(0, 21), st.integers(1, 255)), max_size=4),
)
@settings(max_examples=200)
def test_a_damaged_answer_leaves_no_session_stuck(frame, changes):
    damaged = bytearray(frame)
    for at, by in changes:
        damaged[at % len(damaged)] ^= by
    session = Session()
    session.ask_status(asked(0.0))
    session.feed(bytes(damaged), 0.1)
    session.ask_status(asked(1.0))
    assert any(isinstance(heard, StatusHeard) for heard in session.feed(vectors.STATUS_DOCKED * 3, 1.1))


@given(st.binary(max_size=60).filter(lambda noise: b"D" not in noise), st.sampled_from(STATUSES))
@settings(max_examples=100)
def test_noise_around_an_answer_is_passed_over(noise, frame):
    reader = AnswerReader()
    assert reader.feed(noise + frame + noise + frame) == [frame, frame]
    assert reader.skipped == 2 * len(noise)


@given(st.integers(1, 21), st.sampled_from(STATUSES))
def test_a_half_answer_spoils_only_itself(length, frame):
    reader = AnswerReader()
    assert reader.feed(frame[:length]) == []
    assert frame in reader.feed(frame + frame)


@given(st.lists(st.binary(max_size=48) | st.sampled_from([b"DYM", b"\x16\x06\x01", *STATUSES]), max_size=20))
@settings(max_examples=200)
def test_whatever_comes_in_nothing_is_raised_and_nothing_piles_up(chunks):
    session = Session()
    for at, chunk in enumerate(chunks):
        session.ask_status(asked(float(at)))
        for heard in session.feed(chunk, float(at)):
            if isinstance(heard, StatusHeard):
                assert heard.asked.at <= at
    assert len(session._reader._buffer) < 22
    assert len(session._asked) <= 16


@given(st.binary(min_size=15, max_size=15), st.integers(0, 255))
@settings(max_examples=200)
def test_every_whole_answer_is_understood_or_named(data, number):
    answer = codec.decode(b"DYM" + bytes([number]) + data + b"\x16\x06\x01")
    match answer:
        case Status(battery=battery, station=station, mode=mode):
            assert (number, battery, station, mode) == (0x80, data[0], data[3], data[8])
        case PinTold(pin=pin):
            assert number == 0x8C
            assert (pin is None) == any(digit > 9 for digit in data[:4])
        case OtherAnswer():
            assert number not in (0x80, 0x8C)


def test_a_status_is_never_taken_for_newer_than_it_is():
    session = Session()
    session.ask_status(asked(0.0))
    session.ask_status(asked(5.0))
    (first,) = session.feed(vectors.STATUS_DOCKED, 6.0)
    assert isinstance(first, StatusHeard)
    assert first.asked.at == 0.0, "it may be the answer to the first request, late"
    (second,) = session.feed(vectors.STATUS_DOCKED, 6.1)
    assert isinstance(second, StatusHeard)
    assert second.asked.at == 5.0
    assert session.feed(vectors.STATUS_DOCKED, 6.2) == []
    assert session.strays == 1


def test_a_lost_answer_is_forgotten_after_a_while():
    session = Session()
    session.ask_status(asked(0.0))
    session.ask_status(asked(LATE_S + 1))
    (heard,) = session.feed(vectors.STATUS_DOCKED, LATE_S + 1.2)
    assert isinstance(heard, StatusHeard)
    assert heard.asked.at == LATE_S + 1
