"""Metres around a track's centre: to the centimetre at 1 km, at the equator, far north, over the meridian and a pole."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.telemetry.track_plane import TrackPlane, plane_around
from core.telemetry.track_scale import shortest_turn

PLACES = {
    "equator": (0, 0),
    "garden": (481_000_000, 115_000_000),
    "far north": (780_000_000, 150_000_000),
    "meridian": (-170_000_000, 1_799_999_990),
    "pole": (899_999_000, 0),
}


def project(plane: TrackPlane, lat_e7: int, lon_e7: int) -> tuple[float, float]:
    east, north = plane.project(np.array([lat_e7]), np.array([lon_e7]))
    return float(east[0]), float(north[0])


def earth_m(lat_e7: int, lon_e7: int) -> tuple[float, float, float]:
    """Where a place is from the middle of the earth."""
    lat, lon = math.radians(lat_e7 / 1e7), math.radians(lon_e7 / 1e7)
    a, e2 = 6_378_137.0, 1 - (1 - 1 / 298.257223563) ** 2
    n = a / math.sqrt(1 - e2 * math.sin(lat) ** 2)
    return n * math.cos(lat) * math.cos(lon), n * math.cos(lat) * math.sin(lon), n * (1 - e2) * math.sin(lat)


def place_at(place: tuple[int, int], bearing: int) -> tuple[int, int]:
    """About a kilometre away."""
    north = math.cos(math.radians(bearing)) * 1_000 / 0.01113
    east = math.sin(math.radians(bearing)) * 1_000 / 0.01113 / max(0.1, math.cos(math.radians(place[0] / 1e7)))
    return min(900_000_000, place[0] + round(north)), shortest_turn(place[1] + round(east))


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@pytest.mark.parametrize("bearing", range(0, 360, 45))
def test_a_kilometre_is_right_to_a_centimetre_and_back(place: tuple[int, int], bearing: int) -> None:
    there = place_at(place, bearing)
    plane = TrackPlane(*place)
    east, north = project(plane, *there)
    # at this distance the chord through the earth is 1 micrometre shorter than the way over it
    assert math.hypot(east, north) == pytest.approx(math.dist(earth_m(*place), earth_m(*there)), abs=0.01)
    lat, lon = plane.unproject(east, north)
    back = round(lat * 1e7), round(lon * 1e7)
    assert math.dist(earth_m(*back), earth_m(*there)) < 0.02


def test_east_and_north_are_positive_and_the_short_way_round() -> None:
    east, north = project(TrackPlane(0, 1_799_999_990), 0, -1_799_999_990)
    assert (east, north) == (pytest.approx(0.2226, abs=1e-4), pytest.approx(0.0, abs=1e-6))
    east, north = project(TrackPlane(481_000_000, 0), 481_000_100, 0)
    assert (east, north) == (pytest.approx(0.0, abs=1e-6), pytest.approx(1.112, abs=1e-3))


def test_the_centre_lies_in_the_lawn_whatever_a_few_rows_say() -> None:
    lats = [481_000_000 + n for n in range(20)]
    lons = [shortest_turn(1_799_999_990 + n) for n in range(20)]
    plane = plane_around(np.array([*lats, 0, 481_050_000]), np.array([*lons, 0, -1_799_000_000]))
    assert all(math.hypot(*project(plane, lat, lon)) < 0.3 for lat, lon in zip(lats, lons, strict=True))
