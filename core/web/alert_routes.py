"""Alerts over the API, the same on box and relay: reading them, acknowledging, closing, and their evidence.

Acknowledging asks for `can_control`: it tells everybody that somebody takes care, which is not for those who may only
look. An answer is a record of the host that it is given on; like a change of blades, the box's reaches the relay by
the journal and the relay's reaches the box with its registrations.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from core.access.authorizer import Authorizer
from core.domain import limits
from core.domain.access import ObjectType, Relation
from core.domain.clock import Clock, to_us
from core.domain.errors import ForbiddenError, InvalidInputError, NotFoundError, RateLimitedError, StorageError
from core.domain.ids import MowerId, is_safe_id
from core.identity.principal import Principal
from core.storage.alert_log import AlertLog, Answered, LoggedAlert
from core.storage.record_book import RecordBook
from core.storage.telemetry_store import TelemetryStore
from core.telemetry.alert import AlertKind, Evidence, Severity, Step
from core.telemetry.evidence_chain import What, chain
from core.telemetry.rows import HistoryRow
from core.web.health_routes import OnEntered
from core.web.rate import RateLimiter
from core.web.route import Decided, OnObject, Request, Route

PAGE, PAGE_MAX = 50, 200
NOTE_CHARS = 500
ANSWERS_PER_S, ANSWERS_BURST = 0.2, 20
BEFORE, AFTER = timedelta(minutes=30), timedelta(minutes=10)
SPAN_MAX = timedelta(hours=12)
EVIDENCE_POSITIONS = 10_000


class AlertClosed(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended; `by` for a person."""

    at: datetime
    why: Literal["recovery", "person"]
    by: str | None = None


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """An alert with what people have answered. `evidence`: how it began and the newest."""

    alert_id: str
    mower_id: MowerId
    kind: AlertKind
    cause: str
    severity: Severity
    since: datetime
    opened_at: datetime
    updated_at: datetime
    evidence: tuple[Evidence, ...]
    acknowledged: Answered | None
    closed: AlertClosed | None


class AlertList(msgspec.Struct, frozen=True, kw_only=True):
    """Open ones first, then the newest first. With a `cursor` there are more: ask again with it."""

    items: tuple[AlertView, ...]
    cursor: str | None = None


class AlertsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`is_open`: only open ones (true) or only closed ones (false)."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)] = PAGE
    cursor: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    is_open: bool | None = None


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody takes care. With `close` the alert is closed too: it is told again once its cause has been gone."""

    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARS)] = ""
    close: bool = False


class EvidenceLines(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of an evidence file, each without its line feed; see `core.telemetry.evidence_chain`. `truncated`:
    there was more than one file holds."""

    alert_id: str
    mower_id: MowerId
    lines: tuple[str, ...]
    truncated: bool = False


def alert_routes(
    book: RecordBook, store: TelemetryStore, authorizer: Authorizer, clock: Clock, *, on_entered: OnEntered
) -> tuple[Route, ...]:
    """The routes over a host's records."""
    handlers = _AlertHandlers(book, store, authorizer, clock, on_entered)
    return (
        Route(
            method="GET",
            path="/alerts",
            guard=Decided(relations=(Relation.CAN_VIEW,), reason="lists only what the caller may view"),
            handler=handlers.list_all,
            summary="Alerts of all mowers that you may see, open ones first",
            tag="alerts",
            query=AlertsQuery,
            answer=AlertList,
            errors=(InvalidInputError, StorageError),
        ),
        Route(
            method="GET",
            path="/mowers/{mower_id}/alerts",
            guard=OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id"),
            handler=handlers.list_of_mower,
            summary="Alerts of a mower, open ones first",
            tag="alerts",
            query=AlertsQuery,
            answer=AlertList,
            errors=(InvalidInputError, StorageError),
        ),
        Route(
            method="POST",
            path="/alerts/{alert_id}/acknowledge",
            guard=Decided(relations=(Relation.CAN_CONTROL,), reason="whose alert it is has to be looked up"),
            handler=handlers.acknowledge,
            summary="Say that you take care of an alert, or close it",
            tag="alerts",
            body=Acknowledgement,
            answer=AlertView,
            errors=(NotFoundError, ForbiddenError, RateLimitedError, StorageError),
        ),
        Route(
            method="GET",
            path="/alerts/{alert_id}/evidence",
            guard=Decided(relations=(Relation.CAN_VIEW,), reason="whose alert it is has to be looked up"),
            handler=handlers.evidence,
            summary="What was seen around an alert, as lines chained by their hashes",
            tag="alerts",
            answer=EvidenceLines,
            errors=(NotFoundError, StorageError),
        ),
    )


class _AlertHandlers:
    def __init__(
        self, book: RecordBook, store: TelemetryStore, authorizer: Authorizer, clock: Clock, on_entered: OnEntered
    ) -> None:
        self._log = AlertLog(book)
        self._store = store
        self._authorizer = authorizer
        self._clock = clock
        self._on_entered = on_entered
        self._limiter = RateLimiter(rate_per_s=ANSWERS_PER_S, burst=ANSWERS_BURST)

    async def list_all(self, request: Request) -> AlertList:
        return await self._list(request, await self._mowers(request.who, Relation.CAN_VIEW))

    async def list_of_mower(self, request: Request) -> AlertList:
        return await self._list(request, [MowerId(request.path["mower_id"])])

    async def acknowledge(self, request: Request) -> AlertView:
        who, said = request.who, request.body
        logged = await self._find(request)
        if logged.mower_id not in await self._mowers(who, Relation.CAN_CONTROL):
            raise ForbiddenError("you may look at this mower, not take care of it")
        wait_s = self._limiter.take((who.account_id, logged.mower_id), self._clock.monotonic())
        if wait_s > 0:
            raise RateLimitedError("too many answers about this mower", retry_after_s=wait_s)
        answer = Answered(by=who.name, at=self._clock.now(), note=said.note)
        steps: tuple[Step, ...] = ("ack", "close") if said.close else ("ack",)
        are_new = [
            await self._log.answer(who.account_id, logged.mower_id, logged.alert.alert_id, step, answer)
            for step in steps
            if step == "ack" or logged.is_open
        ]
        if any(are_new):
            await self._on_entered(who.account_id, logged.mower_id)
        return view_alert(await self._find(request))

    async def evidence(self, request: Request) -> EvidenceLines:
        logged = await self._find(request)
        account_id, mower_id = request.who.account_id, logged.mower_id
        start = logged.alert.since - BEFORE
        end = min((logged.alert.closed_at or request.now) + AFTER, start + SPAN_MAX)
        states, more_states = await self._store.history(account_id, mower_id, start, end, limit=limits.MAX_RAW_ROWS)
        places, more_places = await self._store.positions(account_id, mower_id, start, end, limit=EVIDENCE_POSITIONS)
        items: list[tuple[datetime, What, Any]] = [(row.observed_at, "state", row) for row in states]
        items += [(row.observed_at, "position", row) for row in places]
        items += _link_changes(states)
        items.sort(key=lambda item: item[0])
        lines = chain([("alert", view_alert(logged)), *((what, item) for _, what, item in items)])
        return EvidenceLines(
            alert_id=logged.alert.alert_id,
            mower_id=mower_id,
            lines=tuple(line.decode() for line in lines),
            truncated=more_states.is_truncated or more_places.is_truncated,
        )

    async def _list(self, request: Request, mower_ids: Iterable[MowerId]) -> AlertList:
        query = request.query
        found: list[LoggedAlert] = []
        for mower_id in mower_ids:
            found += await self._log.of_mower(request.who.account_id, mower_id)
        if query.is_open is not None:
            found = [logged for logged in found if logged.is_open is query.is_open]
        after = _place_of_cursor(query.cursor)
        rest = sorted((logged for logged in found if after is None or _place(logged) > after), key=_place)
        page = rest[: query.limit]
        return AlertList(
            items=tuple(view_alert(logged) for logged in page),
            cursor=_cursor(page[-1]) if len(rest) > len(page) else None,
        )

    async def _find(self, request: Request) -> LoggedAlert:
        """The alert of the path, of a mower that the caller may view; NotFoundError."""
        alert_id = request.path["alert_id"]
        if is_safe_id(alert_id):
            for mower_id in await self._mowers(request.who, Relation.CAN_VIEW):
                logged = await self._log.find(request.who.account_id, mower_id, alert_id)
                if logged is not None:
                    return logged
        raise NotFoundError("no such alert")

    async def _mowers(self, who: Principal, relation: Relation) -> list[MowerId]:
        found = await self._authorizer.list_objects(who, relation, ObjectType.MOWER)
        return [MowerId(mower_id) for mower_id in sorted(found)]


def view_alert(logged: LoggedAlert) -> AlertView:
    """The alert as the API shows it."""
    alert, by = logged.alert, logged.closed_by
    closed = None
    if by is not None:
        closed = AlertClosed(at=by.at, why="person", by=by.by)
    elif alert.closed_at is not None:
        closed = AlertClosed(at=alert.closed_at, why=alert.closed_why or "recovery")
    return AlertView(
        alert_id=alert.alert_id,
        mower_id=logged.mower_id,
        kind=alert.kind,
        cause=alert.cause,
        severity=alert.severity,
        since=alert.since,
        opened_at=alert.opened_at,
        updated_at=alert.updated_at,
        evidence=alert.evidence,
        acknowledged=logged.acknowledged,
        closed=closed,
    )


def _link_changes(states: Iterable[HistoryRow]) -> list[tuple[datetime, What, Any]]:
    """When the mower came within reach and was lost."""
    changes: list[tuple[datetime, What, Any]] = []
    known = None
    for row in states:
        if row.connectivity is not known:
            changes.append((row.observed_at, "link", {"at": row.observed_at, "connectivity": row.connectivity}))
        known = row.connectivity
    return changes


_Place = tuple[bool, int, str]


def _place(logged: LoggedAlert) -> _Place:
    """Sorts open ones first, then the newest."""
    return (not logged.is_open, -to_us(logged.alert.since), logged.alert.alert_id)


def _cursor(logged: LoggedAlert) -> str:
    is_closed, negative_us, alert_id = _place(logged)
    return f"{int(is_closed)}.{-negative_us}.{alert_id}"


def _place_of_cursor(cursor: str | None) -> _Place | None:
    if cursor is None:
        return None
    is_closed, _, rest = cursor.partition(".")
    since, _, alert_id = rest.partition(".")
    if is_closed not in {"0", "1"} or not (since.isascii() and since.isdigit()) or not is_safe_id(alert_id):
        raise InvalidInputError.of("cursor", "must be one that an answer gave")
    return (is_closed == "1", -int(since), alert_id)
