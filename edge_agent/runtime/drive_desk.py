"""Drive sessions on the box: `core.web.ports.DriveHost` for its own API, and what the relay sends."""

from __future__ import annotations

from core.domain.drive import DriveEnd, DriveFrame, DriveSession
from core.domain.errors import ForbiddenError, InvalidInputError
from core.domain.ids import AccountId, MowerId
from core.sync.messages import DriveMessage
from edge_agent.runtime.admission import AccountOf
from edge_agent.runtime.dead_man import Halt
from edge_agent.runtime.drive import DriveSeats


class LocalDriveHost:
    """Sessions of the household's own people are driven from here; those of the relay are only shown and ended."""

    def __init__(self, seats: DriveSeats, account_of: AccountOf) -> None:
        self._seats = seats
        self._account_of = account_of

    async def session(self, account_id: AccountId, mower_id: MowerId) -> DriveSession | None:
        """Who drives the mower, whether here or through the relay."""
        if self._account_of(mower_id, "local") != account_id:
            return None
        return self._seats.session(mower_id)

    async def steer(self, session: DriveSession, frame: DriveFrame) -> None:
        """See `DriveHost`."""
        verdict = self._seats.steer(session.mower_id, session.session_id, frame, source="local")
        if isinstance(verdict, Halt):
            raise InvalidInputError.of("frame", verdict.reason)

    async def end(self, session: DriveSession, why: DriveEnd, detail: str = "") -> None:
        """See `DriveHost`."""
        self._seats.end_session(session.mower_id, session.session_id, why, detail)


def take_drive_message(seats: DriveSeats, message: DriveMessage) -> None:
    """What the relay signed for one of its sessions. ForbiddenError when that is not open here; a frame that makes
    the mower stand raises nothing, for nobody waits for an answer."""
    if message.end is not None:
        seats.end_session(message.mower_id, message.session_id, message.end, message.detail, source="relay")
    elif message.frame is not None:
        seats.steer(message.mower_id, message.session_id, message.frame, source="relay")
    else:
        raise ForbiddenError("neither a frame nor an end")
