from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.husqvarna_ble.frames import (
    LONGEST,
    NOTIFY_BYTES,
    Event,
    Frame,
    FrameReader,
    HandshakeReply,
    HandshakeRequest,
    Request,
    Response,
    SetupReply,
    SetupRequest,
    Unknown,
    checksum,
    encode,
    find,
    pieces,
)
from tests.integrations.husqvarna_ble.vectors import CHANNEL, VECTORS

_u8 = st.integers(0, 0xFF)
_u16 = st.integers(0, 0xFFFF)
_u32 = st.integers(0, 0xFFFFFFFF)
_payload = st.binary(max_size=200)
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(SetupRequest, channel=_u32),
    st.builds(SetupReply, channel=_u32),
    st.builds(HandshakeRequest, channel=_u32),
    st.builds(HandshakeReply, channel=_u32),
    st.builds(Request, channel=_u32, group=_u16, number=_u16, payload=_payload),
    st.builds(Response, channel=_u32, group=_u16, number=_u16, result=_u8, payload=_payload),
    st.builds(Event, channel=_u32, group=_u16, number=_u16, rest=_payload),
)


@pytest.mark.parametrize(("name", "frame", "raw"), VECTORS, ids=[v[0] for v in VECTORS])
def test_published_frames_byte_for_byte(name, frame, raw):
    assert encode(frame).hex() == raw
    assert FrameReader().feed(bytes.fromhex(raw)) == [frame]


def test_checksum_is_crc8_maxim():
    assert checksum(b"123456789") == 0xA1


@given(frame=FRAMES)
def test_every_frame_comes_back(frame):
    assert FrameReader().feed(encode(frame)) == [frame]


@given(frames=st.lists(FRAMES, max_size=4), data=st.data())
def test_split_and_merged_at_every_boundary(frames, data):
    stream = b"".join(map(encode, frames))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    reader, found = FrameReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:end])
    assert found == frames
    assert reader.skipped == 0


def test_byte_by_byte_and_all_at_once():
    stream = bytes.fromhex("".join(raw for _, _, raw in VECTORS))
    expected = [frame for _, frame, _ in VECTORS]
    reader = FrameReader()
    assert [frame for byte in stream for frame in reader.feed(bytes([byte]))] == expected
    assert FrameReader().feed(stream) == expected


@settings(max_examples=200)
@given(chunks=st.lists(st.binary(max_size=80), max_size=20))
def test_arbitrary_bytes_raise_nothing_and_are_bounded(chunks):
    reader = FrameReader()
    for chunk in chunks:
        for frame in reader.feed(chunk):
            assert find(encode(frame)) == (0, len(encode(frame)))
        assert len(reader._buffer) <= LONGEST


_TRICKY = st.sampled_from(
    [b"\x02\xfd", b"\x02\xfd\xff\x00", b"\x02", b"\xfd", b"\x03", encode(SetupReply(channel=1))[:9]]
)


@settings(max_examples=200)
@given(noise=st.lists(st.one_of(_TRICKY, st.binary(max_size=30)), max_size=6), frame=FRAMES)
def test_a_whole_frame_is_found_after_any_noise(noise, frame):
    reader = FrameReader()
    reader.feed(b"".join(noise))
    after = [found for piece in pieces(encode(frame), NOTIFY_BYTES) for found in reader.feed(piece)]
    assert after == [frame]


@given(frame=FRAMES, data=st.data())
def test_one_wrong_byte_is_never_believed(frame, data):
    raw = bytearray(encode(frame))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    assert frame not in FrameReader().feed(bytes(raw))


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_notification_costs_one_frame(lost):
    long = Response(channel=CHANNEL, group=4726, number=0, result=0, payload=bytes(28))
    parts = list(pieces(encode(long), NOTIFY_BYTES))
    del parts[lost]
    follower = Response(channel=CHANNEL, group=4106, number=20, result=0, payload=b"\x57")
    reader = FrameReader()
    found = [frame for part in parts for frame in reader.feed(part)]
    found += [frame for part in pieces(encode(follower), NOTIFY_BYTES) for frame in reader.feed(part)]
    assert found == [follower]
    assert reader.skipped > 0


def test_a_response_that_is_shorter_than_it_says_is_no_response():
    frame = encode(Response(channel=1, group=4690, number=5, result=0, payload=bytes(19)))
    body = bytearray(frame)
    body[17] = 23  # what it says of its values' length, 4 more than there are
    body[-2] = checksum(bytes(body[1:-2]))
    assert FrameReader().feed(bytes(body)) == [Unknown(raw=bytes(body))]


def test_a_frame_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="too long"):
        encode(Request(channel=1, group=1, number=1, payload=bytes(300)))
