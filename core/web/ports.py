"""What a host gives to the shared routes. The box and the relay each implement these."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

import msgspec

from core.domain.capabilities import Capabilities
from core.domain.commands import Command, CommandStatus, IssuedBy
from core.domain.drive import DriveEnd, DriveFrame, DriveSession
from core.domain.ids import AccountId, CommandId, EdgeId, EntryId, GroupId, MowerId, SiteId
from core.domain.mower import Area, LinkKind, MowerState
from core.identity.principal import Principal


class MowerLinkView(msgspec.Struct, frozen=True, kw_only=True):
    """One of the links to a mower, as the box that keeps it sees it."""

    kind: LinkKind
    entry_id: EntryId
    domain: str | None = None
    """The integration of its entry."""
    state: Literal["up", "connecting", "down"]
    reason: str | None = None
    """Why it is down, or up without reaching the mower."""
    is_active: bool = False
    """A command would go over it now."""


class MowerView(msgspec.Struct, frozen=True, kw_only=True):
    """A mower as the API shows it (its telemetry is read elsewhere)."""

    mower_id: MowerId
    name: str
    site_id: SiteId | None = None
    group_ids: tuple[GroupId, ...] = ()
    edge_id: EdgeId | None = None
    domain: str | None = None
    vendor: str | None = None
    serial: str | None = None
    model: str | None = None
    links: tuple[LinkKind, ...] = ()
    link_states: tuple[MowerLinkView, ...] = ()
    """Each link, the one to be used first first. Only the box knows them; the active one is also in the state's
    `signals`, everywhere."""
    areas: tuple[Area, ...] = ()
    capabilities: Capabilities = Capabilities()
    is_edge_online: bool | None = None
    """Whether its box is connected; None when this host cannot tell."""
    setup_error: str | None = None
    """Why the box could not set it up, if it said so."""


class CommandView(msgspec.Struct, frozen=True, kw_only=True):
    """A command as the API shows it."""

    command_id: CommandId
    mower_id: MowerId
    command: Command
    status: CommandStatus
    reason: str | None
    issued_by: IssuedBy
    issued_at: datetime
    expires_at: datetime
    updated_at: datetime


class TokenVerifier(Protocol):
    """Turns an access or service token into a Principal."""

    async def verify(self, token: str) -> Principal:
        """UnauthenticatedError for anything that does not hold."""
        ...


class MowerCatalog(Protocol):
    """The mowers that a host knows."""

    async def mower(self, account_id: AccountId, mower_id: MowerId) -> MowerView:
        """NotFoundError for one of another account or none."""
        ...

    async def mowers(self, account_id: AccountId) -> Sequence[MowerView]:
        """All of the account; the routes intersect them with what the caller may view."""
        ...


class CommandDesk(Protocol):
    """Takes commands that have been authorised, and knows what became of them."""

    async def submit(
        self, who: Principal, mower_id: MowerId, command: Command, *, time_to_live: timedelta, correlation_id: str
    ) -> CommandView:
        """Issues the command. InvalidInputError (values), ConflictError (cannot do it), NotPublishedError."""
        ...

    async def command(self, account_id: AccountId, command_id: CommandId) -> CommandView: ...

    async def commands(
        self, account_id: AccountId, mower_id: MowerId, *, before: CommandId | None, limit: int
    ) -> Sequence[CommandView]:
        """Newest first, older than `before` (keyset paging)."""
        ...


class LiveState(msgspec.Struct, frozen=True, kw_only=True):
    """A state together with whose it is."""

    mower_id: MowerId
    account_id: AccountId
    state: MowerState


class LiveStates(Protocol):
    """The newest known states, for a socket that has just subscribed."""

    async def last(self, account_id: AccountId, mower_ids: Sequence[MowerId]) -> Sequence[LiveState]: ...


class DriveDesk(Protocol):
    """Takes the joystick frames of realtime connections."""

    async def drive(self, who: Principal, mower_id: MowerId, frame: DriveFrame, *, connection_id: str) -> None:
        """Passes a frame on. ForbiddenError when the sender has no open session or not the right, InvalidInputError,
        RateLimitedError; the frame was not delivered for any other error."""
        ...

    async def close(self, connection_id: str) -> None:
        """The connection has ended, and with it what was driven over it. Raises nothing."""
        ...


class DriveHost(Protocol):
    """The drive sessions that a host knows, and the way to the mower."""

    async def session(self, account_id: AccountId, mower_id: MowerId) -> DriveSession | None:
        """Who drives this mower now."""
        ...

    async def steer(self, session: DriveSession, frame: DriveFrame) -> None:
        """Passes a checked frame on. ForbiddenError (the session is over), InvalidInputError (the frame made the
        mower stand), NotPublishedError."""
        ...

    async def end(self, session: DriveSession, why: DriveEnd, detail: str = "") -> None:
        """Ends the session: no frame of it is passed on any more. ForbiddenError (it is over already),
        NotPublishedError (the box was not told; it ends the session for want of frames)."""
        ...
