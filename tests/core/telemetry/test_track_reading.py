"""Files of a track read again: what was written comes back, and nothing wrong passes in silence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.errors import Mistake
from core.domain.ids import MowerId
from core.telemetry.rows import PositionRow
from core.telemetry.track_files import CsvTrack, GpxTrack
from core.telemetry.track_reading import LINE_BYTES, CsvReader, GpxReader, Read, TrackReader
from tests.core.telemetry.test_track_files import row, rows_of_a_track, written

MOWER = MowerId("m")
HEAD = b'<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>'
GOOD = b"2026-05-01T10:00:00Z,48,11\n"


def read(reader: TrackReader, data: bytes, piece: int = 50) -> Read:
    found = [one for n in range(0, len(data), piece) for one in reader.feed(data[n : n + piece])]
    return found + reader.end()


def shape(found: Read) -> list[str]:
    return [one.field if isinstance(one, Mistake) else "row" for one in found]


@settings(max_examples=40, deadline=None)
@given(rows_of_a_track, st.integers(1, 300))
def test_csv_comes_back_whole(rows: list[PositionRow], piece: int) -> None:
    assert read(CsvReader(MOWER), written(CsvTrack(), rows), piece) == rows


@settings(max_examples=40, deadline=None)
@given(rows_of_a_track, st.integers(1, 300))
def test_gpx_gives_times_and_places_back(rows: list[PositionRow], piece: int) -> None:
    plain = [PositionRow(mower_id=MOWER, observed_at=r.observed_at, lat=r.lat, lon=r.lon) for r in rows]
    assert read(GpxReader(MOWER), written(GpxTrack("a < b"), rows), piece) == plain


@pytest.mark.parametrize(
    "line",
    [
        *(b"2026-05-01T10:00:00,48,11", b"2026-05-01T10:00:00Z,nan,11", b"2026-05-01T10:00:00Z,91,11", b"=1+1,48,11"),
        *(b"2026-05-01T10:00:00Z,48", b'"2026-05-01T10:00:00Z,48,11', b"0001-01-01T00:00:00+10:00,48,11", b",48,11"),
        b"x" * (3 * LINE_BYTES),
    ],
)
def test_a_wrong_line_is_named_and_the_others_are_read(line: bytes) -> None:
    data = b"\xef\xbb\xbftime,lat,lon\r\n" + GOOD + line + b"\n" + GOOD
    assert shape(read(CsvReader(MOWER), data)) == ["row", "line 3", "row"]


@pytest.mark.parametrize(
    "data", [b"", b"lat,lon\n" + GOOD, b"time,lat,lon,lat\n", b"x" * 9_000, "time".encode("utf-16")]
)
def test_csv_without_a_usable_header_is_broken(data: bytes) -> None:
    reader = CsvReader(MOWER)
    assert shape(read(reader, data)) == ["line 1"]
    assert reader.is_broken


@pytest.mark.parametrize(
    "data",
    [
        b'<!DOCTYPE gpx [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]>' + HEAD,
        HEAD + b"<trkpt lat='1' lon='2'><time>2026-05-01T10:00:00Z</time>",
        HEAD + b"<a>" * 40,
        HEAD + b"<trkpt lat='1' lon='2'><time>" + b"1" * 9_000,
        *(b"<html/>", b"", HEAD + b"\xff\xfe"),
    ],
)
def test_hostile_or_cut_gpx_is_broken_and_gives_no_row(data: bytes) -> None:
    reader = GpxReader(MOWER)
    assert shape(read(reader, data)) == ["line 1"]
    assert reader.is_broken


def test_a_point_without_time_is_a_mistake() -> None:
    found = read(GpxReader(MOWER), HEAD + b"<trkpt lat='1' lon='2'/></trkseg></trk></gpx>")
    assert shape(found) == ["line 1"]
    assert shape(read(GpxReader(MOWER), written(GpxTrack("n"), [row(1)]))) == ["row"]
