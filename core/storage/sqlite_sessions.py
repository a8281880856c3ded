"""Mowing sessions on SQLite: cut on the writer's thread with each state, recorded in its transaction."""

from __future__ import annotations

import sqlite3
from functools import partial

import msgspec

from core.domain.clock import from_us
from core.domain.commands import CommandStatus, ReturnToDock
from core.domain.ids import MowerId
from core.domain.mower import MowerState
from core.storage.sqlite_columns import STATUS_CODES
from core.storage.sqlite_journal import JournalNumbers
from core.storage.sqlite_records import upsert_record
from core.sync.messages import CommandEnvelope
from core.telemetry.rows import RecordRow
from core.telemetry.session import SESSION
from core.telemetry.session_tally import Course
from core.telemetry.sessions import SessionVersion, advance
from core.telemetry.significance import Place

COMMANDS_LOOKED_AT = 20
"""Newest commands of a mower among which the one is looked for that sent it home."""
_SENT = tuple(STATUS_CODES[status] for status in (CommandStatus.ACCEPTED, CommandStatus.EXECUTED))
_SELECT_COMMANDS = f"""
SELECT status, updated_us, envelope FROM command_ledger
WHERE mower_id = ? ORDER BY command_id DESC LIMIT {COMMANDS_LOOKED_AT}
"""
_envelopes = msgspec.json.Decoder(CommandEnvelope)


class Sessions:
    """Versions of sessions wait until the states of a batch are through."""

    def __init__(self, numbers: JournalNumbers) -> None:
        self._numbers = numbers
        self._waiting: list[tuple[int, RecordRow]] = []

    def forget(self) -> None:
        """Drops what waits (after a rollback)."""
        self._waiting.clear()

    def advance(
        self,
        connection: sqlite3.Connection,
        number: int,
        mower_id: MowerId,
        course: Course | None,
        after: tuple[MowerState, Place | None],
    ) -> Course:
        """What the mower's sessions remember after a state newer than all before."""
        if course is None:
            course = Course()
        for version in advance(course, *after, partial(was_sent_home, connection, mower_id)):
            self._waiting.append((number, _row(mower_id, version)))
        return course

    def flush(self, connection: sqlite3.Connection) -> list[RecordRow]:
        """Writes what waits; the caller saves the numbers."""
        waiting, self._waiting = self._waiting, []
        newest = {(number, row.key): row for number, row in waiting}
        return [row for (number, _), row in newest.items() if upsert_record(connection, row, number, self._numbers)]


def was_sent_home(connection: sqlite3.Connection, mower_id: MowerId, since_us: int, until_us: int) -> bool:
    """Whether a command to return, begun or carried out, belongs to the way home that began after `since_us`."""
    return any(
        status in _SENT
        and since_us <= updated_us <= until_us
        and isinstance(_envelopes.decode(envelope).command, ReturnToDock)
        for status, updated_us, envelope in connection.execute(_SELECT_COMMANDS, (mower_id,))
    )


def _row(mower_id: MowerId, version: SessionVersion) -> RecordRow:
    session, updated_at = version.session, from_us(version.updated_us)
    return SESSION.make(mower_id, session.session_id, session, at=session.started_at, updated_at=updated_at)
