"""A track as a file: GeoJSON (RFC 7946), GPX 1.1 or CSV, written piece by piece. Pure: rows in, bytes out.

A track is cut where more than 120 s are between two rows, and in GeoJSON also after PART_ROWS, whose last row begins
the next part. A file is whole only after `end`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol
from xml.sax.saxutils import escape

from core.domain.clock import to_us
from core.telemetry.rows import PositionRow
from core.telemetry.thinning import GAP_US

PART_ROWS = 5_000
_HALF_TURN_DEG = 180.0


class TrackFile(Protocol):
    """Writes one track, oldest row first."""

    def begin(self) -> bytes: ...
    def add(self, rows: Sequence[PositionRow]) -> bytes: ...
    def end(self) -> bytes: ...


class CsvTrack:
    """One line a row, RFC 4180. No column holds words of somebody's choice, so none can be a formula."""

    COLUMNS = (
        *("observed_at", "lat", "lon", "heading_deg", "accuracy_m", "rtk_fix", "rtk_source", "blades_on"),
        *("wifi_dbm", "mobile_dbm", "satellites"),
    )

    def begin(self) -> bytes:
        return (",".join(self.COLUMNS) + "\r\n").encode()

    def add(self, rows: Sequence[PositionRow]) -> bytes:
        return "".join(self._line(row) for row in rows).encode()

    def end(self) -> bytes:
        return b""

    def _line(self, row: PositionRow) -> str:
        blades = None if row.blades_on is None else str(row.blades_on).lower()
        values = (
            *(_moment(row), _degrees(row.lat), _degrees(row.lon), row.heading_deg, row.accuracy_m),
            *(row.rtk_fix, row.rtk_source, blades, row.wifi_dbm, row.mobile_dbm, row.satellites),
        )
        return ",".join("" if value is None else str(value) for value in values) + "\r\n"


class GpxTrack:
    """GPX 1.1: one `trk`, a `trkseg` for each stretch without a gap."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last_us: int | None = None

    def begin(self) -> bytes:
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<gpx version="1.1" creator="Mowdeck" xmlns="http://www.topografix.com/GPX/1/1">\n'
            f"<trk><name>{escape(self._name)}</name>\n"
        ).encode()

    def add(self, rows: Sequence[PositionRow]) -> bytes:
        return "".join(self._point(row) for row in rows).encode()

    def end(self) -> bytes:
        return ("" if self._last_us is None else "</trkseg>\n").encode() + b"</trk>\n</gpx>\n"

    def _point(self, row: PositionRow) -> str:
        at_us, last_us = to_us(row.observed_at), self._last_us
        self._last_us = at_us
        border = "<trkseg>\n" if last_us is None else "</trkseg>\n<trkseg>\n" if at_us - last_us > GAP_US else ""
        place = f'<trkpt lat="{_degrees(row.lat)}" lon="{_degrees(row.lon)}">'
        return f"{border}{place}<time>{_moment(row)}</time></trkpt>\n"


class GeoJsonTrack:
    """A FeatureCollection; each part is a Point, a LineString, or a MultiLineString cut at the 180th meridian. Its
    property `times` has one ISO time for each coordinate in order, null for those that the cut has added."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._part: list[PositionRow] = []
        self._is_first = True

    def begin(self) -> bytes:
        return b'{"type":"FeatureCollection","features":['

    def add(self, rows: Sequence[PositionRow]) -> bytes:
        written = []
        for row in rows:
            part = self._part
            if part and to_us(row.observed_at) - to_us(part[-1].observed_at) > GAP_US:
                written.append(self._flush(begun_with=()))
            elif len(part) == PART_ROWS:
                written.append(self._flush(begun_with=part[-1:]))
            self._part.append(row)
        return b"".join(written)

    def end(self) -> bytes:
        return (self._flush(begun_with=()) if self._part else b"") + b"\n]}\n"

    def _flush(self, *, begun_with: Sequence[PositionRow]) -> bytes:
        feature = json.dumps(make_feature(self._part, self._name), separators=(",", ":"))
        border, self._is_first = ("\n" if self._is_first else ",\n"), False
        self._part = list(begun_with)
        return (border + feature).encode()


def make_feature(part: Sequence[PositionRow], name: str) -> dict[str, object]:
    """Rows without a gap, at least one, as a GeoJSON feature."""
    lines: list[list[list[float]]] = [[]]
    times: list[str | None] = []
    last: PositionRow | None = None
    for row in part:
        if last is not None and abs(row.lon - last.lon) > _HALF_TURN_DEG:
            here, there = _cut(last, row)
            lines[-1].append(here)
            lines.append([there])
            times += [None, None]
        lines[-1].append([row.lon, row.lat])
        times.append(_moment(row))
        last = row
    geometry: dict[str, object]
    if len(part) == 1:
        geometry = {"type": "Point", "coordinates": lines[0][0]}
    elif len(lines) == 1:
        geometry = {"type": "LineString", "coordinates": lines[0]}
    else:
        geometry = {"type": "MultiLineString", "coordinates": lines}
    return {"type": "Feature", "geometry": geometry, "properties": {"name": name, "times": times}}


def _cut(before: PositionRow, after: PositionRow) -> tuple[list[float], list[float]]:
    """Where the step meets the 180th meridian, on its side and on the other."""
    side = _HALF_TURN_DEG if before.lon > 0 else -_HALF_TURN_DEG
    way = (after.lon + 2 * side) - before.lon
    share = (side - before.lon) / way if way else 0.0
    lat = round(before.lat + (after.lat - before.lat) * share, 7)
    return [side, lat], [-side, lat]


def _degrees(value: float) -> str:
    return f"{value:.7f}"


def _moment(row: PositionRow) -> str:
    return row.observed_at.isoformat().replace("+00:00", "Z")
