"""Mown cells: those with their centre under the cut, how often, and by which swath last."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.telemetry.cell_grid import CellGrid, grid_over
from core.telemetry.mown_cells import TRIED_CELLS, MownCells, mow_cells
from core.telemetry.swaths import Swaths

Line = tuple[float, float, float, float, float, float]
metres = st.floats(-3.0, 3.0)


def swaths_of(lines: list[Line]) -> Swaths:
    """From (from x, from y, to x, to y, began s, ended s)."""
    columns = np.array(lines, dtype=np.float64).reshape(-1, 6).T
    return Swaths(
        from_east_m=columns[0],
        from_north_m=columns[1],
        to_east_m=columns[2],
        to_north_m=columns[3],
        began_us=(columns[4] * 1e6).astype(np.int64),
        ended_us=(columns[5] * 1e6).astype(np.int64),
    )


def mow(
    lines: list[Line], *, width_m: float, cell_m: float, tried_cells: int = TRIED_CELLS
) -> tuple[MownCells, CellGrid]:
    swaths = swaths_of(lines)
    east = np.concatenate((swaths.from_east_m, swaths.to_east_m))
    north = np.concatenate((swaths.from_north_m, swaths.to_north_m))
    grid = grid_over(east, north, cell_m=cell_m, margin_m=width_m / 2 + cell_m)
    return mow_cells(swaths, grid, width_m=width_m, tried_cells=tried_cells), grid


@given(
    st.lists(st.tuples(metres, metres, metres, metres), min_size=1, max_size=4),
    st.floats(0.1, 1.0),
    st.floats(0.1, 0.5),
)
@settings(max_examples=40)
def test_the_cells_are_those_with_their_centre_within_half_a_width(
    ends: list[tuple[float, float, float, float]], width_m: float, cell_m: float
) -> None:
    """Against the distance of every cell of the grid, by projection on each line."""
    mown, grid = mow([(*end, n, n + 0.5) for n, end in enumerate(ends)], width_m=width_m, cell_m=cell_m)
    for cell in range(grid.width * grid.height):
        x = (grid.column + cell % grid.width + 0.5) * cell_m
        y = (grid.row + cell // grid.width + 0.5) * cell_m
        nearest = min(_distance(x, y, *end) for end in ends)
        if abs(nearest - width_m / 2) > 1e-6:
            assert (mown.passes[cell] > 0) == (nearest < width_m / 2)
            assert (mown.last_swath[cell] >= 0) == (mown.passes[cell] > 0)


def _distance(x: float, y: float, ax: float, ay: float, bx: float, by: float) -> float:
    length = math.dist((ax, ay), (bx, by))
    along = 0.0 if length == 0 else max(0.0, min(1.0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length**2))
    return math.dist((x, y), (ax + along * (bx - ax), ay + along * (by - ay)))


def test_an_area_is_as_large_as_it_is() -> None:
    """10 m with a cut of 0.22 m and half a circle at both ends."""
    mown, _ = mow([(0.1, 0.2, 7.1, 7.34, 0, 20)], width_m=0.22, cell_m=0.02)
    exact = math.dist((0.1, 0.2), (7.1, 7.34)) * 0.22 + math.pi * 0.11**2
    assert int((mown.passes > 0).sum()) * 0.02**2 == pytest.approx(exact, rel=0.01)


def back_and_forth() -> list[Line]:
    there: list[Line] = [(n / 10, 0.0, (n + 1) / 10, 0.0, n, n + 1) for n in range(20)]
    return [
        *there,
        *((x1, y1, x0, y0, 39 - n, 40 - n) for n, (x0, y0, x1, y1, _, _) in reversed(list(enumerate(there)))),
    ]


@pytest.mark.parametrize("tried", [1, 1_000, 1_000_000])
def test_coming_back_is_another_pass_and_turning_is_none(tried: int) -> None:
    """However few swaths are looked at in one go."""
    mown, grid = mow(back_and_forth(), width_m=0.5, cell_m=0.25, tried_cells=tried)
    first, turning = (int(grid.cells_at(np.array([x]), np.array([0.1]))[0]) for x in (0.1, 1.9))
    assert (mown.passes[first], mown.last_swath[first]) == (2, 39)
    assert mown.passes[turning] == 1
    once, _ = mow(back_and_forth()[:20], width_m=0.5, cell_m=0.25)
    assert set(once.passes.tolist()) == {0, 1}
