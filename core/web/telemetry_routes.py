"""Reading telemetry: latest, history, track and timeline, the same on box and relay."""

from __future__ import annotations

from datetime import datetime

import msgspec

from core.access.authorizer import Authorizer
from core.domain import limits
from core.domain.access import ObjectType, Relation
from core.domain.clock import Clock
from core.domain.commands import CommandResult
from core.domain.errors import InvalidInputError, NoTelemetryYetError, StorageError, TooManyBinsError
from core.domain.ids import MowerId
from core.domain.mower import MowerState
from core.storage.telemetry_store import HistoryBin, LatestState, TelemetryStore
from core.telemetry.binning import RAW, check_bins, fitting_step, step_seconds
from core.telemetry.rows import HistoryRow
from core.web.heatmap_routes import heatmap_route
from core.web.route import Decided, Handler, OnObject, Request, Route
from core.web.time_range import RangeQuery, range_of
from core.web.track_routes import track_route

CHOSEN_BINS = 1_500
"""A step that nobody asked for gives at most this many points: enough for a screen."""


class LatestView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest state. `stale` means nothing newer for 60 s (six missed heartbeats); `age_s` counts from when it was
    observed or received, whichever is longer ago."""

    mower_id: MowerId
    state: MowerState
    received_at: datetime
    stale: bool
    age_s: float


class LatestList(msgspec.Struct, frozen=True, kw_only=True):
    """The newest state of every mower that the caller may view and that has reported."""

    items: tuple[LatestView, ...]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of state within `from <= observed_at < to`: `bins` for a step, `rows` for `raw`. When `truncated`, ask
    again with `from` set to `cursor`."""

    mower_id: MowerId
    step: str
    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    bins: tuple[HistoryBin, ...] | None = None
    rows: tuple[HistoryRow, ...] | None = None
    truncated: bool = False
    cursor: datetime | None = None


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Transitions of commands within `from <= at < to`. Cut like a track."""

    mower_id: MowerId
    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    transitions: tuple[CommandResult, ...]
    truncated: bool = False
    cursor: datetime | None = None


class HistoryQuery(RangeQuery, frozen=True, kw_only=True):
    """Without `step`, one is chosen."""

    step: str | None = None


def telemetry_routes(store: TelemetryStore, authorizer: Authorizer, clock: Clock) -> tuple[Route, ...]:
    """The routes over a host's store."""
    handlers = _TelemetryHandlers(store, authorizer, clock)

    def of_mower(
        what: str, handler: Handler, summary: str, answer: type[msgspec.Struct], query: type[msgspec.Struct] | None
    ) -> Route:
        return Route(
            method="GET",
            path=f"/telemetry/mowers/{{mower_id}}/{what}",
            guard=OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id"),
            handler=handler,
            summary=summary,
            tag="telemetry",
            query=query,
            answer=answer,
            errors=(TooManyBinsError, StorageError) if what == "history" else (StorageError,),
        )

    return (
        Route(
            method="GET",
            path="/telemetry/states",
            guard=Decided(relations=(Relation.CAN_VIEW,), reason="lists only what the caller may view"),
            handler=handlers.states,
            summary="The newest state of every mower that you may see",
            tag="telemetry",
            answer=LatestList,
            errors=(StorageError,),
        ),
        of_mower("state", handlers.state, "The newest state of a mower", LatestView, None),
        of_mower("history", handlers.history, "How a mower's state changed", History, HistoryQuery),
        track_route(store),
        heatmap_route(store),
        of_mower("timeline", handlers.timeline, "What became of a mower's commands", Timeline, RangeQuery),
    )


class _TelemetryHandlers:
    def __init__(self, store: TelemetryStore, authorizer: Authorizer, clock: Clock) -> None:
        self._store = store
        self._authorizer = authorizer
        self._clock = clock

    async def states(self, request: Request) -> LatestList:
        who = request.who
        visible = await self._authorizer.list_objects(who, Relation.CAN_VIEW, ObjectType.MOWER)
        found = await self._store.latest_of(who.account_id, [MowerId(mower_id) for mower_id in sorted(visible)])
        return LatestList(items=tuple(view_latest(latest, self._clock.now()) for latest in found))

    async def state(self, request: Request) -> LatestView:
        latest = await self._store.latest(request.who.account_id, _mower(request))
        if latest is None:
            raise NoTelemetryYetError("this mower has not reported yet")
        return view_latest(latest, self._clock.now())

    async def history(self, request: Request) -> History:
        start, end = range_of(request.query, request.now)
        if end - start > limits.HISTORY_RANGE:
            raise InvalidInputError.of("from", f"at most {limits.HISTORY_RANGE.days} days before 'to'")
        step = request.query.step or fitting_step(start, end, CHOSEN_BINS) or "1d"
        step_s = step_seconds(step)
        who, mower_id = request.who, _mower(request)
        if step_s is None:
            rows, page = await self._store.history(who.account_id, mower_id, start, end, limit=limits.MAX_RAW_ROWS)
            return History(
                mower_id=mower_id,
                step=RAW,
                start=start,
                end=end,
                rows=tuple(rows),
                truncated=page.is_truncated,
                cursor=page.cursor,
            )
        check_bins(start, end, step_s)
        bins = await self._store.history_bins(who.account_id, mower_id, start, end, step_s=step_s)
        return History(mower_id=mower_id, step=step, start=start, end=end, bins=tuple(bins))

    async def timeline(self, request: Request) -> Timeline:
        start, end = range_of(request.query, request.now)
        mower_id = _mower(request)
        rows, page = await self._store.timeline(request.who.account_id, mower_id, start, end, limit=limits.MAX_RAW_ROWS)
        return Timeline(
            mower_id=mower_id,
            start=start,
            end=end,
            transitions=tuple(row.result for row in rows),
            truncated=page.is_truncated,
            cursor=page.cursor,
        )


def view_latest(latest: LatestState, now: datetime) -> LatestView:
    """A state with its age. A box whose clock runs behind makes its states look old, never an old one look fresh."""
    age_s = max(0.0, (now - min(latest.received_at, latest.state.observed_at)).total_seconds())
    return LatestView(
        mower_id=latest.mower_id,
        state=latest.state,
        received_at=latest.received_at,
        stale=age_s > limits.STALE_AFTER_S,
        age_s=age_s,
    )


def _mower(request: Request) -> MowerId:
    return MowerId(request.path["mower_id"])
