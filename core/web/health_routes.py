"""Health and care of a mower, the same on box and relay: totals, days, battery, and its blades.

A change of blades is a record of whichever host it is entered on. The box's reach the relay by the journal, the
relay's reach the box with its registrations (`on_entered`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

import msgspec

from core.domain.access import ObjectType, Relation
from core.domain.clock import Clock
from core.domain.errors import InvalidInputError, NotFoundError, RateLimitedError, StorageError
from core.domain.ids import AccountId, MowerId, make_id
from core.domain.mower import Totals
from core.storage.record_book import RecordBook
from core.telemetry.admission import EARLIEST
from core.telemetry.blades import BLADE_CARE, BLADE_CARE_KEY, BLADE_CHANGE, BladeCare, BladeChange
from core.telemetry.care import (
    BatteryReport,
    BladeReport,
    ErrorSum,
    HealthTotals,
    battery_report,
    blade_report,
    sum_days,
    sum_errors,
    vendor_totals,
)
from core.telemetry.health_day import HEALTH_DAY, HealthDay
from core.telemetry.rows import RecordRow
from core.web.rate import RateLimiter
from core.web.route import Handler, OnObject, Request, Route

DAYS_DEFAULT = 30
DAYS_MAX = 400
PAGE = 1_000
ZONE_SLACK = timedelta(hours=26)
"""A local date begins at most this far from the same midnight in UTC."""
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
ENTRIES_PER_S, ENTRIES_BURST = 0.1, 10
NOTE_CHARS = 500

OnEntered = Callable[[AccountId, MowerId], Awaitable[None]]
"""Somebody entered something about the mower that its box has to know; raises nothing for an outage."""


class MowerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a mower's wear. `updated_at`: the newest day is as it was then (None: no day yet)."""

    mower_id: MowerId
    days: int
    since: date | None
    updated_at: datetime | None
    totals: HealthTotals
    vendor: Totals | None
    """What the mower itself counts over its life; never mixed with ours."""
    blades: BladeReport
    battery: BatteryReport
    errors: tuple[ErrorSum, ...]


class HealthDays(msgspec.Struct, frozen=True, kw_only=True):
    """Days of health within `from..to` (both included), oldest first. A day on which nothing was heard is absent."""

    mower_id: MowerId
    start: date = msgspec.field(name="from")
    end: date = msgspec.field(name="to")
    items: tuple[HealthDay, ...]


class DaysQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Dates of the garden. Without `to`: today. Without `from`: the 30 days before."""

    start: date | None = msgspec.field(default=None, name="from")
    end: date | None = msgspec.field(default=None, name="to")


class NewBlades(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New blades were put on, now or at `at`."""

    at: datetime | None = None
    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARS)] = ""


class BladeInterval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hours of turning after which this mower's blades are due."""

    interval_h: Annotated[float, msgspec.Meta(ge=1, le=10_000)]


def health_routes(book: RecordBook, clock: Clock, *, on_entered: OnEntered) -> tuple[Route, ...]:
    """The routes over a host's records."""
    handlers = _HealthHandlers(book, clock, on_entered)
    control = OnObject(relation=Relation.CAN_CONTROL, type=ObjectType.MOWER, parameter="mower_id")
    return (
        _reading("health", handlers.health, "How worn a mower is: totals, blades, battery, faults", MowerHealth, None),
        _reading("health/days", handlers.days, "A mower's health day by day", HealthDays, DaysQuery),
        Route(
            method="POST",
            path="/fleet/mowers/{mower_id}/blades/changed",
            guard=control,
            handler=handlers.change_blades,
            summary="New blades were put on: their hours begin again",
            tag="telemetry",
            body=NewBlades,
            answer=BladeReport,
            status=201,
            errors=(InvalidInputError, NotFoundError, RateLimitedError, StorageError),
        ),
        Route(
            method="PUT",
            path="/fleet/mowers/{mower_id}/blades/interval",
            guard=control,
            handler=handlers.set_interval,
            summary="After how many hours a mower's blades are due",
            tag="telemetry",
            body=BladeInterval,
            answer=BladeReport,
            errors=(InvalidInputError, NotFoundError, RateLimitedError, StorageError),
        ),
    )


def _reading(
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
        errors=(InvalidInputError, StorageError) if query else (StorageError,),
    )


class _HealthHandlers:
    def __init__(self, book: RecordBook, clock: Clock, on_entered: OnEntered) -> None:
        self._book = book
        self._clock = clock
        self._on_entered = on_entered
        self._limiter = RateLimiter(rate_per_s=ENTRIES_PER_S, burst=ENTRIES_BURST)

    async def health(self, request: Request) -> MowerHealth:
        account_id, mower_id = request.who.account_id, MowerId(request.path["mower_id"])
        rows = await self._rows(account_id, mower_id, EARLIEST, LATEST)
        days = _days(rows)
        return MowerHealth(
            mower_id=mower_id,
            days=len(days),
            since=days[0].day if days else None,
            updated_at=rows[-1].updated_at if rows else None,
            totals=sum_days(days),
            vendor=vendor_totals(days),
            blades=await self._blades(account_id, mower_id, days),
            battery=battery_report(days),
            errors=sum_errors(days),
        )

    async def days(self, request: Request) -> HealthDays:
        query, account_id, mower_id = request.query, request.who.account_id, MowerId(request.path["mower_id"])
        # "today" may have begun already where the garden is
        end = (request.now + timedelta(hours=14)).date() if query.end is None else query.end
        if not EARLIEST.date() <= end <= LATEST.date():
            raise InvalidInputError.of("to", "must lie between 2015 and 2200")
        start = end - timedelta(days=DAYS_DEFAULT) if query.start is None else query.start
        if not end - timedelta(days=DAYS_MAX) <= start <= end:
            raise InvalidInputError.of("from", f"must be at most {DAYS_MAX} days before 'to'")
        bounds = [datetime.combine(day, time(), UTC) for day in (start, end)]
        rows = await self._rows(account_id, mower_id, bounds[0] - ZONE_SLACK, bounds[1] + ZONE_SLACK)
        items = tuple(day for day in _days(rows) if start <= day.day <= end)
        return HealthDays(mower_id=mower_id, start=start, end=end, items=items)

    async def change_blades(self, request: Request) -> BladeReport:
        new, now = request.body, self._clock.now()
        at = now if new.at is None else new.at
        if at.tzinfo is None or not EARLIEST <= at <= now:
            raise InvalidInputError.of("at", "must be in the past, with an offset from UTC")
        body = BladeChange(by=request.who.name, note=new.note)
        mower_id = MowerId(request.path["mower_id"])
        row = BLADE_CHANGE.make(mower_id, make_id(now), body, at=at.astimezone(UTC), updated_at=now)
        return await self._enter(request, row)

    async def set_interval(self, request: Request) -> BladeReport:
        now, mower_id = self._clock.now(), MowerId(request.path["mower_id"])
        known = await self._book.get(request.who.account_id, mower_id, BLADE_CARE.name, BLADE_CARE_KEY)
        if known is not None:  # the other side's clock may be ahead; the newest word still stands
            now = max(now, known.updated_at + timedelta(microseconds=1))
        body = BladeCare(interval_h=request.body.interval_h)
        return await self._enter(request, BLADE_CARE.make(mower_id, BLADE_CARE_KEY, body, at=now, updated_at=now))

    async def _enter(self, request: Request, row: RecordRow) -> BladeReport:
        who = request.who
        wait_s = self._limiter.take((who.account_id, row.mower_id), self._clock.monotonic())
        if wait_s > 0:
            raise RateLimitedError("too many entries about this mower", retry_after_s=wait_s)
        if not await self._book.put(who.account_id, [row], is_durable=True):
            raise NotFoundError("this host keeps no records of this mower")
        await self._on_entered(who.account_id, row.mower_id)
        days = _days(await self._rows(who.account_id, row.mower_id, EARLIEST, LATEST))
        return await self._blades(who.account_id, row.mower_id, days)

    async def _blades(self, account_id: AccountId, mower_id: MowerId, days: list[HealthDay]) -> BladeReport:
        changes, _ = await self._book.list_kind(
            account_id, mower_id, BLADE_CHANGE.name, EARLIEST, LATEST, limit=1, is_newest_first=True
        )
        change = BLADE_CHANGE.read(changes[0]) if changes else None
        setting = await self._book.get(account_id, mower_id, BLADE_CARE.name, BLADE_CARE_KEY)
        care = None if setting is None else BLADE_CARE.read(setting)
        return blade_report(
            days,
            None if change is None else (changes[0].at, change),
            None if care is None else care.interval_h,
        )

    async def _rows(self, account_id: AccountId, mower_id: MowerId, start: datetime, end: datetime) -> list[RecordRow]:
        found: list[RecordRow] = []
        while True:
            rows, page = await self._book.list_kind(account_id, mower_id, HEALTH_DAY.name, start, end, limit=PAGE)
            found += rows
            if page.cursor is None:
                return found
            start = page.cursor


def _days(rows: list[RecordRow]) -> list[HealthDay]:
    """Those that this version understands, in order."""
    return [day for row in rows if (day := HEALTH_DAY.read(row)) is not None]
