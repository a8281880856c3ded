"""Commands over HTTP. The right is asked for before anything is written or sent: a refused command leaves no trace
but the access log.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from core.access.authorizer import Authorizer
from core.domain import limits
from core.domain.access import ObjectType, Relation
from core.domain.clock import Clock
from core.domain.commands import (
    Command,
    CommandStatus,
    EmergencyStop,
    ManualDrive,
    relation_of,
    time_to_live,
)
from core.domain.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    NotPublishedError,
    RateLimitedError,
)
from core.domain.ids import CommandId, MowerId
from core.identity.principal import Principal
from core.web.drive_desk import DrivingDesk
from core.web.gate import demand
from core.web.ports import CommandDesk, CommandView, MowerCatalog
from core.web.rate import RateLimiter
from core.web.route import Answer, Decided, OnObject, Request, Route, mower_ref
from core.web.route_table import API_ROOT

COMMANDS_PER_S = 1.0
COMMANDS_BURST = 30.0
"""Of one subject; an emergency stop is never counted and never refused for it."""
PAGE = 50
TTL_MIN = timedelta(seconds=1)


class NewCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`time_to_live_s` is how long the command may wait before it may no longer run (default 30, at most 300). It is
    fixed for an emergency stop (10) and for driving (2)."""

    command: Command
    time_to_live_s: float | None = None


class CommandAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """The command is on its way; `status_url` tells what becomes of it, as does the realtime socket."""

    command_id: CommandId
    expires_at: datetime
    status: CommandStatus
    status_url: str


class CommandPage(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first. `next_before` is the `before` of the next page, absent on the last."""

    items: tuple[CommandView, ...]
    next_before: CommandId | None = None


class CommandQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Keyset paging: at most `limit` commands issued before command `before`."""

    before: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,64}$")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = PAGE


def command_routes(
    desk: CommandDesk,
    catalog: MowerCatalog,
    authorizer: Authorizer,
    clock: Clock,
    *,
    drives: DrivingDesk | None = None,
    max_time_to_live: timedelta = limits.COMMAND_TTL_MAX,
) -> tuple[Route, ...]:
    """The routes over a host's command desk. With `drives`, nobody begins to drive a mower that somebody drives."""
    handlers = _CommandHandlers(desk, catalog, authorizer, clock, drives, max_time_to_live)
    return (
        Route(
            method="POST",
            path="/fleet/mowers/{mower_id}/commands",
            guard=Decided(
                relations=(Relation.CAN_CONTROL, Relation.CAN_DRIVE, Relation.CAN_EMERGENCY_STOP),
                reason="the right depends on the kind of the command",
            ),
            handler=handlers.submit,
            summary="Tells a mower to do something",
            tag="commands",
            body=NewCommand,
            answer=CommandAccepted,
            status=202,
            errors=(InvalidInputError, ConflictError, RateLimitedError, NotPublishedError),
        ),
        Route(
            method="GET",
            path="/fleet/mowers/{mower_id}/commands",
            guard=OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id"),
            handler=handlers.list_commands,
            summary="What a mower was told to do, newest first",
            tag="commands",
            query=CommandQuery,
            answer=CommandPage,
        ),
        Route(
            method="GET",
            path="/fleet/commands/{command_id}",
            guard=Decided(relations=(Relation.CAN_VIEW,), reason="the mower is known only from the command"),
            handler=handlers.show_command,
            summary="What became of a command",
            tag="commands",
            answer=CommandView,
        ),
    )


class _CommandHandlers:
    def __init__(
        self,
        desk: CommandDesk,
        catalog: MowerCatalog,
        authorizer: Authorizer,
        clock: Clock,
        drives: DrivingDesk | None,
        max_time_to_live: timedelta,
    ) -> None:
        self._desk = desk
        self._catalog = catalog
        self._authorizer = authorizer
        self._clock = clock
        self._drives = drives
        self._max_time_to_live = max_time_to_live
        self._limiter = RateLimiter(rate_per_s=COMMANDS_PER_S, burst=COMMANDS_BURST)

    async def submit(self, request: Request) -> Answer:
        who, mower_id, new = request.who, MowerId(request.path["mower_id"]), request.body
        await demand(self._authorizer, who, relation_of(new.command), mower_ref(mower_id))
        if not isinstance(new.command, EmergencyStop):
            await self._demand_orderly(who, mower_id, new.command)
        lifetime = lifetime_of(new, self._max_time_to_live)
        view = await self._desk.submit(
            who, mower_id, new.command, time_to_live=lifetime, correlation_id=request.correlation_id
        )
        status_url = f"{API_ROOT}/fleet/commands/{view.command_id}"
        accepted = CommandAccepted(
            command_id=view.command_id, expires_at=view.expires_at, status=view.status, status_url=status_url
        )
        return Answer(value=accepted, headers={"Location": status_url})

    async def _demand_orderly(self, who: Principal, mower_id: MowerId, command: Command) -> None:
        """What may hold up any command but an emergency stop."""
        wait_s = self._limiter.take((who.account_id, who.subject), self._clock.monotonic())
        if wait_s > 0:
            raise RateLimitedError("too many commands", retry_after_s=wait_s)
        await self._catalog.mower(who.account_id, mower_id)
        if isinstance(command, ManualDrive) and self._drives is not None:
            await self._drives.demand_seat(who, mower_id)

    async def list_commands(self, request: Request) -> CommandPage:
        query = request.query
        before = None if query.before is None else CommandId(query.before)
        found = await self._desk.commands(
            request.who.account_id, MowerId(request.path["mower_id"]), before=before, limit=query.limit + 1
        )
        page = tuple(found[: query.limit])
        return CommandPage(items=page, next_before=page[-1].command_id if len(found) > query.limit else None)

    async def show_command(self, request: Request) -> CommandView:
        who, command_id = request.who, CommandId(request.path["command_id"])
        try:
            view = await self._desk.command(who.account_id, command_id)
            await demand(self._authorizer, who, Relation.CAN_VIEW, mower_ref(view.mower_id))
        except NotFoundError:
            raise NotFoundError("no such command") from None  # the same words whether it exists or not
        return view


def lifetime_of(new: NewCommand, most: timedelta = limits.COMMAND_TTL_MAX) -> timedelta:
    """How long the command may wait. InvalidInputError outside 1 s to `most`; what is fixed by its kind stays fixed,
    whatever was asked: a stop is never refused over a number."""
    fixed = isinstance(new.command, EmergencyStop | ManualDrive)
    if fixed or new.time_to_live_s is None:
        return time_to_live(new.command)
    if not TTL_MIN.total_seconds() <= new.time_to_live_s <= most.total_seconds():
        reason = f"must be between {TTL_MIN.total_seconds():g} and {most.total_seconds():g}"
        raise InvalidInputError.of("time_to_live_s", reason)
    return timedelta(seconds=new.time_to_live_s)
