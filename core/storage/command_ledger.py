"""Commands that the box has seen, so that none runs twice, and what became of them.

In the same file as the timeline, so that a transition and its row are one durable transaction.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from core.domain import limits
from core.domain.clock import from_us, to_us
from core.domain.commands import FINAL, CommandStatus, does_advance
from core.domain.ids import CommandId, MowerId
from core.storage.sqlite_columns import STATUS_CODES, status_of
from core.storage.sqlite_database import SqliteDatabase
from core.storage.sqlite_directory import SqliteDirectory
from core.storage.sqlite_journal import JournalNumbers
from core.storage.sqlite_recording import insert_result
from core.telemetry.rows import TimelineRow


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One command as the box knows it; `pending` is seen but not yet accepted."""

    command_id: CommandId
    mower_id: MowerId
    status: CommandStatus
    seen_at: datetime
    expires_at: datetime


class CommandLedger:
    """Every method is durable on return: a power cut after it changes nothing."""

    def __init__(self, database: SqliteDatabase, directory: SqliteDirectory, numbers: JournalNumbers) -> None:
        self._database = database
        self._directory = directory
        self._numbers = numbers

    async def admit(self, command_id: CommandId, mower_id: MowerId, *, seen_at: datetime, expires_at: datetime) -> bool:
        """Notes a command before anything is done about it; False when it was seen before (never run it then)."""

        def job(connection: sqlite3.Connection) -> bool:
            cursor = connection.execute(
                "INSERT OR IGNORE INTO command_ledger (command_id, mower_id, status, seen_us, expires_us) "
                "VALUES (?, ?, ?, ?, ?)",
                (command_id, mower_id, STATUS_CODES[CommandStatus.PENDING], to_us(seen_at), to_us(expires_at)),
            )
            return cursor.rowcount == 1

        return await self._database.write(job, durable=True)

    async def accept(self, result: TimelineRow) -> bool:
        """Notes that the command is about to be sent: before the first byte goes to the mower."""
        return await self._advance(result)

    async def finish(self, result: TimelineRow) -> bool:
        """Notes how a command ended. Also for one that was never admitted (then only its timeline row is kept)."""
        return await self._advance(result)

    async def status(self, command_id: CommandId) -> CommandStatus | None:
        """What became of a command; None when it was not seen (or longer than a day ago)."""

        def job(connection: sqlite3.Connection) -> CommandStatus | None:
            row = connection.execute("SELECT status FROM command_ledger WHERE command_id = ?", (command_id,)).fetchone()
            return None if row is None else status_of(row[0])

        return await self._database.read(job)

    async def interrupted(self) -> list[LedgerEntry]:
        """Commands seen but not ended, oldest first. At start these were cut off: answer `failed: interrupted`."""

        def job(connection: sqlite3.Connection) -> list[LedgerEntry]:
            open_codes = [code for status, code in STATUS_CODES.items() if status not in FINAL]
            rows = connection.execute(
                "SELECT command_id, mower_id, status, seen_us, expires_us FROM command_ledger "
                f"WHERE status IN ({', '.join('?' * len(open_codes))}) ORDER BY seen_us, command_id",
                open_codes,
            )
            return [
                LedgerEntry(
                    command_id=CommandId(command_id),
                    mower_id=MowerId(mower_id),
                    status=status_of(status),
                    seen_at=from_us(seen_us),
                    expires_at=from_us(expires_us),
                )
                for command_id, mower_id, status, seen_us, expires_us in rows
            ]

        return await self._database.read(job)

    async def prune(self, now: datetime) -> int:
        """Forgets commands seen more than a day ago that have ended and could no longer be admitted; how many."""

        def job(connection: sqlite3.Connection) -> int:
            final_codes = [STATUS_CODES[status] for status in FINAL]
            return connection.execute(
                "DELETE FROM command_ledger WHERE seen_us < ? AND expires_us < ? "
                f"AND status IN ({', '.join('?' * len(final_codes))})",
                (to_us(now - limits.SEEN_COMMANDS), to_us(now), *final_codes),
            ).rowcount

        return await self._database.write(job)

    async def _advance(self, row: TimelineRow) -> bool:
        """Ledger and timeline move together; False, and nothing is written, when the command is further already."""

        def job(connection: sqlite3.Connection) -> bool:
            result = row.result
            found = connection.execute(
                "SELECT status FROM command_ledger WHERE command_id = ?", (result.command_id,)
            ).fetchone()
            if found is not None:
                if not does_advance(status_of(found[0]), None, result.status):
                    return False
                connection.execute(
                    "UPDATE command_ledger SET status = ? WHERE command_id = ?",
                    (STATUS_CODES[result.status], result.command_id),
                )
            is_new = insert_result(connection, row, self._directory, self._numbers, keeps_unknown=True)
            self._numbers.save(connection)
            return is_new

        return await self._database.write(job, durable=True)
