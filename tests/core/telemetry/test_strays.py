"""What is left out of a heatmap: rows without a place, and islands where the mower has hardly ever been."""

from __future__ import annotations

import numpy as np
import pytest

from core.telemetry.strays import has_place, is_on_lawn


def test_places() -> None:
    lats = np.array([0, 50, 99, 100, 481_000_000, 900_000_001, 0])
    lons = np.array([0, -50, 99, 0, 115_000_000, 0, -1_800_000_001])
    assert has_place(lats, lons).tolist() == [False, False, False, True, True, False, False]


@pytest.mark.parametrize(("far", "is_kept"), [(1, False), (9, False), (11, True)])
def test_an_island_needs_a_hundredth_of_the_rows(far: int, is_kept: bool) -> None:
    east = np.concatenate((np.linspace(-20, 90, 1_000), np.full(far, -500.0)))
    kept = is_on_lawn(east, np.zeros(len(east)))
    assert kept[:1_000].all()
    assert kept[1_000:].all() == is_kept == kept[1_000:].any()


def test_a_thin_strip_that_touches_the_lawn_belongs_to_it() -> None:
    east = np.concatenate((np.full(1_000, 10.0), [60.0, 110.0, 260.0]))
    north = np.concatenate((np.full(1_000, 10.0), [60.0, 10.0, 10.0]))
    assert is_on_lawn(east, north).tolist()[1_000:] == [True, True, False]


def test_nothing_and_the_other_side_of_the_earth() -> None:
    assert is_on_lawn(np.zeros(0), np.zeros(0)).tolist() == []
    assert is_on_lawn(np.array([0.0, 0.0, 6e6]), np.zeros(3)).tolist() == [True, True, False]
