"""A grid of square cells over a part of a plane, of bounded size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.domain.errors import InvalidInputError
from core.telemetry.track_plane import Metres

MOST_CELLS = 4_000_000
Cells = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellGrid:
    """`column` and `row` count cells from the plane's centre to the south-west corner; cells are numbered eastwards,
    row by row to the north."""

    cell_m: float
    column: int = 0
    row: int = 0
    width: int = 0
    height: int = 0

    def cells_at(self, east_m: Metres, north_m: Metres) -> Cells:
        """The number of the cell of each place, which must lie within."""
        columns = np.floor(east_m / self.cell_m).astype(np.int64) - self.column
        rows = np.floor(north_m / self.cell_m).astype(np.int64) - self.row
        return rows * self.width + columns


def grid_over(east_m: Metres, north_m: Metres, *, cell_m: float, margin_m: float = 0.0) -> CellGrid:
    """The least grid over some places with a margin. InvalidInputError, naming a size that fits, beyond MOST_CELLS."""
    if len(east_m) == 0:
        return CellGrid(cell_m=cell_m)
    west, east = float(east_m.min()) - margin_m, float(east_m.max()) + margin_m
    south, north = float(north_m.min()) - margin_m, float(north_m.max()) + margin_m
    column, row = math.floor(west / cell_m), math.floor(south / cell_m)
    width, height = math.floor(east / cell_m) - column + 1, math.floor(north / cell_m) - row + 1
    if width * height > MOST_CELLS:
        fitting = _fitting_m(east - west, north - south)
        reason = f"{width} x {height} cells are more than {MOST_CELLS}; {fitting:g} would fit"
        raise InvalidInputError.of("cell_m", reason)
    return CellGrid(cell_m=cell_m, column=column, row=row, width=width, height=height)


def _fitting_m(wide_m: float, high_m: float) -> float:
    """The least of 1, 2 and 5 times a power of ten with which such a grid is small enough."""
    power = 10.0 ** math.floor(math.log10(math.sqrt(max(wide_m * high_m, 1.0) / MOST_CELLS)))
    sizes = (step * power * scale for scale in (1, 10, 100, 1_000, 10_000) for step in (1, 2, 5))
    return next(size for size in sizes if (wide_m / size + 2) * (high_m / size + 2) <= MOST_CELLS)
