"""The border of a mower's areas: how far outside a point is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.domain.geo import GeoPoint, Plane, PlanePoint, contains
from core.domain.mower import Area, MowerState, RtkFix

ACCURACY_M = {RtkFix.FIXED: 0.1, RtkFix.FLOAT: 1.0, RtkFix.SINGLE: 5.0}
"""What is assumed of a fix that does not say how accurate it is."""


class Fence:
    """The union of areas; corners are projected once."""

    def __init__(self, areas: Sequence[Area]) -> None:
        rings = [area.ring for area in areas if len(area.ring) >= 3]
        self._plane = Plane(GeoPoint(lat=rings[0][0][0], lon=rings[0][0][1])) if rings else None
        self._rings: list[list[PlanePoint]] = []
        if self._plane is not None:
            plane = self._plane
            self._rings = [[plane.project(GeoPoint(lat=lat, lon=lon)) for lat, lon in ring] for ring in rings]

    def outside_m(self, point: GeoPoint) -> float | None:
        """Metres to the nearest area, 0 within one; None when no border is known."""
        if self._plane is None:
            return None
        here = self._plane.project(point)
        if any(contains(ring, here) for ring in self._rings):
            return 0.0
        return min(
            _to_edge_m(here, a, b) for ring in self._rings for a, b in zip(ring, [*ring[1:], *ring[:1]], strict=True)
        )


def place_of(state: MowerState) -> tuple[GeoPoint, float] | None:
    """Where the mower says it is, and within how many metres; None when it does not say both."""
    position = state.position
    if position is None or position.lat is None or position.lon is None:
        return None
    accuracy_m = position.accuracy_m
    if accuracy_m is None and state.rtk_fix is not None:
        accuracy_m = ACCURACY_M.get(state.rtk_fix)
    if accuracy_m is None or not 0 <= accuracy_m < math.inf:
        return None
    return GeoPoint(lat=position.lat, lon=position.lon), accuracy_m


def _to_edge_m(point: PlanePoint, a: PlanePoint, b: PlanePoint) -> float:
    east, north = b.east_m - a.east_m, b.north_m - a.north_m
    square = east * east + north * north
    share = 0.0
    if square > 0:
        share = ((point.east_m - a.east_m) * east + (point.north_m - a.north_m) * north) / square
        share = min(1.0, max(0.0, share))
    return math.hypot(point.east_m - a.east_m - share * east, point.north_m - a.north_m - share * north)
