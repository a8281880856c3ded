"""Places on the lawn: WGS84 degrees, metres in a local plane, and the rules between them.

The local plane is an equirectangular projection on the WGS84 ellipsoid's radii of curvature at its origin. A distance
from the origin is wrong by at most about d^2 tan(lat) / (4 R): at 1 km 4 cm at 48 degrees north and 14 cm at 78, within
a lawn of 200 m less than 1 cm everywhere up to there. Longitudes are unwrapped relative to the origin, so a lawn on the 180th
meridian is a lawn like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

_A_M = 6_378_137.0
"""Equatorial radius of WGS84 (m)."""
_E2 = 6.694379990141e-3
"""First eccentricity of WGS84, squared."""


class GeoPoint(msgspec.Struct, frozen=True, kw_only=True):
    """WGS84 degrees: lat -90..90, lon -180..180."""

    lat: float
    lon: float


class PlanePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Metres east and north of a plane's origin."""

    east_m: float
    north_m: float


class Plane:
    """A local metric plane around `origin`."""

    def __init__(self, origin: GeoPoint) -> None:
        self.origin = origin
        sin_lat = math.sin(math.radians(origin.lat))
        w = 1.0 - _E2 * sin_lat * sin_lat
        self.metres_per_degree_north = math.radians(_A_M * (1.0 - _E2) / (w * math.sqrt(w)))
        self.metres_per_degree_east = math.radians(_A_M / math.sqrt(w) * math.cos(math.radians(origin.lat)))

    def project(self, point: GeoPoint) -> PlanePoint:
        """Degrees to metres of this plane."""
        degrees_east = (point.lon - self.origin.lon + 540.0) % 360.0 - 180.0
        return PlanePoint(
            east_m=degrees_east * self.metres_per_degree_east,
            north_m=(point.lat - self.origin.lat) * self.metres_per_degree_north,
        )

    def unproject(self, point: PlanePoint) -> GeoPoint:
        """Metres of this plane to degrees."""
        if self.metres_per_degree_east < 1e-6:
            raise ValueError("a plane at a pole has no east")
        lon = self.origin.lon + point.east_m / self.metres_per_degree_east
        return GeoPoint(
            lat=self.origin.lat + point.north_m / self.metres_per_degree_north,
            lon=(lon + 540.0) % 360.0 - 180.0,
        )


def distance_m(a: GeoPoint, b: GeoPoint) -> float:
    """Metres between two points of one garden (plane around `a`)."""
    there = Plane(a).project(b)
    return math.hypot(there.east_m, there.north_m)


def area_m2(ring: Sequence[PlanePoint]) -> float:
    """Area enclosed by a ring of corners (shoelace; the ring closes itself)."""
    total = 0.0
    for here, there in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        total += here.east_m * there.north_m - there.east_m * here.north_m
    return abs(total) / 2.0


def contains(ring: Sequence[PlanePoint], point: PlanePoint) -> bool:
    """Whether `point` lies inside the ring (even-odd rule; the border counts as either)."""
    inside = False
    for a, b in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        if (a.north_m > point.north_m) != (b.north_m > point.north_m):
            crossing = a.east_m + (point.north_m - a.north_m) * (b.east_m - a.east_m) / (b.north_m - a.north_m)
            if point.east_m < crossing:
                inside = not inside
    return inside
