"""Rows of commands: written once, then moved on by results, never back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from cloud_relay.commands.tables import COMMAND_SESSIONS, COMMANDS
from cloud_relay.commands.tenure import OpenCommand
from core.domain import limits
from core.domain.commands import NO_ANSWER, Command, CommandResult, CommandStatus, IssuedBy, ManualDrive, does_advance
from core.domain.errors import NotFoundError
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId
from core.storage.relational import RelationalDatabase
from core.sync.messages import CommandEnvelope
from core.web.ports import CommandView

ANSWER_GRACE = timedelta(seconds=30)
"""Silence after a command's last moment that is taken for no answer."""
OUTCOME_UNKNOWN = "accepted by the box, which has not said how it ended"
"""Reason of a command that stays `accepted`: what became of it is not known, and not made up."""
SWEEP_ROWS = 500
OPEN = (CommandStatus.PENDING.value, CommandStatus.ACCEPTED.value)

_MANUAL_DRIVE = msgspec.json.encode(ManualDrive()).decode()
_COMMAND: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)
_ISSUED_BY = msgspec.json.Decoder(IssuedBy)


class CommandLedger:
    """The commands of every account. Reads name the account; another's command is NotFoundError."""

    def __init__(self, database: RelationalDatabase) -> None:
        self._database = database

    async def add(
        self, envelope: CommandEnvelope, *, confirm_timeout_s: float, session_id: str | None = None
    ) -> CommandView:
        """Writes an issued command as pending; `session_id` is a person's sign-in."""
        row = {
            "command_id": envelope.command_id,
            "account_id": envelope.account_id,
            "mower_id": envelope.mower_id,
            "edge_id": envelope.edge_id,
            "command": msgspec.json.encode(envelope.command).decode(),
            "status": CommandStatus.PENDING.value,
            "reason": None,
            "issued_by": msgspec.json.encode(envelope.issued_by).decode(),
            "correlation_id": envelope.correlation_id,
            "confirm_timeout_s": confirm_timeout_s,
            "issued_at": envelope.issued_at,
            "expires_at": envelope.expires_at,
            "updated_at": envelope.issued_at,
        }
        async with self._database.write() as connection:
            await connection.execute(COMMANDS.insert().values(**row))
            if session_id is not None:
                sign_in = {"command_id": envelope.command_id, "session_id": session_id}
                await connection.execute(COMMAND_SESSIONS.insert().values(**sign_in))
        return pending_view(envelope)

    async def advance(self, result: CommandResult, *, now: datetime, edge_id: EdgeId | None = None) -> AccountId | None:
        """Moves a command on; it is dated by the result, but not later than `now` (a box's clock may be wrong). Returns its account when the result changed it; None when it is unknown, of another
        mower or box, or the result is late or repeated."""
        async with self._database.write() as connection:
            row = await _row(connection, COMMANDS.c.command_id == result.command_id)
            if row is None or row.mower_id != result.mower_id or edge_id not in (None, row.edge_id):
                return None
            if not does_advance(CommandStatus(row.status), row.reason, result.status):
                return None
            change = COMMANDS.update().where(COMMANDS.c.command_id == result.command_id)
            reason = None if result.reason is None else result.reason[:400]
            await connection.execute(
                change.values(status=result.status.value, reason=reason, updated_at=min(result.at, now))
            )
            return AccountId(row.account_id)

    async def open(self, now: datetime, *, after: CommandId | None, limit: int) -> Sequence[OpenCommand]:
        """Commands of all accounts that have neither ended nor expired, oldest first, issued after `after`."""
        query = (
            sa.select(COMMANDS, COMMAND_SESSIONS.c.session_id)
            .outerjoin(COMMAND_SESSIONS, COMMAND_SESSIONS.c.command_id == COMMANDS.c.command_id)
            .where(COMMANDS.c.status.in_(OPEN), COMMANDS.c.expires_at > now)
        )
        if after is not None:
            query = query.where(COMMANDS.c.command_id > after)
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(COMMANDS.c.command_id).limit(limit))
            return [_open(row) for row in rows]

    async def get(self, account_id: AccountId, command_id: CommandId) -> CommandView:
        async with self._database.read() as connection:
            row = await _row(
                connection, sa.and_(COMMANDS.c.command_id == command_id, COMMANDS.c.account_id == account_id)
            )
        if row is None:
            raise NotFoundError("no such command")
        return _view(row)

    async def page(
        self, account_id: AccountId, mower_id: MowerId, *, before: CommandId | None, limit: int
    ) -> Sequence[CommandView]:
        """Newest first, older than `before` (ids sort by age)."""
        query = sa.select(COMMANDS).where(COMMANDS.c.account_id == account_id, COMMANDS.c.mower_id == mower_id)
        if before is not None:
            query = query.where(COMMANDS.c.command_id < before)
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(COMMANDS.c.command_id.desc()).limit(limit))
            return [_view(row) for row in rows]

    async def driving(
        self, account_id: AccountId, mower_id: MowerId, *, since: datetime
    ) -> tuple[CommandView, EdgeId] | None:
        """The newest `manual_drive` that its box has accepted since then and not concluded, and the box."""
        query = (
            sa.select(COMMANDS)
            .where(
                COMMANDS.c.account_id == account_id,
                COMMANDS.c.mower_id == mower_id,
                COMMANDS.c.status == CommandStatus.ACCEPTED.value,
                COMMANDS.c.issued_at >= since,
                COMMANDS.c.command == _MANUAL_DRIVE,
            )
            .order_by(COMMANDS.c.command_id.desc())
            .limit(1)
        )
        async with self._database.read() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else (_view(row), EdgeId(row.edge_id))

    async def close_silent(self, now: datetime) -> list[tuple[AccountId, CommandResult]]:
        """Commands whose answer is overdue. Pending ones become `expired` with NO_ANSWER (an inference, which the
        box's own word replaces later). Accepted ones whose effect had its time stay `accepted` and say that the
        outcome is unknown: the machine may well have moved. Returns what was changed."""
        async with self._database.write() as connection:
            closed = await self._close(
                connection,
                sa.and_(COMMANDS.c.status == CommandStatus.PENDING.value, COMMANDS.c.expires_at < now - ANSWER_GRACE),
                CommandStatus.EXPIRED,
                NO_ANSWER,
                now,
            )
            quiet = sa.and_(
                COMMANDS.c.status == CommandStatus.ACCEPTED.value,
                COMMANDS.c.reason.is_distinct_from(OUTCOME_UNKNOWN),
                COMMANDS.c.expires_at < now - ANSWER_GRACE,
                COMMANDS.c.updated_at < now - ANSWER_GRACE,
            )
            closed += await self._close(connection, quiet, CommandStatus.ACCEPTED, OUTCOME_UNKNOWN, now)
        return closed

    async def retain(self, now: datetime) -> int:
        """Removes commands older than 90 days; how many went."""
        async with self._database.write() as connection:
            old = (
                sa.select(COMMANDS.c.command_id)
                .where(COMMANDS.c.issued_at < now - limits.COMMAND_RETENTION)
                .limit(limits.RETENTION_BATCH_ROWS)
            )
            gone = await connection.execute(COMMANDS.delete().where(COMMANDS.c.command_id.in_(old)))
            return gone.rowcount

    async def _close(
        self,
        connection: AsyncConnection,
        which: sa.ColumnElement[bool],
        status: CommandStatus,
        reason: str,
        now: datetime,
    ) -> list[tuple[AccountId, CommandResult]]:
        rows = (
            await connection.execute(sa.select(COMMANDS).where(which).order_by(COMMANDS.c.expires_at).limit(SWEEP_ROWS))
        ).all()
        closed = []
        for row in rows:
            confirm = timedelta(seconds=row.confirm_timeout_s)
            if status is CommandStatus.ACCEPTED and now - max(row.expires_at, row.updated_at) <= confirm + ANSWER_GRACE:
                continue
            change = COMMANDS.update().where(COMMANDS.c.command_id == row.command_id)
            await connection.execute(change.values(status=status.value, reason=reason, updated_at=now))
            result = CommandResult(
                command_id=row.command_id, mower_id=row.mower_id, status=status, at=now, reason=reason
            )
            closed.append((AccountId(row.account_id), result))
        return closed


def pending_view(envelope: CommandEnvelope) -> CommandView:
    """How a command looks when it has just been issued."""
    return CommandView(
        command_id=envelope.command_id,
        mower_id=envelope.mower_id,
        command=envelope.command,
        status=CommandStatus.PENDING,
        reason=None,
        issued_by=envelope.issued_by,
        issued_at=envelope.issued_at,
        expires_at=envelope.expires_at,
        updated_at=envelope.issued_at,
    )


async def _row(connection: AsyncConnection, which: sa.ColumnElement[bool]) -> sa.Row[Any] | None:
    return (await connection.execute(sa.select(COMMANDS).where(which))).one_or_none()


def _open(row: sa.Row[Any]) -> OpenCommand:
    return OpenCommand(
        command_id=row.command_id,
        account_id=row.account_id,
        edge_id=row.edge_id,
        mower_id=row.mower_id,
        command=_COMMAND.decode(row.command),
        issued_by=_ISSUED_BY.decode(row.issued_by),
        session_id=row.session_id,
        expires_at=row.expires_at,
    )


def _view(row: sa.Row[Any]) -> CommandView:
    return CommandView(
        command_id=row.command_id,
        mower_id=row.mower_id,
        command=_COMMAND.decode(row.command),
        status=CommandStatus(row.status),
        reason=row.reason,
        issued_by=_ISSUED_BY.decode(row.issued_by),
        issued_at=row.issued_at,
        expires_at=row.expires_at,
        updated_at=row.updated_at,
    )
