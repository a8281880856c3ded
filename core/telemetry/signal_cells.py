"""What was measured within each cell: the share of samples with a flag, or the median of readings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.telemetry.cell_grid import Cells

Values = NDArray[np.float64]


def share_of(cells: Cells, flags: NDArray[np.int64], *, size: int) -> Values:
    """Per cell of `size`: how many of its samples are 1 instead of 0, 0..1; NaN without any."""
    seen = np.bincount(cells, minlength=size)
    true = np.bincount(cells, weights=flags, minlength=size)
    shares = np.full(size, np.nan)
    np.divide(true, seen, out=shares, where=seen > 0)
    return shares


def median_of(cells: Cells, readings: NDArray[np.int64], *, size: int) -> Values:
    """Per cell of `size` the median of its readings (the mean of the middle two); NaN without any."""
    medians = np.full(size, np.nan)
    if len(cells):
        order = np.lexsort((readings, cells))
        cells, readings = cells[order], readings[order]
        starts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        counts = np.diff(np.append(starts, len(cells)))
        low, high = readings[starts + (counts - 1) // 2], readings[starts + counts // 2]
        medians[cells[starts]] = (low + high) / 2.0
    return medians
