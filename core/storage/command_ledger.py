"""Commands that the box has seen, so that none runs twice, and what became of them.

In the same file as the timeline, so that a transition and its row are one durable transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from core.domain.clock import from_us, to_us
from core.domain.commands import FINAL, CommandResult, CommandStatus, does_advance
from core.domain.ids import CommandId, MowerId
from core.storage.sqlite_columns import STATUS_CODES, status_of
from core.storage.sqlite_database import SqliteDatabase
from core.storage.sqlite_directory import SqliteDirectory
from core.storage.sqlite_journal import JournalNumbers
from core.storage.sqlite_recording import insert_result
from core.sync.messages import CommandEnvelope
from core.telemetry.rows import TimelineRow

_COLUMNS = "envelope, status, reason, updated_us"
_FINAL_CODES = ", ".join(str(STATUS_CODES[status]) for status in sorted(FINAL))
_envelopes = msgspec.json.Decoder(CommandEnvelope)


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was seen and what became of it; `pending`: seen, and nothing done about it yet."""

    envelope: CommandEnvelope
    status: CommandStatus = CommandStatus.PENDING
    reason: str | None = None
    updated_at: datetime

    def as_result(self) -> CommandResult:
        """The last known transition."""
        return CommandResult(
            command_id=self.envelope.command_id,
            mower_id=self.envelope.mower_id,
            status=self.status,
            at=self.updated_at,
            reason=self.reason,
        )


class CommandLedger:
    """`admit` and `conclude` are durable on return: a power cut after them changes nothing. StorageError."""

    def __init__(self, database: SqliteDatabase, directory: SqliteDirectory, numbers: JournalNumbers) -> None:
        self._database = database
        self._directory = directory
        self._numbers = numbers

    async def admit(self, envelope: CommandEnvelope, *, seen_at: datetime) -> LedgerEntry | None:
        """Enters the command as pending, before anything is done about it. When it was seen before, nothing
        changes and the earlier entry is returned: never run it then."""

        def job(connection: sqlite3.Connection) -> LedgerEntry | None:
            known = _find(connection, envelope.command_id)
            if known is None:
                seen_us = to_us(seen_at)
                connection.execute(
                    "INSERT INTO command_ledger (command_id, mower_id, status, seen_us, updated_us, envelope) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        envelope.command_id,
                        envelope.mower_id,
                        STATUS_CODES[CommandStatus.PENDING],
                        seen_us,
                        seen_us,
                        msgspec.json.encode(envelope),
                    ),
                )
            return known

        return await self._database.write(job, durable=True)

    async def conclude(self, result: CommandResult) -> None:
        """One transition: the entry and its timeline row in one transaction. Nothing is written when the
        command is that far already. A command that was never admitted only gets its timeline row."""

        def job(connection: sqlite3.Connection) -> None:
            known = _find(connection, result.command_id)
            if known is not None:
                if not does_advance(known.status, known.reason, result.status):
                    return
                connection.execute(
                    "UPDATE command_ledger SET status = ?, reason = ?, updated_us = ? WHERE command_id = ?",
                    (STATUS_CODES[result.status], result.reason, to_us(result.at), result.command_id),
                )
            row = TimelineRow(result=result)
            insert_result(connection, row, self._directory, self._numbers, keeps_unknown=True)
            self._numbers.save(connection)

        await self._database.write(job, durable=True)

    async def entry(self, command_id: CommandId) -> LedgerEntry | None:
        """What is known of a command."""
        return await self._database.read(lambda connection: _find(connection, command_id))

    async def entries(self, mower_id: MowerId, *, before: CommandId | None, limit: int) -> Sequence[LedgerEntry]:
        """Commands of a mower, newest id first, older than `before`."""
        older = "" if before is None else "AND command_id < ?"
        values = (mower_id, limit) if before is None else (mower_id, before, limit)
        return await self._database.read(
            lambda connection: _select(
                connection, f"WHERE mower_id = ? {older} ORDER BY command_id DESC LIMIT ?", values
            )
        )

    async def recent(self, since: datetime) -> Sequence[LedgerEntry]:
        """Commands first seen since `since`, and older ones without a final status, oldest first. At start, those
        without one were cut off: the answer to them is `failed: interrupted`."""
        return await self._database.read(
            lambda connection: _select(
                connection,
                f"WHERE seen_us >= ? OR status NOT IN ({_FINAL_CODES}) ORDER BY seen_us, command_id",
                (to_us(since),),
            )
        )

    async def prune(self, before: datetime) -> int:
        """Forgets ended commands first seen before; how many. At least SEEN_COMMANDS back, or one could run twice."""
        return await self._database.write(
            lambda connection: (
                connection.execute(
                    f"DELETE FROM command_ledger WHERE seen_us < ? AND status IN ({_FINAL_CODES})", (to_us(before),)
                ).rowcount
            )
        )


def _find(connection: sqlite3.Connection, command_id: CommandId) -> LedgerEntry | None:
    found = _select(connection, "WHERE command_id = ?", (command_id,))
    return found[0] if found else None


def _select(connection: sqlite3.Connection, clause: str, values: tuple[Any, ...]) -> list[LedgerEntry]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM command_ledger {clause}", values)
    return [
        LedgerEntry(
            envelope=_envelopes.decode(envelope),
            status=status_of(status),
            reason=reason,
            updated_at=from_us(updated_us),
        )
        for envelope, status, reason, updated_us in rows
    ]
