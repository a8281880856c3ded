"""Flat geometry in metres: points are (east, north), rings close themselves. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

Point = tuple[float, float]
Ring = tuple[Point, ...]


def edges(ring: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """Each side of the ring, the closing one too."""
    previous = ring[-1]
    for corner in ring:
        yield previous, corner
        previous = corner


def distance(a: Point, b: Point) -> float:
    return math.hypot(b[0] - a[0], b[1] - a[1])


def length(points: Sequence[Point]) -> float:
    """Metres along an open line."""
    return sum(distance(a, b) for a, b in pairwise(points))


def holds(ring: Sequence[Point], point: Point) -> bool:
    """Whether `point` lies inside (even-odd rule; the border counts as either)."""
    x, y = point
    is_inside = False
    ax, ay = ring[-1]
    for bx, by in ring:
        if (ay > y) != (by > y) and x < ax + (y - ay) * (bx - ax) / (by - ay):
            is_inside = not is_inside
        ax, ay = bx, by
    return is_inside


def do_cross(a: Point, b: Point, c: Point, d: Point) -> bool:
    """Whether the segments ab and cd cross in their insides (touching is not crossing)."""

    def side(p: Point, q: Point, r: Point) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0.0 and side(c, d, a) * side(c, d, b) < 0.0


def distance_to_ring(ring: Sequence[Point], point: Point) -> float:
    """Metres to the nearest point of the border; 0 inside."""
    if holds(ring, point):
        return 0.0
    return min(_distance_to_side(point, a, b) for a, b in edges(ring))


def _distance_to_side(point: Point, a: Point, b: Point) -> float:
    dx, dy = b[0] - a[0], b[1] - a[1]
    square = dx * dx + dy * dy
    along = 0.0 if square == 0.0 else ((point[0] - a[0]) * dx + (point[1] - a[1]) * dy) / square
    along = min(1.0, max(0.0, along))
    return math.hypot(point[0] - a[0] - along * dx, point[1] - a[1] - along * dy)


def is_counter_clockwise(ring: Sequence[Point]) -> bool:
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in edges(ring)) > 0.0


def grow(ring: Ring, by_m: float) -> Ring:
    """The ring with every side moved outwards by `by_m` (inwards when negative); made for mild corners and small steps."""
    outward = 1.0 if is_counter_clockwise(ring) else -1.0
    moved = []
    for index, corner in enumerate(ring):
        before, after = ring[index - 1], ring[(index + 1) % len(ring)]
        n1 = _normal(before, corner)
        n2 = _normal(corner, after)
        bisector = (n1[0] + n2[0], n1[1] + n2[1])
        square = max(0.5, bisector[0] ** 2 + bisector[1] ** 2)
        reach = outward * by_m * 2.0 / square
        moved.append((corner[0] + bisector[0] * reach, corner[1] + bisector[1] * reach))
    return tuple(moved)


def _normal(a: Point, b: Point) -> Point:
    """The unit vector to the right of ab: outwards on a counter-clockwise ring."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    size = math.hypot(dx, dy) or 1.0
    return dy / size, -dx / size


def smooth(ring: Ring, rounds: int = 2) -> Ring:
    """Corners cut as Chaikin does; the result stays inside the convex corners of the input."""
    for _ in range(rounds):
        cut: list[Point] = []
        for a, b in edges(ring):
            cut.append((0.75 * a[0] + 0.25 * b[0], 0.75 * a[1] + 0.25 * b[1]))
            cut.append((0.25 * a[0] + 0.75 * b[0], 0.25 * a[1] + 0.75 * b[1]))
        ring = tuple(cut)
    return ring


def circle(centre: Point, radius_m: float, corners: int = 12) -> Ring:
    """A polygon around the circle (it encloses it), counter-clockwise."""
    reach = radius_m / math.cos(math.pi / corners)
    turns = [2.0 * math.pi * k / corners for k in range(corners)]
    return tuple((centre[0] + reach * math.cos(t), centre[1] + reach * math.sin(t)) for t in turns)


def turn(points: Sequence[Point], angle: float) -> Ring:
    """The points turned around (0, 0) by `angle` radians, counter-clockwise."""
    cos, sin = math.cos(angle), math.sin(angle)
    return tuple((x * cos - y * sin, x * sin + y * cos) for x, y in points)


def heading_deg(a: Point, b: Point) -> float:
    """Compass heading from a to b: 0 is north, clockwise, below 360."""
    return math.degrees(math.atan2(b[0] - a[0], b[1] - a[1])) % 360.0
