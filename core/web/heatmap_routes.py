"""A heatmap of a mower's lawn: as a grid in JSON, or as a picture."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from core.domain.access import ObjectType, Relation
from core.domain.errors import RateLimitedError, StorageError
from core.domain.ids import MowerId
from core.storage.telemetry_store import TelemetryStore
from core.telemetry.track_columns import Layer, TrackColumns
from core.web.heatmap_desk import HeatmapDesk
from core.web.route import Answer, OnObject, Request, Route
from core.web.time_range import RangeQuery, range_of

if TYPE_CHECKING:
    from core.telemetry.heatmap import Heatmap

DEFAULT_RANGE = timedelta(days=7)
CELLS_M: dict[Layer, float] = {"coverage": 0.25, "rtk": 1.0, "wifi": 1.0, "mobile": 1.0}
CUT_M = 0.22
PNG = "image/png"


class Legend(msgspec.Struct, frozen=True, kw_only=True):
    """What the numbers mean, and how far they reach (null without any)."""

    title: str
    unit: str
    least: float | None
    most: float | None


LEGENDS: dict[Layer, tuple[str, str]] = {
    "coverage": ("Times mown", "passes"),
    "rtk": ("Share of samples with a fixed RTK solution", "share"),
    "wifi": ("Median Wi-Fi signal", "dBm"),
    "mobile": ("Median mobile signal", "dBm"),
}


class HeatmapQuery(RangeQuery, frozen=True, kw_only=True):
    """Without `from`: the 7 days before `to`. Without `cell_m`: 0.25 m for coverage, 1 m for the signals. `width_m` is the
    cut of the mower's blades. `format` goes before the header `Accept`."""

    layer: Layer = "coverage"
    cell_m: Annotated[float, msgspec.Meta(ge=0.05, le=100)] | None = None
    width_m: Annotated[float, msgspec.Meta(ge=0.05, le=5)] = CUT_M
    format: Literal["json", "png"] | None = None


class HeatmapView(msgspec.Struct, frozen=True, kw_only=True):
    """A grid of `width` x `height` square cells. `lat` and `lon` are its south-west corner; `values` go eastwards, row by
    row to the north, null where nothing is known: passes, share of fixed (0..1) or median dBm. Coverage also has when each
    cell was last mown (seconds since 1970) and the area of the mown cells (a lane
    counts as at least one cell wide: small cells for a true area). `left_out` counts rows without a place or far from the lawn."""

    mower_id: MowerId
    layer: Layer
    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    lat: float | None
    lon: float | None
    cell_m: float
    width: int
    height: int
    legend: Legend
    rows: int
    left_out: int
    covered_m2: float | None = None
    values: list[float | None]
    last_mown_s: list[int | None] | None = None


def heatmap_route(store: TelemetryStore) -> Route:
    """The route over a host's store."""
    desk = HeatmapDesk(store)

    async def heatmap(request: Request) -> Answer:
        query, mower_id = request.query, MowerId(request.path["mower_id"])
        if query.start is None:
            query = msgspec.structs.replace(query, start=(query.end or request.now) - DEFAULT_RANGE)
        start, end = range_of(query, request.now)
        cell_m = CELLS_M[query.layer] if query.cell_m is None else query.cell_m
        kind = query.format or accepted_kind(request.raw.headers.get("Accept", ""))

        def job(track: TrackColumns) -> bytes:
            from core.telemetry.heatmap import make_heatmap  # numpy takes memory and time: only where it is needed

            made = make_heatmap(track, layer=query.layer, cell_m=cell_m, width_m=query.width_m)
            if kind == "png":
                from core.web.heatmap_picture import draw

                title, unit = LEGENDS[query.layer]
                return draw(
                    made,
                    title=f"{title}, {mower_id}",
                    unit=unit,
                    subtitle=f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC",
                )
            return encode(made, mower_id, f"{start:%Y-%m-%dT%H:%M:%SZ}", f"{end:%Y-%m-%dT%H:%M:%SZ}")

        body = await desk.make(request.who.account_id, mower_id, (start, end), query.layer, job)
        return Answer(value=body, content_type=PNG if kind == "png" else "application/json")

    return Route(
        method="GET",
        path="/telemetry/mowers/{mower_id}/heatmap",
        guard=OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id"),
        handler=heatmap,
        summary="What was mown, and how good fix and signals were, cell by cell",
        tag="telemetry",
        query=HeatmapQuery,
        answer=HeatmapView,
        media=(PNG,),
        errors=(StorageError, RateLimitedError),
    )


def encode(made: Heatmap, mower_id: MowerId, start: str, end: str) -> bytes:
    """The heatmap as JSON."""
    import numpy as np

    known = np.isfinite(made.values)
    title, unit = LEGENDS[made.layer]
    has_any = bool(known.any())
    view = HeatmapView(
        mower_id=mower_id,
        layer=made.layer,
        start=start,
        end=end,
        lat=None if made.corner is None else made.corner[0],
        lon=None if made.corner is None else made.corner[1],
        cell_m=made.grid.cell_m,
        width=made.grid.width,
        height=made.grid.height,
        legend=Legend(
            title=title,
            unit=unit,
            least=float(made.values[known].min()) if has_any else None,
            most=float(made.values[known].max()) if has_any else None,
        ),
        rows=made.rows,
        left_out=made.left_out,
        covered_m2=float(known.sum()) * made.grid.cell_m**2 if made.layer == "coverage" else None,
        values=np.where(known, np.round(made.values, 3), np.nan).tolist(),  # msgspec writes NaN as null
        last_mown_s=None if made.last_us is None else [us // 1_000_000 or None for us in made.last_us.tolist()],
    )
    return msgspec.json.encode(view)


def accepted_kind(accept: str) -> Literal["json", "png"]:
    """PNG when the header names it and nothing before it, as browsers' and tools' pictures do."""
    for part in accept.split(","):
        media = part.split(";")[0].strip().lower()
        if media in {PNG, "image/*"}:
            return "png"
        if media == "application/json":
            return "json"
    return "json"
