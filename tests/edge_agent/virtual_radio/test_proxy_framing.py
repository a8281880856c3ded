"""Frames of the emulated proxy, in pieces and against mistakes. The real client library is its peer in tests/edge_agent/proxies."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.virtual_radio.proxy_framing import ProxyFraming

MESSAGES = st.lists(st.tuples(st.integers(1, 400), st.binary(max_size=300)), max_size=6)


def plain() -> ProxyFraming:
    return ProxyFraming(name="shed", mac="A0:B7:65:00:00:01", key=None)


@given(messages=MESSAGES, cuts=st.lists(st.integers(0, 2_000), max_size=8))
def test_plain_frames_come_back_however_they_are_cut(messages: list[tuple[int, bytes]], cuts: list[int]) -> None:
    writer, reader = plain(), plain()
    for message in messages:
        writer.put(message)
    raw = writer.take_output()
    edges = sorted({0, len(raw), *(min(cut, len(raw)) for cut in cuts)})
    found = [message for start, end in pairwise(edges) for message in reader.feed(raw[start:end])]
    assert found == messages


def test_a_frame_as_the_documentation_has_it() -> None:
    framing = plain()
    framing.put((7, b""))
    framing.put((300, b"x" * 200))
    assert framing.take_output() == b"\x00\x00\x07" + b"\x00\xc8\x01\xac\x02" + b"x" * 200


def test_an_encrypting_client_learns_that_there_is_no_key() -> None:
    framing = plain()
    assert framing.feed(b"\x01\x00\x00") == []
    assert framing.is_over
    assert framing.take_output().startswith(b"\x00")


def test_a_plain_client_learns_that_there_is_a_key() -> None:
    framing = ProxyFraming(name="shed", mac="A0:B7:65:00:00:01", key=b"k" * 32)
    assert framing.feed(b"\x00\x00\x01") == []
    assert framing.is_over
    assert framing.take_output()[0] == 1
