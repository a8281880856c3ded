"""Shares and medians per cell, against plain Python."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.telemetry.signal_cells import median_of, share_of

SIZE = 6
samples = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(-120, -30)), max_size=40)


@given(samples)
def test_medians_and_shares(found: list[tuple[int, int]]) -> None:
    cells = np.array([cell for cell, _ in found], dtype=np.int64)
    readings = np.array([dbm for _, dbm in found], dtype=np.int64)
    medians, shares = median_of(cells, readings, size=SIZE), share_of(cells, readings % 2, size=SIZE)
    for cell in range(SIZE):
        mine = [dbm for where, dbm in found if where == cell]
        if mine:
            assert medians[cell] == statistics.median(mine)
            assert shares[cell] == pytest.approx(sum(dbm % 2 for dbm in mine) / len(mine))
        else:
            assert np.isnan(medians[cell])
            assert np.isnan(shares[cell])
