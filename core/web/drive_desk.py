"""Who drives which mower: the rules that both hosts share, over what each of them knows of its sessions.

A frame is passed on only for the person whose command opened the session, over one connection, with the right to
drive asked for again, within its values and its rate. Whoever may stop a mower may end a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import structlog

from core.access.authorizer import Authorizer
from core.domain import limits
from core.domain.access import Relation
from core.domain.clock import Clock
from core.domain.drive import DriveEnd, DriveFrame, DriveSession, find_frame_mistakes
from core.domain.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    MowdeckError,
    NotFoundError,
    RateLimitedError,
)
from core.domain.ids import AccountId, CommandId, MowerId
from core.identity.principal import Principal
from core.web.ports import DriveHost
from core.web.rate import RateLimiter
from core.web.route import mower_ref

log = structlog.get_logger(__name__)

NO_SESSION = "no drive session is open"
BURST = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bond:
    """A session and the one connection that it is driven over."""

    account_id: AccountId
    session: DriveSession
    connection_id: str


class DrivingDesk:
    """Implements `DriveDesk`, and what the routes ask for."""

    def __init__(
        self,
        *,
        host: DriveHost,
        authorizer: Authorizer,
        clock: Clock,
        frames_per_s: float = limits.DRIVE_FRAMES_PER_S,
    ) -> None:
        self._host = host
        self._authorizer = authorizer
        self._clock = clock
        self._pace = RateLimiter(rate_per_s=frames_per_s, burst=BURST)
        self._bonds: dict[MowerId, _Bond] = {}

    # -- frames

    async def drive(self, who: Principal, mower_id: MowerId, frame: DriveFrame, *, connection_id: str) -> None:
        """See `DriveDesk`. A frame that was not passed on in its own time is given up: TimeoutError."""
        mistakes = find_frame_mistakes(frame)
        if mistakes:
            raise InvalidInputError(mistakes=mistakes)
        wait_s = self._pace.take((who.account_id, who.subject, mower_id), self._clock.monotonic())
        if wait_s > 0:
            raise RateLimitedError("too many frames", retry_after_s=wait_s)
        async with asyncio.timeout(frame.ttl_ms / 1000.0):
            session = await self._own_session(who, mower_id)
            await self._demand_right(who, session)
            self._bind(who.account_id, session, connection_id)
            await self._host.steer(session, self._stamped(frame))

    async def close(self, connection_id: str) -> None:
        """See `DriveDesk`."""
        for mower_id, bond in list(self._bonds.items()):
            if bond.connection_id == connection_id:
                del self._bonds[mower_id]
                if not await self._is_over(bond):
                    await self._try_end(bond.session, DriveEnd.DISCONNECTED)

    async def _is_over(self, bond: _Bond) -> bool:
        try:
            current = await self._host.session(bond.account_id, bond.session.mower_id)
        except MowdeckError:  # nobody can say: then it is ended once more
            return False
        return current is None or current.session_id != bond.session.session_id

    async def _own_session(self, who: Principal, mower_id: MowerId) -> DriveSession:
        session = await self._host.session(who.account_id, mower_id)
        if session is None or session.driver.subject != who.subject:
            raise ForbiddenError(NO_SESSION)
        return session

    async def _demand_right(self, who: Principal, session: DriveSession) -> None:
        """An outage of the authorizer is an UnavailableError: nothing is driven, and nobody loses the session."""
        if not await self._authorizer.check(who, Relation.CAN_DRIVE, mower_ref(session.mower_id)):
            await self._try_end(session, DriveEnd.RIGHT_LOST)
            raise ForbiddenError(DriveEnd.RIGHT_LOST.value)

    def _bind(self, account_id: AccountId, session: DriveSession, connection_id: str) -> None:
        bond = self._bonds.get(session.mower_id)
        if bond is not None and bond.session.session_id == session.session_id:
            if bond.connection_id != connection_id:
                raise ForbiddenError("the drive session belongs to another connection")
            return
        self._bonds[session.mower_id] = _Bond(account_id=account_id, session=session, connection_id=connection_id)

    def _stamped(self, frame: DriveFrame) -> DriveFrame:
        """The time on the way from here on can be told, also for a client that does not say when it sent."""
        if frame.sent_ms is not None:
            return frame
        return msgspec.structs.replace(frame, sent_ms=int(self._clock.monotonic() * 1000.0))

    async def _try_end(self, session: DriveSession, why: DriveEnd) -> None:
        try:
            await self._host.end(session, why)
        except MowdeckError as err:  # over already, or the box is out of reach and ends it for want of frames
            log.info("drive session not ended here", session_id=session.session_id, why=why.name, error=err.detail)

    # -- for the routes

    async def sessions(self, who: Principal, mower_id: MowerId) -> Sequence[DriveSession]:
        """Who drives the mower: one session or none."""
        session = await self._host.session(who.account_id, mower_id)
        return () if session is None else (session,)

    async def end(self, who: Principal, mower_id: MowerId, session_id: CommandId) -> None:
        """Ends a session for somebody who may stop the mower. NotFoundError, NotPublishedError."""
        session = await self._host.session(who.account_id, mower_id)
        if session is None or session.session_id != session_id:
            raise NotFoundError("no such drive session")
        is_own = session.driver.subject == who.subject
        try:
            if is_own:
                await self._host.end(session, DriveEnd.DRIVER)
            else:
                await self._host.end(session, DriveEnd.PERSON, who.name)
        except ForbiddenError as err:
            raise NotFoundError("no such drive session") from err

    async def demand_seat(self, who: Principal, mower_id: MowerId) -> None:
        """ConflictError when somebody else drives the mower. (The same person begins again.)"""
        session = await self._host.session(who.account_id, mower_id)
        if session is not None and session.driver.subject != who.subject:
            name = session.driver.display or "somebody"
            raise ConflictError(f"{name} is driving this mower", hint="Wait for the end of the drive, or end it.")
