"""GPX: timed points, the straight line between two that are close, and nothing beyond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import InvalidInputError
from core.survey.gpx import GAP_S, TrackPoint, place_at, read_gpx

START = datetime(2026, 6, 1, 8, tzinfo=UTC)


def gpx(*points: tuple[float, float, str]) -> bytes:
    body = "".join(f'<trkpt lat="{lat}" lon="{lon}"><ele>1</ele><time>{at}</time></trkpt>' for lat, lon, at in points)
    return f'<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>{body}</trkseg></trk></gpx>'.encode()


def test_points_come_in_the_order_of_time():
    track = read_gpx(
        gpx((2, 2, "2026-06-01T10:00:05+02:00"), (1, 1, "2026-06-01T08:00:00Z"), (3, 3, "2026-06-01T08:00:09"))
    )
    assert [(point.lat, (point.at - START).total_seconds()) for point in track] == [(1, 0), (2, 5), (3, 9)]


def test_what_is_not_a_place_in_time_is_left_out():
    track = read_gpx(gpx((1, 1, "2026-06-01T08:00:00Z"), (91, 1, "2026-06-01T08:00:01Z"), (1, 1, "yesterday")))
    assert len(track) == 1
    for data in (b"", b"<gpx>", b"no xml", gpx(), gpx((1, 1, "never"))):
        with pytest.raises(InvalidInputError):
            read_gpx(data)


def test_entities_do_not_grow():
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + gpx((1, 1, "2026-06-01T08:00:00Z"))
    with pytest.raises(InvalidInputError, match="document type"):
        read_gpx(bomb)


@given(st.floats(0, GAP_S), st.floats(0, 1))
def test_between_two_points_it_is_the_line(gap_s: float, share: float):
    end = START + timedelta(seconds=gap_s)
    track = [TrackPoint(at=START, lat=48.0, lon=11.0), TrackPoint(at=end, lat=48.0001, lon=11.0002)]
    place = place_at(track, START + (end - START) * share)
    assert place is not None
    assert place.lat is not None
    assert place.lon is not None
    assert 48.0 - 1e-9 <= place.lat <= 48.0001 + 1e-9
    assert abs((place.lat - 48.0) * 2 - (place.lon - 11.0)) < 1e-7


@pytest.mark.parametrize("at_s", [-0.001, 20.001, 10.0])
def test_outside_and_in_a_gap_nobody_knows(at_s: float):
    track = [TrackPoint(at=START + timedelta(seconds=s), lat=48.0, lon=11.0) for s in (0, 20)]
    assert place_at(track, START + timedelta(seconds=at_s)) is None
    assert place_at(track, START + timedelta(seconds=20)) is not None
