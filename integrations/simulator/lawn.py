"""The garden of one simulated mower: areas, house, trees, dock. Metres from the south-west corner of the plot.

Every garden has the areas `front`, `side`, `back` and `orchard`; the seed moves trees and corners a little and
may mirror the plot.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from integrations.simulator.shapes import Point, Ring, circle, distance_to_ring, grow, holds, smooth

WIDTH_M = 32.0
DEPTH_M = 48.0
SPACING_M = 40.0
"""From plot to plot when one entry has several mowers."""
CLEARANCE_M = 0.30
"""The middle of the mower never comes nearer than this to an obstacle or the fence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One mowing area; `lane_deg` is the compass direction of its lanes on the first job."""

    area_id: str
    name: str
    ring: Ring
    lane_deg: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A trunk to drive around and a crown that hides the sky."""

    at: Point
    trunk_m: float
    crown_m: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Garden:
    """All that does not move. `barriers` are the obstacles grown by the clearance, `field` the fence shrunk by it:
    the mower's middle may be anywhere in `field` outside of all `barriers`."""

    fence: Ring
    field: Ring
    patches: tuple[Patch, ...]
    house: Ring
    trees: tuple[Tree, ...]
    obstacles: tuple[Ring, ...]
    barriers: tuple[Ring, ...]
    dock: Point
    gate: Point
    """Where the mower turns before it backs into, or after it has left, the dock."""

    def patch(self, area_id: str) -> Patch | None:
        return next((p for p in self.patches if p.area_id == area_id), None)

    def patch_at(self, point: Point) -> Patch | None:
        return next((p for p in self.patches if holds(p.ring, point)), None)

    def is_free(self, point: Point) -> bool:
        """Whether the middle of the mower may be there."""
        return holds(self.field, point) and not any(holds(barrier, point) for barrier in self.barriers)

    def house_distance_m(self, point: Point) -> float:
        return distance_to_ring(self.house, point)


_HOUSE: Ring = ((10.0, 16.0), (22.0, 16.0), (22.0, 27.0), (10.0, 27.0))
_DRIVEWAY: Ring = ((23.0, 0.0), (27.5, 0.0), (27.5, 22.0), (23.0, 22.0))
_TERRACE: Ring = ((12.0, 27.0), (20.0, 27.0), (20.0, 29.8), (12.0, 29.8))
_BED: Ring = ((24.5, 31.0), (29.0, 31.5), (28.6, 33.6), (25.0, 33.2))
_PATCHES: tuple[tuple[str, str, float, Ring], ...] = (
    ("front", "Front lawn", 90.0, ((1.2, 1.0), (14.0, 0.8), (22.4, 1.2), (22.2, 14.6), (13.0, 15.2), (1.4, 14.4))),
    ("side", "Side strip", 0.0, ((1.4, 15.2), (7.4, 15.4), (7.2, 22.0), (7.6, 28.0), (1.2, 27.6))),
    (
        "back",
        "Back lawn",
        75.0,
        ((1.3, 28.4), (11.0, 29.0), (16.0, 31.0), (23.0, 29.4), (23.2, 38.2), (12.0, 39.4), (1.2, 38.4)),
    ),
    (
        "orchard",
        "Orchard",
        20.0,
        ((1.4, 40.0), (12.0, 40.6), (24.0, 39.2), (30.6, 36.0), (30.8, 46.6), (18.0, 47.0), (1.6, 46.6)),
    ),
)
_TREES: tuple[tuple[Point, float, float], ...] = (
    ((6.5, 6.0), 0.35, 2.6),
    ((17.2, 9.5), 0.25, 1.8),
    ((7.5, 34.0), 0.45, 3.4),
    ((6.0, 43.4), 0.22, 1.9),
    ((12.5, 43.8), 0.22, 1.9),
    ((19.0, 43.2), 0.22, 1.9),
    ((25.5, 42.0), 0.25, 2.1),
)
_POND: tuple[Point, float] = ((17.5, 35.2), 1.5)
_DOCK: Point = (9.0, 18.0)
_GATE: Point = (7.8, 18.0)


def make_garden(seed: int) -> Garden:
    """The garden of this seed: always the same one."""
    dice = random.Random(f"garden {seed}")
    is_mirrored = dice.random() < 0.5

    def place(point: Point) -> Point:
        return (WIDTH_M - point[0], point[1]) if is_mirrored else point

    def nudge(point: Point, by_m: float) -> Point:
        return point[0] + dice.uniform(-by_m, by_m), point[1] + dice.uniform(-by_m, by_m)

    def ring(corners: Ring, by_m: float = 0.0) -> Ring:
        placed = tuple(place(nudge(c, by_m) if by_m else c) for c in corners)
        return placed[::-1] if is_mirrored else placed

    patches = tuple(
        Patch(
            area_id=area_id,
            name=name,
            ring=smooth(ring(corners, 0.25)),
            lane_deg=(180.0 - lane if is_mirrored else lane),
        )
        for area_id, name, lane, corners in _PATCHES
    )
    trees = tuple(
        Tree(at=place(nudge(at, 0.6)), trunk_m=trunk * dice.uniform(0.8, 1.2), crown_m=crown * dice.uniform(0.85, 1.15))
        for at, trunk, crown in _TREES
    )
    pond = smooth(circle(place(nudge(_POND[0], 0.3)), _POND[1], 7), 1)
    straight = (ring(_HOUSE), ring(_DRIVEWAY), ring(_TERRACE))
    obstacles = (*straight, smooth(ring(_BED, 0.15), 1), pond, *(circle(tree.at, tree.trunk_m, 10) for tree in trees))
    fence: Ring = ((0.0, 0.0), (WIDTH_M, 0.0), (WIDTH_M, DEPTH_M), (0.0, DEPTH_M))
    return Garden(
        fence=fence,
        field=grow(fence, -CLEARANCE_M),
        patches=patches,
        house=straight[0],
        trees=trees,
        obstacles=obstacles,
        barriers=tuple(grow(obstacle, CLEARANCE_M) for obstacle in obstacles),
        dock=place(_DOCK),
        gate=place(_GATE),
    )
