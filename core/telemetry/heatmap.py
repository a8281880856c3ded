"""A mower's heatmap: what its track says of every cell of the lawn. See `core.telemetry.strays` for what it leaves out."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.telemetry.cell_grid import CellGrid, grid_over
from core.telemetry.mown_cells import mow_cells
from core.telemetry.signal_cells import Values, median_of, share_of
from core.telemetry.strays import has_place, is_on_lawn
from core.telemetry.swaths import join_swaths
from core.telemetry.track_columns import UNKNOWN, Layer, TrackColumns
from core.telemetry.track_plane import E7, TrackPlane, plane_around


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap:
    """`values` per cell (NaN: nothing known), eastwards, row by row to the north: passes, share of samples with a fixed
    solution (0..1), or median dBm."""

    layer: Layer
    grid: CellGrid
    corner: tuple[float, float] | None
    """Degrees (lat, lon) of the south-west corner; None for a grid without cells."""
    values: Values
    last_us: NDArray[np.int64] | None
    """Coverage: when each cell was last mown; 0 for never."""
    rows: int
    left_out: int
    """Rows without a place or far from the lawn."""


def make_heatmap(track: TrackColumns, *, layer: Layer, cell_m: float, width_m: float) -> Heatmap:
    """The heatmap of a track. InvalidInputError when the lawn has too many such cells."""
    at_us, lat_e7, lon_e7 = _view(track.at_us), _view(track.lat_e7), _view(track.lon_e7)
    readings = _view(track.readings)
    placed = has_place(lat_e7, lon_e7)
    plane = plane_around(lat_e7[placed], lon_e7[placed]) if placed.any() else TrackPlane(0, 0)
    east_m, north_m = plane.project(lat_e7, lon_e7)
    kept = placed.copy()
    kept[placed] = is_on_lawn(east_m[placed], north_m[placed])
    left_out = len(track) - int(kept.sum())
    if left_out and kept.any():  # the strays have pulled at the centre too
        plane = plane_around(lat_e7[kept], lon_e7[kept])
        east_m, north_m = plane.project(lat_e7, lon_e7)
    if layer == "coverage":
        # a stray row is no mown place, and it parts what it stands between
        running = (readings == 1) & kept
        cut_m = max(width_m, cell_m * 1.000001)  # a lane narrower than cells must not fall between their centres
        swaths = join_swaths(at_us, east_m, north_m, running, thinned_until_us=track.thinned_until_us)
        ends = (
            np.concatenate((swaths.from_east_m, swaths.to_east_m)),
            np.concatenate((swaths.from_north_m, swaths.to_north_m)),
        )
        grid = grid_over(*ends, cell_m=cell_m, margin_m=cut_m / 2.0 + cell_m)
        mown = mow_cells(swaths, grid, width_m=cut_m)
        values = np.where(mown.passes > 0, mown.passes, np.nan).astype(np.float64)
        last_us = np.where(mown.last_swath >= 0, np.append(swaths.ended_us, 0)[mown.last_swath], 0)
        return _heatmap(layer, grid, plane, values, last_us, len(track), left_out)
    kept &= readings != UNKNOWN
    east_m, north_m, readings = east_m[kept], north_m[kept], readings[kept]
    grid = grid_over(east_m, north_m, cell_m=cell_m)
    measure = share_of if layer == "rtk" else median_of
    values = measure(grid.cells_at(east_m, north_m), readings, size=grid.width * grid.height)
    return _heatmap(layer, grid, plane, values, None, len(track), left_out)


def _heatmap(
    layer: Layer, grid: CellGrid, plane: TrackPlane, values: Values, last_us: E7 | None, rows: int, left_out: int
) -> Heatmap:
    has_cells = grid.width > 0
    return Heatmap(
        layer=layer,
        grid=grid,
        corner=plane.unproject(grid.column * grid.cell_m, grid.row * grid.cell_m) if has_cells else None,
        values=values,
        last_us=last_us,
        rows=rows,
        left_out=left_out,
    )


def _view(column: array[int]) -> E7:
    return np.frombuffer(column, dtype=np.int64) if len(column) else np.zeros(0, np.int64)
