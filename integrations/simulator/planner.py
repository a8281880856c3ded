"""Where to drive to cut a patch: edge laps, then lanes; or a spiral around a spot. Pure.

Lanes are cut into cells (a lane that an obstacle splits starts new cells), each cell is mown to and fro, and the
next cell is the nearest one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from integrations.simulator.lawn import Patch
from integrations.simulator.routes import Router
from integrations.simulator.shapes import Point, Ring, distance, edges, grow, holds, length, turn

SWATH_M = 0.34
"""From lane to lane; the blades cut a little wider."""
EDGE_M = 0.22
"""The edge lap runs this far inside the border."""
_SHORTEST_LANE_M = 0.4
_LAP_CLEARANCE_M = 0.12


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """One line to cut without a break."""

    area_id: str | None
    points: tuple[Point, ...]

    @property
    def length_m(self) -> float:
        return length(self.points)


@dataclass(slots=True)
class _Cell:
    """Neighbouring lanes, each one piece; `lanes` from the first row to the last."""

    lanes: list[tuple[Point, Point]] = field(default_factory=list)

    def snakes(self) -> list[tuple[Point, ...]]:
        """The four ways to mow it to and fro: from either row, from either end."""
        ways = []
        for rows in (self.lanes, self.lanes[::-1]):
            for is_flipped in (False, True):
                way: list[Point] = []
                for index, (a, b) in enumerate(rows):
                    way.extend((b, a) if (index % 2 == 1) != is_flipped else (a, b))
                ways.append(tuple(way))
        return ways


def plan_patch(router: Router, patch: Patch, *, start: Point, job: int) -> tuple[Stroke, ...]:
    """Edge laps and lanes of one patch, beginning near `start`. The lanes turn by 60 degrees from job to job."""
    holes = [b for b in (grow(ring, _LAP_CLEARANCE_M) for ring in router.garden.barriers) if _touches(patch.ring, b)]
    laps = [_lap(grow(patch.ring, -EDGE_M), start)]
    laps += [_lap(hole, start) for hole in holes if all(holds(patch.ring, corner) for corner in hole)]
    bearing = math.radians(90.0 - patch.lane_deg - 60.0 * (job % 3))
    border = grow(patch.ring, -EDGE_M - SWATH_M * 0.8)
    cells = _cells(turn(border, -bearing), [turn(grow(hole, SWATH_M * 0.5), -bearing) for hole in holes])
    strokes = [Stroke(area_id=patch.area_id, points=lap) for lap in _free(router, laps)]
    here = strokes[-1].points[-1] if strokes else start
    snakes = [[turn(way, bearing) for way in cell.snakes()] for cell in cells]
    while snakes:
        ways = min(snakes, key=lambda options: min(distance(here, way[0]) for way in options))
        snakes.remove(ways)
        best = min(ways, key=lambda way: distance(here, way[0]))
        strokes.extend(Stroke(area_id=patch.area_id, points=part) for part in _free(router, [best]))
        here = best[-1]
    return tuple(strokes)


def plan_spot(router: Router, centre: Point, radius_m: float) -> tuple[Stroke, ...]:
    """A spiral outwards from `centre` as far as lawn is there; empty when the spot is no lawn at all."""
    garden = router.garden
    patch = garden.patch_at(centre)
    if patch is None or not garden.is_free(centre):
        return ()
    way: list[Point] = [centre]
    angle = 0.0
    while True:
        angle += SWATH_M / max(SWATH_M, SWATH_M * angle / (2.0 * math.pi))
        reach = SWATH_M * angle / (2.0 * math.pi)
        if reach > radius_m:
            break
        way.append((centre[0] + reach * math.cos(angle), centre[1] + reach * math.sin(angle)))
    lawn = [point if garden.patch_at(point) is not None else None for point in way]
    return tuple(Stroke(area_id=patch.area_id, points=part) for part in _pieces(router, lawn))


def _touches(ring: Ring, hole: Ring) -> bool:
    return any(holds(ring, corner) for corner in hole)


def _lap(ring: Ring, start: Point) -> tuple[Point, ...]:
    """Once around, from the corner nearest to `start`."""
    first = min(range(len(ring)), key=lambda i: distance(ring[i], start))
    return (*ring[first:], *ring[:first], ring[first])


def _free(router: Router, lines: list[tuple[Point, ...]]) -> list[tuple[Point, ...]]:
    return [part for line in lines for part in _pieces(router, list(line))]


def _pieces(router: Router, line: list[Point | None]) -> list[tuple[Point, ...]]:
    """The line without the places where the mower may not be, in as many pieces as that leaves."""
    pieces: list[list[Point]] = [[]]
    for point in line:
        piece = pieces[-1]
        if point is None or not router.garden.is_free(point):
            if piece:
                pieces.append([])
        elif piece and not router.is_clear(piece[-1], point):
            pieces.append([point])
        else:
            piece.append(point)
    return [tuple(piece) for piece in pieces if len(piece) > 1]


def _cells(border: Ring, holes: list[Ring]) -> list[_Cell]:
    """Rows from south to north through the (turned) border, grown together into cells."""
    south, north = min(y for _, y in border), max(y for _, y in border)
    rows = max(1, round((north - south) / SWATH_M))
    open_cells: list[_Cell] = []
    closed: list[_Cell] = []
    for row in range(rows):
        y = south + (row + 0.5) * (north - south) / rows
        lanes = _lanes(border, holes, y)
        parents = [[cell for cell in open_cells if _overlap(cell.lanes[-1], lane)] for lane in lanes]
        heirs = [sum(cell in found for found in parents) for cell in open_cells]
        following: list[_Cell] = []
        for lane, found in zip(lanes, parents, strict=True):
            if len(found) == 1 and heirs[open_cells.index(found[0])] == 1:
                found[0].lanes.append(lane)
                following.append(found[0])
            else:
                following.append(_Cell(lanes=[lane]))
        closed.extend(cell for cell in open_cells if not any(cell is kept for kept in following))
        open_cells = following
    return closed + open_cells


def _overlap(a: tuple[Point, Point], b: tuple[Point, Point]) -> bool:
    return a[0][0] < b[1][0] and b[0][0] < a[1][0]


def _lanes(border: Ring, holes: list[Ring], y: float) -> list[tuple[Point, Point]]:
    """The parts of the line at `y` inside the border and outside of all holes, west to east."""
    spans = _spans(border, y)
    for hole in holes:
        for west, east in _spans(hole, y):
            spans = [part for span in spans for part in ((span[0], min(span[1], west)), (max(span[0], east), span[1]))]
            spans = [span for span in spans if span[1] > span[0]]
    return [((west, y), (east, y)) for west, east in spans if east - west >= _SHORTEST_LANE_M]


def _spans(ring: Ring, y: float) -> list[tuple[float, float]]:
    cuts = sorted(a[0] + (y - a[1]) * (b[0] - a[0]) / (b[1] - a[1]) for a, b in edges(ring) if (a[1] > y) != (b[1] > y))
    return list(zip(cuts[::2], cuts[1::2], strict=True))
