"""The shortest way between two places of a garden, around everything in it (a visibility graph). Pure."""

from __future__ import annotations

import heapq
from functools import cached_property

from integrations.simulator.lawn import Garden
from integrations.simulator.shapes import Point, Ring, distance, do_cross, edges, grow, holds

_CORNER_M = 0.08
"""Ways pass the corners of barriers at this distance, so that they are never on the border."""


class Router:
    """Knows the ways of one garden. The graph of corners is built when the first way with a bend is asked for."""

    def __init__(self, garden: Garden) -> None:
        self.garden = garden
        self._boxes = tuple((_box(barrier), barrier) for barrier in garden.barriers)
        corners = (c for barrier in garden.barriers for c in grow(barrier, _CORNER_M))
        self._corners = tuple(c for c in corners if garden.is_free(c))

    @cached_property
    def _near(self) -> list[list[tuple[int, float]]]:
        """For each corner the corners in sight, and how far they are."""
        near: list[list[tuple[int, float]]] = [[] for _ in self._corners]
        for i, a in enumerate(self._corners):
            for j in range(i):
                if self.is_clear(a, self._corners[j]):
                    metres = distance(a, self._corners[j])
                    near[i].append((j, metres))
                    near[j].append((i, metres))
        return near

    def is_clear(self, a: Point, b: Point) -> bool:
        """Whether the straight line between two free places is free. (The field is convex.)"""
        middle = ((a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0)
        west, east = min(a[0], b[0]), max(a[0], b[0])
        south, north = min(a[1], b[1]), max(a[1], b[1])
        for (x0, y0, x1, y1), barrier in self._boxes:
            if east < x0 or west > x1 or north < y0 or south > y1:
                continue
            if any(do_cross(a, b, c, d) for c, d in edges(barrier)) or holds(barrier, middle):
                return False
        return True

    def route(self, start: Point, goal: Point) -> tuple[Point, ...] | None:
        """The places to pass after `start`, ending with `goal`; None when there is no way."""
        if self.is_clear(start, goal):
            return (goal,)
        to_goal = {i: distance(c, goal) for i, c in enumerate(self._corners) if self.is_clear(c, goal)}
        queue = [(distance(start, c), i, -1) for i, c in enumerate(self._corners) if self.is_clear(start, c)]
        heapq.heapify(queue)
        before: dict[int, int] = {}
        last, best = -1, float("inf")
        while queue:
            metres, corner, previous = heapq.heappop(queue)
            if metres >= best:
                break
            if corner in before:
                continue
            before[corner] = previous
            if corner in to_goal and metres + to_goal[corner] < best:
                last, best = corner, metres + to_goal[corner]
            for following, more in self._near[corner]:
                if following not in before:
                    heapq.heappush(queue, (metres + more, following, corner))
        if last < 0:
            return None
        way = [goal]
        while last >= 0:
            way.append(self._corners[last])
            last = before[last]
        return tuple(reversed(way))


def _box(ring: Ring) -> tuple[float, float, float, float]:
    xs, ys = [p[0] for p in ring], [p[1] for p in ring]
    return min(xs), min(ys), max(xs), max(ys)
