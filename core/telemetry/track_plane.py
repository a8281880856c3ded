"""Metres around a track's centre, anywhere on the globe.

The projection is the azimuthal one onto the plane that touches WGS84's ellipsoid at the centre, seen from straight
above: 1 km from the centre it is off by a few micrometres, and it has no seam at the 180th meridian and no hole at a
pole. (`core.domain.geo.Plane` is quicker for a point, but diagonally 1 km away it is off by decimetres.)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Metres = NDArray[np.float64]
E7 = NDArray[np.int64]

_A_M = 6_378_137.0
_E2 = 6.694379990141e-3
_RADIANS = math.radians(1e-7)
_TURN_E7 = 3_600_000_000


class TrackPlane:
    """The plane that touches the ellipsoid at (`lat_e7`, `lon_e7`), whole 1e-7 degrees."""

    def __init__(self, lat_e7: int, lon_e7: int) -> None:
        self._lon_e7 = lon_e7
        lat = lat_e7 * _RADIANS
        self._sin, self._cos = math.sin(lat), math.cos(lat)
        n = _A_M / math.sqrt(1.0 - _E2 * self._sin * self._sin)
        self._x, self._z = n * self._cos, n * (1.0 - _E2) * self._sin

    def project(self, lat_e7: E7, lon_e7: E7) -> tuple[Metres, Metres]:
        """Metres east and north of the centre."""
        lat, lon = lat_e7 * _RADIANS, short_way(lon_e7 - self._lon_e7) * _RADIANS
        sin, cos = np.sin(lat), np.cos(lat)
        n = _A_M / np.sqrt(1.0 - _E2 * sin * sin)
        x, z = n * cos * np.cos(lon) - self._x, n * (1.0 - _E2) * sin - self._z
        return n * cos * np.sin(lon), z * self._cos - x * self._sin

    def unproject(self, east_m: float, north_m: float) -> tuple[float, float]:
        """Degrees (lat, lon) of a place of the plane, which is within some hundred kilometres of the centre."""
        # how far below the plane the ellipsoid x^2 + y^2 + z^2 / (1 - e2) = a^2 lies there: the root near 0 of a square
        q = 1.0 / (1.0 - _E2)
        x, z = self._x - north_m * self._sin, self._z + north_m * self._cos
        a = self._cos * self._cos + q * self._sin * self._sin
        b = 2.0 * (x * self._cos + q * z * self._sin)
        c = x * x + east_m * east_m + q * z * z - _A_M * _A_M
        up = -2.0 * c / (b + math.sqrt(max(0.0, b * b - 4.0 * a * c)))
        x, z = x + up * self._cos, z + up * self._sin
        lat = math.degrees(math.atan2(q * z, math.hypot(x, east_m)))
        lon = self._lon_e7 / 1e7 + math.degrees(math.atan2(east_m, x))
        return lat, (lon + 540.0) % 360.0 - 180.0


def short_way(turn_e7: E7) -> E7:
    """Differences of longitude the shorter way round."""
    half = _TURN_E7 // 2
    return (turn_e7 + half) % _TURN_E7 - half


def plane_around(lat_e7: E7, lon_e7: E7) -> TrackPlane:
    """The plane around the medians of at least one place: a few rows far away do not move it."""
    first = int(lon_e7[0])
    middle = len(lat_e7) // 2
    lat = int(np.partition(lat_e7, middle)[middle])
    turn = int(np.partition(short_way(lon_e7 - first), middle)[middle])
    half = _TURN_E7 // 2
    return TrackPlane(lat, (first + turn + half) % _TURN_E7 - half)
