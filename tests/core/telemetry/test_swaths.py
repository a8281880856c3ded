"""Swaths: joined near in time and space with the blades on, wider where rows may have been thinned."""

from __future__ import annotations

import numpy as np
import pytest

from core.telemetry.swaths import WIDE_JOIN_M, WIDE_JOIN_S, join_swaths

YOUNG, OLD = 0, 2**62


def count(*rows: tuple[float, float, bool], thinned_until_us: int = YOUNG) -> int:
    """Swaths of rows (second, metres north, blades)."""
    at_us = np.array([round(at_s * 1e6) for at_s, _, _ in rows], dtype=np.int64)
    north = np.array([north for _, north, _ in rows], dtype=np.float64)
    running = np.array([blades for _, _, blades in rows], dtype=np.bool_)
    return len(join_swaths(at_us, np.zeros(len(rows)), north, running, thinned_until_us=thinned_until_us))


def test_the_wide_limits() -> None:
    assert (WIDE_JOIN_S, pytest.approx(21.67, abs=0.01)) == (65.0, WIDE_JOIN_M)


@pytest.mark.parametrize(("until", "most_s", "most_m"), [(YOUNG, 30.0, 10.0), (OLD, 65.0, 21.666)])
def test_at_most_so_far_apart(until: int, most_s: float, most_m: float) -> None:
    assert count((1, 0, True), (1 + most_s, 1, True), thinned_until_us=until) == 1
    assert count((1, 0, True), (1.001 + most_s, 1, True), thinned_until_us=until) == 0
    assert count((1, 0, True), (2, most_m, True), thinned_until_us=until) == 1
    assert count((1, 0, True), (2, most_m + 0.002, True), thinned_until_us=until) == 0


def test_the_older_row_decides_which_limits() -> None:
    assert count((10, 0, True), (70, 1, True), thinned_until_us=10_000_001) == 1
    assert count((10, 0, True), (70, 1, True), thinned_until_us=10_000_000) == 0


def test_blades_that_stand_mow_nothing_and_neither_does_a_jump() -> None:
    assert count((0, 0, True), (1, 0.3, True), (2, 0.6, False), (3, 0.9, True), (4, 1.2, True)) == 2
    assert count((0, 0, True), (1, 0.3, True), (2, 500, True), (3, 0.9, True), (4, 1.2, True)) == 2
    assert count() == count((0, 0, True)) == 0
