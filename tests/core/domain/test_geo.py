"""The local plane holds at the equator, far north and on the 180th meridian."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.geo import GeoPoint, Plane, PlanePoint, area_m2, contains, distance_m

PLACES = [
    GeoPoint(lat=0.0, lon=0.0),
    GeoPoint(lat=52.5, lon=13.4),
    GeoPoint(lat=78.2, lon=15.6),
    GeoPoint(lat=-45, lon=179.9999),
]
metres = st.floats(-1_000, 1_000)


@pytest.mark.parametrize("origin", PLACES)
@given(east=metres, north=metres)
def test_there_and_back_within_a_micrometre(origin, east, north):
    plane = Plane(origin)
    point = plane.unproject(PlanePoint(east_m=east, north_m=north))
    back = plane.project(point)
    assert -180 <= point.lon <= 180
    assert math.hypot(back.east_m - east, back.north_m - north) < 1e-6


def test_a_degree_of_latitude_has_its_published_length():
    # WGS84: 110,574 m at the equator, 111,694 m at the pole
    assert Plane(GeoPoint(lat=0, lon=0)).metres_per_degree_north == pytest.approx(110_574.3, abs=1)
    assert Plane(GeoPoint(lat=89.9, lon=0)).metres_per_degree_north == pytest.approx(111_693.9, abs=1)
    assert Plane(GeoPoint(lat=0, lon=0)).metres_per_degree_east == pytest.approx(111_319.5, abs=1)


def earth_m(point):
    """Where a place is from the middle of the earth (WGS84, at sea level), in metres."""
    lat, lon = math.radians(point.lat), math.radians(point.lon)
    a, e2 = 6_378_137.0, 6.694379990141e-3
    n = a / math.sqrt(1 - e2 * math.sin(lat) ** 2)
    return n * math.cos(lat) * math.cos(lon), n * math.cos(lat) * math.sin(lon), n * (1 - e2) * math.sin(lat)


@pytest.mark.parametrize(
    ("lat", "far_m", "wrong_m"),
    [(0, 1_000, 0.005), (48, 1_000, 0.045), (78, 1_000, 0.19), (48, 200, 0.005), (78, 200, 0.01)],
)
@pytest.mark.parametrize("bearing", range(0, 360, 15))
def test_the_plane_is_as_wrong_as_it_says(lat, far_m, wrong_m, bearing):
    origin = GeoPoint(lat=lat, lon=179.999)
    east, north = far_m * math.sin(math.radians(bearing)), far_m * math.cos(math.radians(bearing))
    there = Plane(origin).unproject(PlanePoint(east_m=east, north_m=north))
    # at such distances the chord through the earth is a micrometre shorter than the way over it
    assert math.dist(earth_m(origin), earth_m(there)) == pytest.approx(far_m, abs=wrong_m)


def test_the_meridian_is_no_wall():
    assert distance_m(GeoPoint(lat=0, lon=179.99999), GeoPoint(lat=0, lon=-179.99999)) == pytest.approx(2.226, abs=0.01)


def test_a_pole_has_no_east():
    with pytest.raises(ValueError, match="pole"):
        Plane(GeoPoint(lat=90, lon=0)).unproject(PlanePoint(east_m=1, north_m=0))


def test_area_and_inside_of_an_l_shape():
    ring = [PlanePoint(east_m=e, north_m=n) for e, n in [(0, 0), (4, 0), (4, 2), (2, 2), (2, 4), (0, 4)]]
    assert area_m2(ring) == 12
    assert contains(ring, PlanePoint(east_m=1, north_m=3))
    assert not contains(ring, PlanePoint(east_m=3, north_m=3))
