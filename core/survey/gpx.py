"""The track of a GPX file (a phone that walked along) as timed places. Pure: bytes in.

Read with expat, without any document type: a file that brings one is refused, for entities are how XML grows for ever.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.parsers import expat

from core.domain.errors import InvalidInputError
from core.domain.geo import GeoPoint, Plane, PlanePoint
from core.survey.sample import Place

GAP_S = 10.0
"""Between two points that are further apart in time, nobody knows where the walker was."""
POINTS_MAX = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackPoint:
    """Degrees, and when (aware UTC)."""

    at: datetime
    lat: float
    lon: float


def read_gpx(data: bytes) -> list[TrackPoint]:
    """The track points that have a time, by time. InvalidInputError: no GPX, or none of them has one."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(data, True)  # noqa: FBT003  (positional in expat)
    except expat.ExpatError as err:
        raise InvalidInputError.of("positions", f"is no GPX file ({err})") from err
    if not reader.points:
        raise InvalidInputError.of("positions", "holds no track points with a time")
    return sorted(reader.points, key=lambda point: point.at)


def place_at(track: Sequence[TrackPoint], at: datetime) -> Place | None:
    """Where the walker was: on the straight line between two points at most GAP_S apart, else unknown."""
    after = bisect_left(track, at, key=lambda point: point.at)
    if after == len(track):
        return None
    second = track[after]
    if second.at == at:
        return Place(via="gpx", lat=second.lat, lon=second.lon)
    if after == 0:
        return None
    first = track[after - 1]
    gap_s = (second.at - first.at).total_seconds()
    if gap_s > GAP_S:
        return None
    share = (at - first.at).total_seconds() / gap_s
    plane = Plane(GeoPoint(lat=first.lat, lon=first.lon))
    there = plane.project(GeoPoint(lat=second.lat, lon=second.lon))
    here = plane.unproject(PlanePoint(east_m=there.east_m * share, north_m=there.north_m * share))
    return Place(via="gpx", lat=here.lat, lon=here.lon)


class _Reader:
    """Collects `trkpt` elements; names may have a prefix."""

    def __init__(self) -> None:
        self.points: list[TrackPoint] = []
        self._where: tuple[float, float] | None = None
        self._time: list[str] | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        local = name.rpartition(":")[2]
        if local == "trkpt":
            self._where = _where(attributes)
        elif local == "time" and self._where is not None:
            self._time = []

    def text(self, data: str) -> None:
        if self._time is not None:
            self._time.append(data)

    def end(self, name: str) -> None:
        local = name.rpartition(":")[2]
        if local == "trkpt":
            self._where = None
        elif local == "time" and self._time is not None:
            at = _moment("".join(self._time).strip())
            self._time = None
            if at is not None and self._where is not None:
                self.points.append(TrackPoint(at=at, lat=self._where[0], lon=self._where[1]))
                if len(self.points) > POINTS_MAX:
                    raise InvalidInputError.of("positions", f"holds more than {POINTS_MAX} points")


def _refuse_doctype(*_: object) -> None:
    raise InvalidInputError.of("positions", "brings a document type; GPX has none")


def _where(attributes: Mapping[str, str]) -> tuple[float, float] | None:
    try:
        lat, lon = float(attributes["lat"]), float(attributes["lon"])
    except (KeyError, ValueError):
        return None
    is_place = math.isfinite(lat) and math.isfinite(lon) and abs(lat) <= 90 and abs(lon) <= 180
    return (lat, lon) if is_place else None


def _moment(text: str) -> datetime | None:
    """GPX times are UTC, whether or not they say so."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
