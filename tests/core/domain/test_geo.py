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
