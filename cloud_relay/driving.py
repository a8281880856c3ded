"""Drive sessions as the relay knows them: an accepted `manual_drive` of its books, and signed frames to the box.

The books say who drives, so a session outlives the relay's process and is the same on every replica; a copy in memory
serves the frames in between. The box has the last word: it takes frames only for the session that it opened itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from cloud_relay.commands.ledger import CommandLedger
from cloud_relay.edges.signing_key import SigningKey
from core.domain import limits
from core.domain.clock import Clock
from core.domain.commands import CommandResult
from core.domain.drive import DriveEnd, DriveFrame, DriveSession
from core.domain.errors import ForbiddenError
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId
from core.sync.envelope import sign_drive
from core.sync.messages import DriveMessage

COPY_S = 1.0
"""What the books said of a mower's driver is believed for this long; a result from its box ends that at once."""
REMEMBERED = 10_000
"""Mowers and sessions kept in memory; the oldest are forgotten beyond it."""

K = TypeVar("K")
V = TypeVar("V")
QoS = Literal[0, 1]
PublishDrive = Callable[[EdgeId, MowerId, bytes, QoS], Awaitable[None]]
"""Hands a signed message to the broker, never retained; NotPublishedError when it did not take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    account_id: AccountId
    session: DriveSession | None
    read_at: float


class RelayDriveHost:
    """Implements `DriveHost`."""

    def __init__(self, *, ledger: CommandLedger, key: SigningKey, publish: PublishDrive, clock: Clock) -> None:
        self._ledger = ledger
        self._key = key
        self._publish = publish
        self._clock = clock
        self._copies: OrderedDict[MowerId, _Copy] = OrderedDict()
        self._edges: OrderedDict[CommandId, EdgeId] = OrderedDict()
        self._ended: OrderedDict[CommandId, None] = OrderedDict()

    def note_result(self, result: CommandResult) -> None:
        """A command of the mower has moved on: its session may have begun or ended."""
        self._copies.pop(result.mower_id, None)

    async def session(self, account_id: AccountId, mower_id: MowerId) -> DriveSession | None:
        """See `DriveHost`."""
        copy = await self._copy(account_id, mower_id)
        session = copy.session
        if session is None or session.session_id in self._ended or self._clock.now() >= session.ends_at:
            return None
        return session

    async def steer(self, session: DriveSession, frame: DriveFrame) -> None:
        """See `DriveHost`. QoS 0: a frame that the line loses is not sent again."""
        edge_id = self._edge_of(session)
        message = DriveMessage(session_id=session.session_id, edge_id=edge_id, mower_id=session.mower_id, frame=frame)
        await self._send(message, 0)

    async def end(self, session: DriveSession, why: DriveEnd, detail: str = "") -> None:
        """See `DriveHost`."""
        edge_id = self._edge_of(session)
        _put(self._ended, session.session_id, None)
        message = DriveMessage(
            session_id=session.session_id,
            edge_id=edge_id,
            mower_id=session.mower_id,
            end=why,
            detail=detail[:100],
        )
        await self._send(message, 1)

    def _edge_of(self, session: DriveSession) -> EdgeId:
        edge_id = self._edges.get(session.session_id)
        if edge_id is None or session.session_id in self._ended:
            raise ForbiddenError("the drive session is over")
        return edge_id

    async def _copy(self, account_id: AccountId, mower_id: MowerId) -> _Copy:
        now = self._clock.monotonic()
        copy = self._copies.get(mower_id)
        if copy is not None and copy.account_id == account_id and now - copy.read_at < COPY_S:
            return copy
        since = self._clock.now() - limits.DRIVE_SESSION
        found = await self._ledger.driving(account_id, mower_id, since=since)
        session = None
        if found is not None:
            view, edge_id = found
            session = DriveSession(
                session_id=view.command_id,
                mower_id=mower_id,
                driver=view.issued_by,
                began_at=view.updated_at,
                ends_at=view.issued_at + limits.DRIVE_SESSION,
            )
            _put(self._edges, session.session_id, edge_id)
        copy = _Copy(account_id=account_id, session=session, read_at=now)
        _put(self._copies, mower_id, copy)
        return copy

    async def _send(self, message: DriveMessage, qos: QoS) -> None:
        signed = sign_drive(message, self._key.private, self._key.key_id)
        await self._publish(message.edge_id, message.mower_id, signed, qos)


def _put(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)
