"""Frames of a joystick have bounds."""

from __future__ import annotations

import math

import msgspec
import pytest

from core.domain.drive import DriveFrame, find_frame_mistakes

GOOD = DriveFrame(sequence=0, linear=-1.0, angular=1.0, ttl_ms=100, sent_ms=0)


def test_the_bounds_themselves_are_taken() -> None:
    assert find_frame_mistakes(GOOD) == ()
    assert find_frame_mistakes(DriveFrame(sequence=2**53 - 1, linear=0.0, angular=0.0, ttl_ms=1000)) == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sequence", -1),
        ("sequence", 2**53),
        ("linear", 1.0001),
        ("linear", -1.0001),
        ("linear", math.nan),
        ("angular", math.inf),
        ("angular", -math.inf),
        ("ttl_ms", 99),
        ("ttl_ms", 1001),
        ("ttl_ms", -500),
        ("sent_ms", -1),
    ],
)
def test_what_is_outside_is_named(field: str, value: float) -> None:
    wrong = msgspec.structs.replace(GOOD, **{field: value})
    assert [mistake.field for mistake in find_frame_mistakes(wrong)] == [field]
