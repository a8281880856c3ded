"""What a connection asks of the host's ports, each with a deadline, and what an outage means for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import structlog

from core.access.authorizer import Authorizer
from core.domain import limits
from core.domain.access import Relation
from core.domain.drive import DriveFrame
from core.domain.errors import (
    ForbiddenError,
    InvalidInputError,
    MowdeckError,
    RateLimitedError,
    StorageError,
    UnauthenticatedError,
    UnavailableError,
)
from core.domain.ids import MowerId
from core.identity.principal import Principal
from core.web.ports import DriveDesk, LiveState, LiveStates, TokenVerifier
from core.web.realtime.messages import Error
from core.web.route import mower_ref

log = structlog.get_logger(__name__)

ASK_DEADLINE_S = 5.0
_OUTAGE = (UnavailableError, StorageError, TimeoutError)
NO_SESSION = Error(code="unauthorized", detail="no drive session is open")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The host's side. None of the answers raises for an outage: it has an answer of its own."""

    verifier: TokenVerifier
    authorizer: Authorizer
    live_states: LiveStates | None
    drive_desk: DriveDesk | None

    async def verify(self, token: str) -> Principal | Literal["refused", "outage"]:
        """Who it is."""
        try:
            async with asyncio.timeout(ASK_DEADLINE_S):
                return await self.verifier.verify(token)
        except UnauthenticatedError:
            return "refused"
        except _OUTAGE as err:
            log.warning("token not verified", why=str(err))
            return "outage"

    async def may_view(self, who: Principal | None, mower_ids: Sequence[MowerId]) -> Sequence[bool] | None:
        """One answer per mower, by one query; None for an outage."""
        if who is None or not mower_ids:
            return [False] * len(mower_ids)
        try:
            async with asyncio.timeout(ASK_DEADLINE_S):
                refs = [mower_ref(mower_id) for mower_id in mower_ids]
                return await self.authorizer.check_many(who, Relation.CAN_VIEW, refs)
        except _OUTAGE as err:
            log.warning("rights not checked", why=str(err))
            return None

    async def stored(self, who: Principal, mower_ids: Sequence[MowerId]) -> Sequence[LiveState] | None:
        """Last states from the host's store; None for an outage."""
        if not mower_ids or self.live_states is None:
            return []
        try:
            async with asyncio.timeout(ASK_DEADLINE_S):
                return await self.live_states.last(who.account_id, mower_ids)
        except _OUTAGE as err:
            log.warning("last states not read", why=str(err))
            return None

    async def drive(
        self, who: Principal | None, mower_id: MowerId, frame: DriveFrame, connection_id: str
    ) -> Error | None:
        """Hands a joystick frame on; the error to tell when it was not taken."""
        if self.drive_desk is None or who is None:
            return NO_SESSION
        try:
            async with asyncio.timeout(limits.DRIVE_TTL.total_seconds()):
                await self.drive_desk.drive(who, mower_id, frame, connection_id=connection_id)
        except ForbiddenError as err:
            return Error(code="unauthorized", detail=err.detail) if err.detail else NO_SESSION
        except InvalidInputError as err:
            return Error(code="invalid_message", detail=err.detail)
        except RateLimitedError as err:
            return Error(code="limit_exceeded", detail=err.detail)
        except (MowdeckError, TimeoutError) as err:
            log.warning("joystick frame not delivered", mower_id=mower_id, why=str(err))
            return Error(code="internal", detail="the frame was not delivered")
        return None

    async def close(self, connection_id: str) -> None:
        """The connection has ended: nothing is driven over it any more."""
        if self.drive_desk is None:
            return
        try:
            async with asyncio.timeout(ASK_DEADLINE_S):
                await self.drive_desk.close(connection_id)
        except TimeoutError:
            log.warning("the end of a connection was not passed on in time", connection_id=connection_id)
