"""Which cells of a lawn were mown: how often, and when last.

A cell is mown when its centre lies within half the cutting width of a swath. It is a new pass when no swath touched the
cell for more than RETURN_US: a mower that trembles or turns on the spot does not mow twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.telemetry.cell_grid import CellGrid, Cells
from core.telemetry.swaths import Swaths
from core.telemetry.track_plane import Metres

RETURN_US = 5_000_000
TRIED_CELLS = 1_000_000
"""Cells that are looked at in one go: what bounds the memory beside the grid's own."""
PIECE_M = 1.0

Counts = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class MownCells:
    """Per cell of the grid: passes, and the number of the last swath (-1: none)."""

    passes: Counts
    last_swath: Counts


def mow_cells(swaths: Swaths, grid: CellGrid, *, width_m: float, tried_cells: int = TRIED_CELLS) -> MownCells:
    """The mown cells of a grid that has all swaths within it, margin included; about `tried_cells` are held at a time."""
    size = grid.width * grid.height
    passes, last = np.zeros(size, np.int32), np.full(size, -1, np.int32)
    for cells, numbers in _touched(swaths, grid, width_m, tried_cells):
        _count(passes, last, cells, numbers, swaths)
    return MownCells(passes=passes, last_swath=last)


def _count(passes: Counts, last: Counts, cells: Cells, numbers: Cells, swaths: Swaths) -> None:
    """Adds what some swaths touched, later ones than all before."""
    keys = np.unique((cells << 32) | numbers)
    cells, numbers = keys >> 32, keys & 0xFFFF_FFFF
    is_first = np.ones(len(cells), np.bool_)
    is_first[1:] = cells[1:] != cells[:-1]
    before = np.empty_like(numbers)
    before[1:] = numbers[:-1]
    before[is_first] = last[cells[is_first]]
    is_new = (before < 0) | (swaths.began_us[numbers] - swaths.ended_us[before] > RETURN_US)
    starts = np.flatnonzero(is_first)
    touched = cells[starts]
    passes[touched] += np.add.reduceat(is_new.astype(np.int32), starts)
    last[touched] = numbers[np.append(starts[1:], len(cells)) - 1]


def _touched(swaths: Swaths, grid: CellGrid, width_m: float, tried_cells: int) -> Iterator[tuple[Cells, Cells]]:
    """Cells with the number of a swath that touches them, a few swaths at a time, in order."""
    length = np.hypot(swaths.to_east_m - swaths.from_east_m, swaths.to_north_m - swaths.from_north_m)
    piece_m = max(PIECE_M, 4.0 * grid.cell_m)
    count = np.maximum(1, np.ceil(length / piece_m)).astype(np.int64)
    most = ((piece_m + width_m) / grid.cell_m + 2.0) ** 2
    ends = np.cumsum(count)
    begin = 0
    while begin < len(swaths):
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + tried_cells / most, side="right")))
        number = np.repeat(np.arange(begin, end), count[begin:end])
        part = np.arange(len(number)) - np.repeat(ends[begin:end] - count[begin:end] - done, count[begin:end])
        low, high = part / count[number], (part + 1) / count[number]
        ax, ay = swaths.from_east_m[number], swaths.from_north_m[number]
        ux, uy = swaths.to_east_m[number] - ax, swaths.to_north_m[number] - ay
        cells, piece = _cells_under(ax + low * ux, ay + low * uy, ax + high * ux, ay + high * uy, grid, width_m / 2.0)
        if len(cells):
            yield cells, number[piece]
        begin = end


def _cells_under(ax: Metres, ay: Metres, bx: Metres, by: Metres, grid: CellGrid, reach_m: float) -> tuple[Cells, Cells]:
    """Cells whose centre is within reach of a piece of line, each with the piece's index."""
    cell_m = grid.cell_m

    def bounds(one: Metres, other: Metres) -> tuple[Cells, Cells]:
        first = np.ceil((np.minimum(one, other) - reach_m) / cell_m - 0.5).astype(np.int64)
        last = np.floor((np.maximum(one, other) + reach_m) / cell_m - 0.5).astype(np.int64)
        return first, np.maximum(0, last - first + 1)

    column, wide = bounds(ax, bx)
    row, high = bounds(ay, by)
    tried = wide * high
    piece = np.repeat(np.arange(len(ax)), tried)
    index = np.arange(len(piece)) - np.repeat(np.cumsum(tried) - tried, tried)
    columns, rows = column[piece] + index % wide[piece], row[piece] + index // wide[piece]
    ux, uy = bx - ax, by - ay
    uu = np.maximum(ux * ux + uy * uy, 1e-18)
    vx, vy = (columns + 0.5) * cell_m - ax[piece], (rows + 0.5) * cell_m - ay[piece]
    ux, uy = ux[piece], uy[piece]
    along = np.clip((vx * ux + vy * uy) / uu[piece], 0.0, 1.0)
    vx -= along * ux
    vy -= along * uy
    hit = np.flatnonzero(vx * vx + vy * vy <= reach_m * reach_m)
    return (rows[hit] - grid.row) * grid.width + (columns[hit] - grid.column), piece[hit]
