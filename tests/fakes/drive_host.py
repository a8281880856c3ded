"""A host of drive sessions that a test opens."""

from __future__ import annotations

import asyncio

from core.domain import limits
from core.domain.commands import IssuedBy
from core.domain.drive import DriveEnd, DriveFrame, DriveSession
from core.domain.errors import ForbiddenError
from core.domain.ids import AccountId, CommandId, MowerId
from core.identity.principal import Principal
from tests.fakes.clock import ManualClock


class FakeDriveHost:
    """Implements `DriveHost`. `gate`, when given, holds frames back until it is set."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._open: dict[MowerId, tuple[AccountId, DriveSession]] = {}
        self._count = 0
        self.frames: list[tuple[CommandId, DriveFrame]] = []
        self.ends: list[tuple[CommandId, DriveEnd, str]] = []
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None

    def open(self, mower_id: str, who: Principal) -> DriveSession:
        """Somebody begins to drive."""
        self._count += 1
        now = self._clock.now()
        session = DriveSession(
            session_id=CommandId(f"s{self._count}"),
            mower_id=MowerId(mower_id),
            driver=IssuedBy(kind=who.kind, subject=who.subject, display=who.name),
            began_at=now,
            ends_at=now + limits.DRIVE_SESSION,
        )
        self._open[session.mower_id] = (who.account_id, session)
        return session

    async def session(self, account_id: AccountId, mower_id: MowerId) -> DriveSession | None:
        owner, session = self._open.get(mower_id, (None, None))
        return session if owner == account_id else None

    async def steer(self, session: DriveSession, frame: DriveFrame) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.frames.append((session.session_id, frame))

    async def end(self, session: DriveSession, why: DriveEnd, detail: str = "") -> None:
        _, known = self._open.get(session.mower_id, (None, None))
        if known is None or known.session_id != session.session_id:
            raise ForbiddenError("over")
        del self._open[session.mower_id]
        self.ends.append((session.session_id, why, detail))
        if self.error is not None:
            raise self.error
