"""Files of a track: what other programs read is what was recorded."""

from __future__ import annotations

import csv
import io
import itertools
import json
from datetime import datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.ids import MowerId
from core.domain.mower import RtkFix, RtkSource
from core.telemetry.rows import PositionRow
from core.telemetry.track_files import PART_ROWS, CsvTrack, GeoJsonTrack, GpxTrack, TrackFile
from tests.fakes.clock import START

GPX = "{http://www.topografix.com/GPX/1/1}"


def row(second: float, lat: float = 48.0, lon: float = 11.0, **more: Any) -> PositionRow:
    at = START + timedelta(seconds=second)
    return PositionRow(mower_id=MowerId("m"), observed_at=at, lat=lat, lon=lon, **more)


def written(file: TrackFile, rows: list[PositionRow], piece: int = 7) -> bytes:
    pieces = [file.add(rows[n : n + piece]) for n in range(0, len(rows), piece)]
    return file.begin() + b"".join(pieces) + file.end()


rows_of_a_track = st.lists(
    st.builds(
        row,
        st.integers(0, 3_000_000_000).map(lambda us: us / 1e6),
        st.integers(-900_000_000, 900_000_000).map(lambda n: n / 1e7),
        st.integers(-1_800_000_000, 1_800_000_000).map(lambda n: n / 1e7),
        heading_deg=st.none() | st.integers(0, 3_599).map(lambda n: n / 10),
        rtk_fix=st.none() | st.sampled_from(RtkFix),
        rtk_source=st.none() | st.sampled_from(RtkSource),
        blades_on=st.none() | st.booleans(),
        wifi_dbm=st.none() | st.integers(-120, 0),
    ),
    max_size=30,
    unique_by=lambda r: r.observed_at,
).map(lambda rows: sorted(rows, key=lambda r: r.observed_at))


def moment(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


@settings(max_examples=60, deadline=None)
@given(rows_of_a_track)
def test_csv_says_every_column(rows: list[PositionRow]) -> None:
    read = list(csv.DictReader(io.StringIO(written(CsvTrack(), rows).decode(), newline="")))
    assert len(read) == len(rows)
    for line, given_row in zip(read, rows, strict=True):
        assert moment(line["observed_at"]) == given_row.observed_at
        assert abs(float(line["lat"]) - given_row.lat) < 1e-9
        assert abs(float(line["lon"]) - given_row.lon) < 1e-9
        assert (line["rtk_fix"] or None) == given_row.rtk_fix
        assert (line["rtk_source"] or None) == given_row.rtk_source
        assert line["blades_on"] == ("" if given_row.blades_on is None else str(given_row.blades_on).lower())
        assert (float(line["heading_deg"]) if line["heading_deg"] else None) == given_row.heading_deg
        for value in line.values():
            assert not value or (value[0] not in "=+@\t\r" and (value[0] != "-" or float(value) < 0)), "no formula"


@settings(max_examples=60, deadline=None)
@given(rows_of_a_track)
def test_gpx_has_a_segment_for_each_stretch_without_a_gap(rows: list[PositionRow]) -> None:
    root = ET.fromstring(written(GpxTrack("<a> & b"), rows))
    assert (root.tag, root.get("version"), root.findtext(f"{GPX}trk/{GPX}name")) == (f"{GPX}gpx", "1.1", "<a> & b")
    segments = root.findall(f"{GPX}trk/{GPX}trkseg")
    found = [[(moment(str(p.findtext(f"{GPX}time"))), p) for p in s] for s in segments]
    assert [at for s in found for at, _ in s] == [r.observed_at for r in rows]
    for (_, point), given_row in zip((p for s in found for p in s), rows, strict=True):
        assert abs(float(str(point.get("lat"))) - given_row.lat) < 1e-9
        assert abs(float(str(point.get("lon"))) - given_row.lon) < 1e-9
    gap = timedelta(seconds=120)
    assert all(s for s in found)
    for segment in found:
        assert all(b[0] - a[0] <= gap for a, b in itertools.pairwise(segment))
    assert all(b[0][0] - a[-1][0] > gap for a, b in itertools.pairwise(found))


@settings(max_examples=60, deadline=None)
@given(rows_of_a_track)
def test_geojson_has_every_row_once_and_no_line_over_the_meridian(rows: list[PositionRow]) -> None:
    document = json.loads(written(GeoJsonTrack("t"), rows))
    assert document["type"] == "FeatureCollection"
    found = []
    for feature in document["features"]:
        kind, coordinates = feature["geometry"]["type"], feature["geometry"]["coordinates"]
        lines = [[coordinates]] if kind == "Point" else [coordinates] if kind == "LineString" else coordinates
        assert kind == "Point" or all(len(line) >= 2 for line in lines)
        for line in lines:
            assert all(abs(b[0] - a[0]) <= 180 for a, b in itertools.pairwise(line))
        places = [place for line in lines for place in line]
        found += [
            (at, place) for at, place in zip(feature["properties"]["times"], places, strict=True) if at is not None
        ]
    assert [(moment(at), place) for at, place in found] == [(r.observed_at, [r.lon, r.lat]) for r in rows]


def test_a_track_over_the_meridian_is_cut_where_it_meets_it() -> None:
    rows = [row(0, 10.0, 179.9999), row(1, 10.0002, -179.9999), row(2, 10.0, 179.9999)]
    (feature,) = json.loads(written(GeoJsonTrack("t"), rows))["features"]
    assert feature["geometry"] == {
        "type": "MultiLineString",
        "coordinates": [
            [[179.9999, 10.0], [180.0, 10.0001]],
            [[-180.0, 10.0001], [-179.9999, 10.0002], [-180.0, 10.0001]],
            [[180.0, 10.0001], [179.9999, 10.0]],
        ],
    }
    assert [at is None for at in feature["properties"]["times"]] == [False, True, True, False, True, True, False]


def test_a_long_stretch_is_written_in_parts_that_hang_together() -> None:
    rows = [row(n, 48.0 + n * 1e-7) for n in range(PART_ROWS + 10)]
    first, second = json.loads(written(GeoJsonTrack("t"), rows, piece=1_000))["features"]
    ends = [f["geometry"]["coordinates"] for f in (first, second)]
    assert (len(ends[0]), len(ends[1])) == (PART_ROWS, 11)
    assert ends[0][-1] == ends[1][0]


@pytest.mark.parametrize("make", [CsvTrack, lambda: GpxTrack("t"), lambda: GeoJsonTrack("t")])
def test_a_file_without_rows_is_whole(make: Any) -> None:
    text = written(make(), []).decode()
    if text.startswith("{"):
        assert json.loads(text)["features"] == []
    elif text.startswith("<"):
        assert ET.fromstring(text).find(f"{GPX}trk") is not None
    else:
        assert text.count("\r\n") == 1
