"""Reading mowing sessions, the same on box and relay."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode

import msgspec

from core.domain.access import ObjectType, Relation
from core.domain.commands import CommandResult
from core.domain.errors import InvalidInputError, NotFoundError, StorageError
from core.domain.ids import MowerId
from core.storage.record_book import RecordBook
from core.storage.telemetry_store import TelemetryStore
from core.telemetry.session import SESSION, Session
from core.web.route import OnObject, Request, Route
from core.web.time_range import EARLIEST, LATEST

DAYS_DEFAULT = timedelta(days=30)
PAGE, PAGE_MAX = 50, 200
TIMELINE_MAX = 200


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that began within `from <= started_at < to`, newest first. With a `cursor` there are older ones: ask
    again with it."""

    mower_id: MowerId
    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    items: tuple[Session, ...]
    cursor: datetime | None = None


class SessionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `positions` and `history` are paths of this API: its track, and how its state changed.
    `transitions`: what became of commands meanwhile; `truncated`: the first TIMELINE_MAX of them."""

    mower_id: MowerId
    session: Session
    positions: str
    history: str
    transitions: tuple[CommandResult, ...]
    truncated: bool = False


class SessionsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Without `to`: until now. Without `from`: the 30 days before. `cursor` takes the place of `to`."""

    start: datetime | None = msgspec.field(default=None, name="from")
    end: datetime | None = msgspec.field(default=None, name="to")
    cursor: datetime | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)] = PAGE


def session_routes(store: TelemetryStore, book: RecordBook) -> tuple[Route, ...]:
    """The routes over a host's store and its records."""
    handlers = _SessionHandlers(store, book)
    guard = OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id")
    return (
        Route(
            method="GET",
            path="/telemetry/mowers/{mower_id}/sessions",
            guard=guard,
            handler=handlers.sessions,
            summary="A mower's jobs, from leaving to docking",
            tag="telemetry",
            query=SessionsQuery,
            answer=SessionList,
            errors=(InvalidInputError, StorageError),
        ),
        Route(
            method="GET",
            path="/telemetry/mowers/{mower_id}/sessions/{session_id}",
            guard=guard,
            handler=handlers.session,
            summary="One job of a mower",
            tag="telemetry",
            answer=SessionDetail,
            errors=(NotFoundError, StorageError),
        ),
    )


class _SessionHandlers:
    def __init__(self, store: TelemetryStore, book: RecordBook) -> None:
        self._store = store
        self._book = book

    async def sessions(self, request: Request) -> SessionList:
        query, mower_id = request.query, MowerId(request.path["mower_id"])
        end = query.end or request.now
        for field, instant in (("to", end), ("from", query.start), ("cursor", query.cursor)):
            if instant is not None and not EARLIEST <= instant <= LATEST:
                raise InvalidInputError.of(field, "must lie between 1970 and 2200")
        start = max(EARLIEST, end - DAYS_DEFAULT) if query.start is None else query.start
        if start >= end:
            raise InvalidInputError.of("from", "must be before 'to'")
        until = end if query.cursor is None else min(end, query.cursor)
        if until <= start:
            return SessionList(mower_id=mower_id, start=start, end=end, items=())
        rows, page = await self._book.list_kind(
            request.who.account_id, mower_id, SESSION.name, start, until, limit=query.limit, is_newest_first=True
        )
        items = tuple(session for row in rows if (session := SESSION.read(row)) is not None)
        return SessionList(mower_id=mower_id, start=start, end=end, items=items, cursor=page.cursor)

    async def session(self, request: Request) -> SessionDetail:
        account_id, mower_id = request.who.account_id, MowerId(request.path["mower_id"])
        row = await self._book.get(account_id, mower_id, SESSION.name, request.path["session_id"])
        session = None if row is None else SESSION.read(row)
        if session is None:
            raise NotFoundError("this mower has no such session")
        end = session.seen_at + timedelta(microseconds=1)
        transitions, page = await self._store.timeline(
            account_id, mower_id, session.started_at, end, limit=TIMELINE_MAX
        )
        span = urlencode({"from": _text(session.started_at), "to": _text(end)})
        base = f"/api/v1/telemetry/mowers/{mower_id}"
        return SessionDetail(
            mower_id=mower_id,
            session=session,
            positions=f"{base}/positions?{span}",
            history=f"{base}/history?{span}&step=raw",
            transitions=tuple(row.result for row in transitions),
            truncated=page.is_truncated,
        )


def _text(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
