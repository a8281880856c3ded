"""Rows that say nothing of the lawn: no place at all, or a jump to where the mower has hardly ever been.

Admission refuses most of them; a heatmap is made of years of rows, some of other versions, and one row 500 m away would
stretch it over a square kilometre. The lawn is where the rows are: squares of 50 m that touch (also at a corner) are one
island, and an island with less than a hundredth of all rows is left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.telemetry.track_plane import E7, Metres

SQUARE_M = 50.0
LEAST_SHARE = 0.01
NULL_ISLAND_E7 = 100
FARTHEST_M = 100_000.0
"""A mower's track has one centre; rows farther away are not told from a receiver's nonsense."""

Flags = NDArray[np.bool_]
Square = tuple[int, int]


def has_place(lat_e7: E7, lon_e7: E7) -> Flags:
    """Within WGS84's bounds, and not within a metre of (0, 0), which is what a receiver without a fix says."""
    is_nowhere = (np.abs(lat_e7) < NULL_ISLAND_E7) & (np.abs(lon_e7) < NULL_ISLAND_E7)
    return (np.abs(lat_e7) <= 900_000_000) & (np.abs(lon_e7) <= 1_800_000_000) & ~is_nowhere


def is_on_lawn(east_m: Metres, north_m: Metres) -> Flags:
    """Whether each place lies on an island with at least LEAST_SHARE of them."""
    near: Flags = np.hypot(east_m, north_m) <= FARTHEST_M
    column = np.floor(np.where(near, east_m, 0.0) / SQUARE_M).astype(np.int64)
    row = np.floor(np.where(near, north_m, 0.0) / SQUARE_M).astype(np.int64)
    keys, which, counts = np.unique((row << 32) + column, return_inverse=True, return_counts=True)
    rows = (keys + (1 << 31)) >> 32
    squares = list(zip(rows.tolist(), (keys - (rows << 32)).tolist(), strict=True))
    kept = _find_kept(dict(zip(squares, counts.tolist(), strict=True)), LEAST_SHARE * len(east_m))
    return near & np.array([square in kept for square in squares], dtype=np.bool_)[which]


def _find_kept(counts: dict[Square, int], least: float) -> set[Square]:
    left, kept = set(counts), set[Square]()
    while left:
        island, edge = set[Square](), [left.pop()]
        while edge:
            square = edge.pop()
            island.add(square)
            around = {(square[0] + dy, square[1] + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= around
            edge.extend(around)
        if sum(counts[square] for square in island) >= least:
            kept |= island
    return kept
