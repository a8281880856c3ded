"""The write rules on SQLite: states become latest, history and track rows; results become timeline rows.

Runs on the writer's thread, inside its transaction. What `latest` says of a mower is also kept in memory, so that a
state costs no read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from core.domain import limits
from core.domain.clock import to_us
from core.domain.ids import AccountId, MowerId
from core.domain.mower import MowerState
from core.storage.sqlite_columns import (
    INSERT_HISTORY,
    INSERT_POSITION,
    INSERT_TIMELINE,
    Columns,
    encode_history,
    encode_position,
    encode_timeline,
)
from core.storage.sqlite_directory import NOBODY, SqliteDirectory
from core.storage.sqlite_health import HealthDays
from core.storage.sqlite_journal import JournalNumbers
from core.storage.sqlite_sessions import Sessions
from core.storage.telemetry_store import Written
from core.telemetry.admission import Admitted, admit
from core.telemetry.health import settle
from core.telemetry.health_tally import Health
from core.telemetry.rows import RecordRow, TimelineRow
from core.telemetry.session_tally import Course
from core.telemetry.significance import (
    Decision,
    Fingerprint,
    Place,
    Remembered,
    decide,
    history_row,
    position_row,
    remember,
)

_UPSERT_LATEST = """
INSERT OR REPLACE INTO mower_latest
    (mower_no, observed_us, received_us, history_written_us, history_fingerprint, position_fingerprint, state,
     health, session)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SELECT_LATEST = """
SELECT observed_us, history_written_us, history_fingerprint, position_fingerprint, state, health, session
FROM mower_latest WHERE mower_no = ?
"""
_WRITTEN = {
    (history, position): Written(latest=True, history=history, position=position)
    for history in (False, True)
    for position in (False, True)
}
_encoder = msgspec.json.Encoder()
_fingerprints = msgspec.json.Decoder(Fingerprint | None)
_places = msgspec.json.Decoder(tuple[Place | None, Place | None])
_states = msgspec.json.Decoder(MowerState)
_healths = msgspec.json.Decoder(Health)
_courses = msgspec.json.Decoder(Course)


class _Memory:
    """What is known of one mower between two of its states."""

    __slots__ = (
        "_encoded",
        "_encoded_health",
        "_encoded_history",
        "_health_version",
        "course",
        "health",
        "is_changed",
        "remembered",
        "state",
    )

    def __init__(self) -> None:
        self.remembered: Remembered | None = None
        self.state: MowerState | None = None
        self.health: Health | None = None
        self.course: Course | None = None
        self.is_changed = False
        self._encoded_history: Fingerprint | None = None
        self._encoded: str | None = None
        self._health_version: int | None = None
        self._encoded_health: bytes | None = None

    def columns(self, number: int, received_us: int) -> Columns:
        """Values for _UPSERT_LATEST."""
        known = self.remembered
        assert known is not None
        if known.history is not self._encoded_history:
            self._encoded_history = known.history
            self._encoded = None if known.history is None else _encoder.encode(known.history).decode()
        return (
            number,
            known.observed_us,
            received_us,
            known.history_written_us,
            self._encoded,
            _encoder.encode((known.position, known.seen)).decode(),
            _encoder.encode(self.state),
            self._health_column(),
            None if self.course is None else _encoder.encode(self.course),
        )

    def _health_column(self) -> bytes | None:
        health = self.health
        if health is not None and health.sample_us != self._health_version:
            self._health_version, self._encoded_health = health.sample_us, _encoder.encode(health)
        return self._encoded_health

    @property
    def seen(self) -> Place | None:
        return None if self.remembered is None else self.remembered.seen


class _Pending:
    """Rows of a batch that wait to be inserted together."""

    __slots__ = ("histories", "positions")

    def __init__(self) -> None:
        self.histories: list[Columns] = []
        self.positions: list[Columns] = []

    def flush(self, connection: sqlite3.Connection) -> None:
        connection.executemany(INSERT_HISTORY, self.histories)
        connection.executemany(INSERT_POSITION, self.positions)
        self.histories.clear()
        self.positions.clear()


class Recorded(NamedTuple):
    """What became of each state, and the versions of records that they made."""

    written: list[Written]
    records: list[RecordRow]


class Recording:
    """Applies states in order. `days` keeps the mowers' health and `sessions` cuts their jobs (the box); None: not
    here (the relay)."""

    def __init__(
        self, directory: SqliteDirectory, numbers: JournalNumbers, days: HealthDays | None, sessions: Sessions | None
    ) -> None:
        self._directory = directory
        self._numbers = numbers
        self._days = days
        self._sessions = sessions
        self._memories: dict[int, _Memory] = {}

    def forget(self) -> None:
        """Drops what is remembered (after a rollback)."""
        self._memories.clear()
        if self._days is not None:
            self._days.forget()
        if self._sessions is not None:
            self._sessions.forget()

    def record(
        self,
        connection: sqlite3.Connection,
        states: Sequence[tuple[MowerId, AccountId, MowerState]],
        received_at: datetime,
        *,
        latest_only: bool,
    ) -> Recorded:
        """The write rules for each state; see the port."""
        entries = self._directory.entries(connection)
        written = []
        touched: dict[int, _Memory] = {}
        pending = _Pending()
        for mower_id, account_id, state in states:
            entry = entries.get(mower_id)
            if entry is None or entry.account_id != account_id:
                written.append(_skip("unknown-mower" if entry is None else "foreign-account"))
                continue
            number = self._directory.number(connection, mower_id, account_id)
            memory = self._memories.get(number) or self._load(connection, number)
            admitted = admit(state, now=received_at, seen=memory.seen)
            if admitted.state is None:
                written.append(_skip(f"implausible:{admitted.refused}"))
                continue
            into = None if latest_only else pending
            written.append(self._apply(connection, number, mower_id, memory, admitted, into))
            if memory.is_changed:
                touched[number] = memory
        pending.flush(connection)
        records = [] if self._days is None else self._days.flush(connection)
        records += [] if self._sessions is None else self._sessions.flush(connection)
        self._save(connection, touched, to_us(received_at))
        self._numbers.save(connection)
        if len(self._memories) > limits.LAST_VALUES:
            self._memories.clear()
        return Recorded(written, records)

    def _apply(
        self,
        connection: sqlite3.Connection,
        number: int,
        mower_id: MowerId,
        memory: _Memory,
        admitted: Admitted,
        pending: _Pending | None,
    ) -> Written:
        """One plausible state; without `pending` only latest."""
        before, state = memory.remembered, admitted.state
        assert state is not None
        decision = decide(before, state)
        is_newer = before is None or decision.observed_us > before.observed_us
        if not is_newer and not decision.is_older and state == memory.state:
            return _skip("duplicate")
        wrote = (False, False)
        if pending is not None:
            if is_newer:
                wrote = self._append(connection, number, mower_id, state, decision, pending)
                if self._days is not None:
                    latest = None if before is None or memory.state is None else (memory.state, before.observed_us)
                    newest = (state, decision.observed_us, decision.place)
                    memory.health = self._days.advance(connection, number, mower_id, memory.health, latest, newest)
                if self._sessions is not None:
                    after = (state, decision.place)
                    memory.course = self._sessions.advance(connection, number, mower_id, memory.course, after)
            else:
                pending.flush(connection)
                if not decision.is_older and memory.health is not None and memory.state is not None:
                    settle(memory.health, memory.state, decision.observed_us)
                wrote = self._insert(connection, number, mower_id, state, decision)
        if decision.is_older:
            return Written(latest=False, history=wrote[0], position=wrote[1], skipped="older", dropped=admitted.dropped)
        memory.remembered = remember(before, decision, wrote_history=wrote[0], wrote_position=wrote[1])
        memory.state = state
        memory.is_changed = True
        if admitted.dropped:
            return Written(latest=True, history=wrote[0], position=wrote[1], dropped=admitted.dropped)
        return _WRITTEN[wrote]

    def _append(
        self,
        connection: sqlite3.Connection,
        number: int,
        mower_id: MowerId,
        state: MowerState,
        decision: Decision,
        pending: _Pending,
    ) -> tuple[bool, bool]:
        """Numbers the due rows of a state newer than all: no row can be there under its key."""
        numbers, place = self._numbers, decision.place
        if decision.writes_history:
            pending.histories.append(encode_history(history_row(mower_id, state), number, numbers.peek(connection)))
            numbers.take(connection, None)
        if place is None or not decision.writes_position:
            return decision.writes_history, False
        pending.positions.append(
            encode_position(position_row(mower_id, state, place), number, numbers.peek(connection))
        )
        numbers.take(connection, decision.observed_us)
        return decision.writes_history, True

    def _insert(
        self,
        connection: sqlite3.Connection,
        number: int,
        mower_id: MowerId,
        state: MowerState,
        decision: Decision,
    ) -> tuple[bool, bool]:
        """Inserts the due rows of a state that may be known; which were new."""
        numbers, place = self._numbers, decision.place
        wrote_history = wrote_position = False
        if decision.writes_history:
            columns = encode_history(history_row(mower_id, state), number, numbers.peek(connection))
            wrote_history = connection.execute(INSERT_HISTORY, columns).rowcount == 1
            if wrote_history:
                numbers.take(connection, None)
        if decision.writes_position and place is not None:
            columns = encode_position(position_row(mower_id, state, place), number, numbers.peek(connection))
            wrote_position = connection.execute(INSERT_POSITION, columns).rowcount == 1
            if wrote_position:
                numbers.take(connection, decision.observed_us)
        return wrote_history, wrote_position

    def _load(self, connection: sqlite3.Connection, number: int) -> _Memory:
        row = connection.execute(_SELECT_LATEST, (number,)).fetchone()
        memory = _Memory()
        if row is not None:
            observed_us, history_written_us, fingerprint, places, state, health, course = row
            position, seen = (None, None) if places is None else _places.decode(places)
            memory.remembered = Remembered(
                observed_us=observed_us,
                history_written_us=history_written_us,
                history=None if fingerprint is None else _fingerprints.decode(fingerprint),
                position=position,
                seen=seen,
            )
            memory.state = _states.decode(state)
            memory.health = None if health is None else _healths.decode(health)
            memory.course = None if course is None else _courses.decode(course)
        self._memories[number] = memory
        return memory

    def _save(self, connection: sqlite3.Connection, memories: dict[int, _Memory], received_us: int) -> None:
        """One upsert per mower, of its last state."""
        connection.executemany(_UPSERT_LATEST, [memory.columns(no, received_us) for no, memory in memories.items()])
        for memory in memories.values():
            memory.is_changed = False


def insert_result(
    connection: sqlite3.Connection,
    row: TimelineRow,
    directory: SqliteDirectory,
    numbers: JournalNumbers,
    *,
    keeps_unknown: bool,
) -> bool:
    """Adds a transition of a command unless it is known; whether it was new. Results for mowers that the directory
    lacks are kept for the relay (the box) or left out (the relay). The caller saves the numbers."""
    number = directory.number_of(connection, row.mower_id)
    if number is None:
        if not keeps_unknown:
            return False
        number = directory.number(connection, row.mower_id, NOBODY)
    columns = encode_timeline(row, number, numbers.peek(connection))
    is_new = connection.execute(INSERT_TIMELINE, columns).rowcount == 1
    if is_new:
        numbers.take(connection, None)
    return is_new


def _skip(reason: str) -> Written:
    return Written(latest=False, history=False, position=False, skipped=reason)
