"""Where a mower has been: for a map as JSON, simplified where it is too much, or whole as a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from core.domain import limits
from core.domain.access import ObjectType, Relation
from core.domain.errors import StorageError
from core.domain.ids import AccountId, MowerId
from core.storage.telemetry_store import TelemetryStore
from core.telemetry.rows import PositionRow
from core.telemetry.track_files import CsvTrack, GeoJsonTrack, GpxTrack, TrackFile
from core.web.route import OnObject, Request, Route
from core.web.streamed import Streamed
from core.web.time_range import RangeQuery, range_of

Format = Literal["json", "geojson", "gpx", "csv"]

MEDIA: dict[Format, str] = {
    "json": "application/json",
    "geojson": "application/geo+json",
    "gpx": "application/gpx+xml",
    "csv": "text/csv",
}
_FILES: dict[Format, Callable[[str], TrackFile]] = {
    "geojson": GeoJsonTrack,
    "gpx": GpxTrack,
    "csv": lambda _name: CsvTrack(),
}
PIECE_ROWS = 2_000


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """The track within `from <= observed_at < to`. Where more than `max_points` rows match, those that say most of it,
    and `simplified` says so. Of an old track rows are gone. Either way, no row that is missing was farther than `max_error_m`
    from the line through those that are here (0 where none is missing). When `truncated`, ask again with `from` set to
    `cursor`."""

    mower_id: MowerId
    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    positions: tuple[PositionRow, ...]
    simplified: bool = False
    max_error_m: float = 0.0
    truncated: bool = False
    cursor: datetime | None = None


class TrackQuery(RangeQuery, frozen=True, kw_only=True):
    """At most `max_points` rows (JSON; a file has every row). `format` goes before the header `Accept`."""

    max_points: Annotated[int, msgspec.Meta(ge=2, le=limits.MAX_TRACK_POINTS)] = limits.MAX_TRACK_POINTS
    format: Format | None = None


def track_route(store: TelemetryStore) -> Route:
    """The route over a host's store."""

    async def positions(request: Request) -> Track | Streamed:
        start, end = range_of(request.query, request.now)
        account_id, mower_id = request.who.account_id, MowerId(request.path["mower_id"])
        kind = request.query.format or accepted_format(request.raw.headers.get("Accept", ""))
        if kind != "json":
            days = f"{start:%Y%m%dT%H%M%SZ}-{end:%Y%m%dT%H%M%SZ}"
            file = _FILES[kind](f"track {mower_id}")
            return Streamed(
                pieces=write_track(store, account_id, mower_id, (start, end), file),
                content_type=f"{MEDIA[kind]}; charset=utf-8" if kind == "csv" else MEDIA[kind],
                file_name=f"track-{mower_id}-{days}.{kind}",
            )
        found = await store.track_view(account_id, mower_id, start, end, most=request.query.max_points)
        return Track(
            mower_id=mower_id,
            start=start,
            end=end,
            positions=tuple(found.rows),
            simplified=found.is_simplified,
            max_error_m=found.error_m,
            truncated=found.page.is_truncated,
            cursor=found.page.cursor,
        )

    return Route(
        method="GET",
        path="/telemetry/mowers/{mower_id}/positions",
        guard=OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id"),
        handler=positions,
        summary="Where a mower has been",
        tag="telemetry",
        query=TrackQuery,
        answer=Track,
        media=tuple(media for kind, media in MEDIA.items() if kind != "json"),
        errors=(StorageError,),
    )


async def write_track(
    store: TelemetryStore, account_id: AccountId, mower_id: MowerId, span: tuple[datetime, datetime], file: TrackFile
) -> AsyncGenerator[bytes, None]:
    """The whole track as a file, a page of rows at a time."""
    start, end = span
    rows, page = await store.positions(account_id, mower_id, start, end, limit=PIECE_ROWS)
    yield file.begin() + file.add(rows)
    while page.cursor is not None:
        rows, page = await store.positions(account_id, mower_id, page.cursor, end, limit=PIECE_ROWS)
        yield file.add(rows)
    yield file.end()


def accepted_format(accept: str) -> Format:
    """The format that an Accept header likes best; JSON when it names none of ours."""
    kinds: dict[str, Format] = {media: kind for kind, media in MEDIA.items()} | {"*/*": "json", "application/*": "json"}
    liked: list[tuple[float, Format]] = []
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        if media in kinds:
            try:
                liked.append((float(weight), kinds[media]))
            except ValueError:
                continue
    liked = [one for one in liked if one[0] > 0]
    return max(liked, key=lambda one: one[0])[1] if liked else "json"
