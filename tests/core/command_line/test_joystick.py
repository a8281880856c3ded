"""Keys of a terminal as a joystick: a key that does not repeat any more lets the mower stand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.command_line.joystick import FRAME_S, HOLD_S, STANDING_FRAME_S, Key, KeyReader, Stick
from core.domain.drive import DriveFrame, find_frame_mistakes


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"wasd", [Key.FORWARD, Key.LEFT, Key.BACK, Key.RIGHT]),
        (b"W", [Key.FORWARD]),
        (b"\x1b[A\x1b[B\x1b[D\x1b[C", [Key.FORWARD, Key.BACK, Key.LEFT, Key.RIGHT]),
        (b"\x1bOA", [Key.FORWARD]),
        (b"\x1b[1;2A", [Key.FORWARD]),
        (b" q\x03", [Key.STOP, Key.QUIT, Key.QUIT]),
        (b"xyz\xff\x00", []),
        (b"\x1b\x1b[A", [Key.FORWARD]),
        (b"\x1b[H", []),
    ],
)
def test_bytes_to_keys_however_they_are_cut(data: bytes, keys: list[Key]) -> None:
    assert KeyReader().read(data) == keys
    reader = KeyReader()
    assert [key for byte in data for key in reader.read(bytes([byte]))] == keys


def test_a_held_key_drives_at_ten_frames_a_second_and_letting_go_is_told_at_once() -> None:
    stick, at, frames = Stick(speed=0.5), 100.0, []
    sent: list[tuple[float, DriveFrame]] = []
    for tick in range(60):  # 3 s of 50 ms; the key is held for the first second
        now = at + tick * 0.05
        if now < at + 1.0:
            stick.press(Key.FORWARD, now)
        frame = stick.next_frame(now)
        if frame is not None:
            sent.append((now, frame))
            frames.append(frame)
    driving = [when for when, frame in sent if frame.linear == 0.5]
    standing = [when for when, frame in sent if frame.linear == 0.0]
    assert len(driving) in range(13, 16)
    assert all(later - sooner == pytest.approx(FRAME_S) for sooner, later in pairwise(driving))
    assert standing[0] == pytest.approx(at + 0.95 + HOLD_S, abs=0.051)
    assert standing[1] - standing[0] == pytest.approx(STANDING_FRAME_S)
    assert [frame.sequence for frame in frames] == list(range(1, len(frames) + 1))


def test_the_other_direction_and_the_stop_key_let_go() -> None:
    stick = Stick()
    stick.press(Key.FORWARD, 1.0)
    stick.press(Key.LEFT, 1.0)
    assert stick.position(1.1) == (1.0, 1.0)
    stick.press(Key.BACK, 1.1)
    assert stick.position(1.2) == (-1.0, 1.0)
    stick.press(Key.STOP, 1.2)
    assert stick.position(1.2) == (0.0, 0.0)
    frame = stick.next_frame(1.2)
    assert frame is not None
    assert (frame.linear, frame.angular) == (0.0, 0.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.sampled_from([None, *Key])), max_size=60))
def test_frames_are_always_in_order_and_never_outlive_the_keys(history: list[tuple[float, Key | None]]) -> None:
    stick, now, last, pressed_at = Stick(speed=0.7), 10.0, 0, -10.0
    for after, key in history:
        now += after
        if key is not None:
            stick.press(key, now)
            pressed_at = now
        frame = stick.next_frame(now)
        if frame is None:
            continue
        assert find_frame_mistakes(frame) == ()
        assert frame.sequence == last + 1
        last = frame.sequence
        if frame.linear or frame.angular:
            assert now - pressed_at < HOLD_S
