"""Which rows of an old track survive, and how far from what is left the others lie: the pure rule that each store
repeats in SQL, to the row.

A row survives when it is, among its neighbours before any deletion,
- the first of its bin: 30 s wide while the blades run or the mower moved more than 1 m since the row before, else
  300 s; rows of either width have bins of their own;
- an edge: beside a gap of more than 120 s (or the end of the track), or beside a change of blades or fix;
- a turn: bent by more than 25 degrees between the nearest rows at least 0.3 m of path away on both sides, which are at
  most CONTEXT_US away in time;
- observed at the instant of an error;
- or, after all of these, the farthest of its gap while that lies beyond the tolerance from the straight piece of line
  between the gap's surviving neighbours.

Both bins begin on the 5-minute grid, so the first row in each cell of the grid survives, no gap reaches over the first
row of the next cell, and a track may be thinned cell by cell: the result is the same.

Arithmetic: coordinates are whole 1e-7 degrees; metres are differences of these times the scale (`track_scale`) at the
bent row, the later row of a step, or the earlier neighbour of a gap. Lengths of path are whole micrometres, so that
their sums do not depend on where one begins. SQL does the same operations in the same order.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from core.telemetry.binning import bin_start_us
from core.telemetry.track_scale import east_m, north_m, shortest_turn, squared_latitude

FINE_BIN_S = 30
COARSE_BIN_S = 300
GRID_US = COARSE_BIN_S * 1_000_000
"""Slices begin and end on multiples of this since 2000-01-01."""
GAP_US = 120_000_000
MOVED_UM = 1_000_000
ARM_UM = 300_000
CONTEXT_US = 600_000_000
TURN_COSINE_SQUARED = math.cos(math.radians(25.0)) ** 2
BLADES_TOLERANCE_M = 0.05
TOLERANCE_M = 0.5
BLADES_TOLERANCE_M2 = BLADES_TOLERANCE_M * BLADES_TOLERANCE_M
TOLERANCE_M2 = TOLERANCE_M * TOLERANCE_M

_MM_PER_M = 1_000.2
"""A fifth of a per mille more than there are: what planes around different rows may differ by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackPoint:
    """What the rules see of a row: microseconds since 1970, whole 1e-7 degrees. A fix is only compared."""

    at_us: int
    lat_e7: int
    lon_e7: int
    rtk_fix: str | int | None = None
    blades_on: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinned:
    """Times of the rows that survive, and of the others with the square of their distance in metres from the line
    that is left."""

    kept: frozenset[int]
    dropped: Mapping[int, float]

    @property
    def error_mm(self) -> int:
        """The stated error: no dropped row is farther from the line that is left. 0 when none was dropped."""
        return stated_mm(max(self.dropped.values())) if self.dropped else 0


def keep_set(rows: Sequence[TrackPoint], error_times: Collection[int] = ()) -> frozenset[int]:
    """Times (`at_us`) of the rows that survive, of the whole track of one mower."""
    return thin(rows, error_times).kept


def thin(rows: Sequence[TrackPoint], error_times: Collection[int] = ()) -> Thinned:
    """Judges the whole track of one mower, ascending in time with no time twice; `error_times` are microseconds."""
    track = JudgedTrack(rows)
    kept = track.find_by_rules(frozenset(error_times))
    dropped = track.bound(kept)
    return Thinned(
        kept=frozenset(row.at_us for row, is_kept in zip(rows, kept, strict=True) if is_kept),
        dropped={rows[index].at_us: square for index, square in dropped.items()},
    )


def stated_mm(square_m2: float) -> int:
    """A squared distance as whole millimetres that are more, by one at most or a fifth of a per mille."""
    return int(math.sqrt(square_m2) * _MM_PER_M) + 1


class JudgedTrack:
    """One track with its scales, steps and lengths of path; rows go by their index."""

    def __init__(self, rows: Sequence[TrackPoint]) -> None:
        self._rows = rows
        squares = [squared_latitude(row.lat_e7) for row in rows]
        self._north = [north_m(z) for z in squares]
        self._east = [east_m(z) for z in squares]
        self._steps = [0 if index == 0 else self._step_um(index) for index in range(len(rows))]
        self._path = []
        length = 0
        for step in self._steps:
            length += step
            self._path.append(length)

    def _step_um(self, index: int) -> int:
        before, here = self._rows[index - 1], self._rows[index]
        dx = shortest_turn(here.lon_e7 - before.lon_e7) * self._east[index]
        dy = (here.lat_e7 - before.lat_e7) * self._north[index]
        return int(math.sqrt(dx * dx + dy * dy) * 1e6)

    def find_by_rules(self, error_times: Collection[int]) -> list[bool]:
        """All rules but the bound."""
        bins: set[tuple[int, int]] = set()
        kept = []
        for index, row in enumerate(self._rows):
            is_fine = row.blades_on is True or self._steps[index] > MOVED_UM
            step_s = FINE_BIN_S if is_fine else COARSE_BIN_S
            place = (step_s, bin_start_us(row.at_us, step_s))
            is_first = place not in bins
            bins.add(place)
            kept.append(is_first or row.at_us in error_times or self._is_edge(index) or self._is_turn(index))
        return kept

    def _is_edge(self, index: int) -> bool:
        if index == 0 or index == len(self._rows) - 1:
            return True
        row = self._rows[index]
        return any(
            abs(row.at_us - other.at_us) > GAP_US
            or row.blades_on is not other.blades_on
            or row.rtk_fix != other.rtk_fix
            for other in (self._rows[index - 1], self._rows[index + 1])
        )

    def _is_turn(self, index: int) -> bool:
        rows, path = self._rows, self._path
        back, ahead = bisect_right(path, path[index] - ARM_UM) - 1, bisect_left(path, path[index] + ARM_UM)
        if back < 0 or ahead == len(rows):
            return False
        before, row, after = rows[back], rows[index], rows[ahead]
        if row.at_us - before.at_us > CONTEXT_US or after.at_us - row.at_us > CONTEXT_US:
            return False
        east, north = self._east[index], self._north[index]
        ux = shortest_turn(row.lon_e7 - before.lon_e7) * east
        uy = (row.lat_e7 - before.lat_e7) * north
        vx = shortest_turn(after.lon_e7 - row.lon_e7) * east
        vy = (after.lat_e7 - row.lat_e7) * north
        dot = ux * vx + uy * vy
        return dot <= 0.0 or dot * dot < TURN_COSINE_SQUARED * ((ux * ux + uy * uy) * (vx * vx + vy * vy))

    def bound(self, kept: list[bool]) -> dict[int, float]:
        """Keeps the farthest row of each gap until none is beyond the tolerance; squares of the others' distances."""
        ends = [index for index, is_kept in enumerate(kept) if is_kept]
        gaps = [(a, b) for a, b in pairwise(ends) if b - a > 1]
        dropped: dict[int, float] = {}
        while gaps:
            a, b = gaps.pop()
            squares = [self.square_m2(a, b, index) for index in range(a + 1, b)]
            farthest = max(squares)
            index = a + 1 + squares.index(farthest)
            if farthest > (BLADES_TOLERANCE_M2 if self._rows[index].blades_on is True else TOLERANCE_M2):
                kept[index] = True
                gaps += [gap for gap in ((a, index), (index, b)) if gap[1] - gap[0] > 1]
            else:
                dropped.update(zip(range(a + 1, b), squares, strict=True))
        return dropped

    def square_m2(self, a: int, b: int, index: int) -> float:
        """Square of the distance of a row from the straight piece of line between two others."""
        start, end, row = self._rows[a], self._rows[b], self._rows[index]
        east, north = self._east[a], self._north[a]
        ux = shortest_turn(end.lon_e7 - start.lon_e7) * east
        uy = (end.lat_e7 - start.lat_e7) * north
        uu = ux * ux + uy * uy
        vx = shortest_turn(row.lon_e7 - start.lon_e7) * east
        vy = (row.lat_e7 - start.lat_e7) * north
        along = vx * ux + vy * uy
        if along <= 0.0:
            return vx * vx + vy * vy
        if along >= uu:
            return (vx - ux) * (vx - ux) + (vy - uy) * (vy - uy)
        cross = vx * uy - vy * ux
        return cross * cross / uu
