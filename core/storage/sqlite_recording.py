"""The write rules on SQLite: states become latest, history and track rows; results become timeline rows.

Runs on the writer's thread, inside its transaction. What `latest` says of a mower is also kept in memory, so that a
state costs no read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

import msgspec

from core.domain import limits
from core.domain.clock import to_us
from core.domain.ids import AccountId, MowerId
from core.domain.mower import MowerState
from core.storage.sqlite_columns import (
    INSERT_HISTORY,
    INSERT_POSITION,
    INSERT_TIMELINE,
    encode_history,
    encode_position,
    encode_timeline,
)
from core.storage.sqlite_directory import NOBODY, SqliteDirectory
from core.storage.sqlite_journal import JournalNumbers
from core.storage.telemetry_store import Written
from core.telemetry.admission import admit
from core.telemetry.rows import TimelineRow
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
    (mower_no, observed_us, received_us, history_written_us, history_fingerprint, position_fingerprint, state)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_SELECT_LATEST = """
SELECT observed_us, history_written_us, history_fingerprint, position_fingerprint, state
FROM mower_latest WHERE mower_no = ?
"""
_encoder = msgspec.json.Encoder()
_fingerprints = msgspec.json.Decoder(Fingerprint | None)
_places = msgspec.json.Decoder(tuple[Place | None, Place | None])
_states = msgspec.json.Decoder(MowerState)


class _Memory:
    """What is known of one mower between two of its states."""

    __slots__ = ("is_changed", "remembered", "state")

    def __init__(self, remembered: Remembered | None, state: MowerState | None) -> None:
        self.remembered = remembered
        self.state = state
        self.is_changed = False


class Recording:
    """Applies states in order."""

    def __init__(self, directory: SqliteDirectory, numbers: JournalNumbers) -> None:
        self._directory = directory
        self._numbers = numbers
        self._memories: dict[int, _Memory] = {}

    def forget(self) -> None:
        """Drops what is remembered (after a rollback)."""
        self._memories.clear()

    def forget_mower(self, mower_no: int) -> None:
        """Drops what is remembered of one mower (its rows are being removed)."""
        self._memories.pop(mower_no, None)

    def record(
        self,
        connection: sqlite3.Connection,
        states: Sequence[tuple[MowerId, AccountId, MowerState]],
        received_at: datetime,
        *,
        only_latest: bool,
    ) -> list[Written]:
        """The write rules for each state; see the port."""
        entries = self._directory.entries(connection)
        written = []
        touched: dict[int, _Memory] = {}
        for mower_id, account_id, state in states:
            entry = entries.get(mower_id)
            if entry is None or entry.account_id != account_id:
                written.append(_skip("unknown-mower" if entry is None else "foreign-account"))
                continue
            number = self._directory.number(connection, mower_id, account_id)
            memory = self._memories.get(number) or self._load(connection, number)
            written.append(self._apply(connection, number, mower_id, memory, state, received_at, only_latest))
            if memory.is_changed:
                touched[number] = memory
        self._save(connection, touched, to_us(received_at))
        self._numbers.save(connection)
        if len(self._memories) > limits.LAST_VALUES:
            self._memories.clear()
        return written

    def _apply(
        self,
        connection: sqlite3.Connection,
        number: int,
        mower_id: MowerId,
        memory: _Memory,
        state: MowerState,
        received_at: datetime,
        only_latest: bool,
    ) -> Written:
        before = memory.remembered
        admitted = admit(state, now=received_at, seen=None if before is None else before.seen)
        if admitted.state is None:
            return _skip(f"implausible:{admitted.refused}")
        state = admitted.state
        decision = decide(before, state)
        if before is not None and decision.observed_us == before.observed_us and state == memory.state:
            return _skip("duplicate")
        wrote_history = wrote_position = False
        if not only_latest:
            wrote_history, wrote_position = self._insert(connection, number, mower_id, state, decision)
        if decision.is_older:
            return Written(
                latest=False,
                history=wrote_history,
                position=wrote_position,
                skipped="older",
                dropped=admitted.dropped,
            )
        memory.remembered = remember(before, decision, wrote_history=wrote_history, wrote_position=wrote_position)
        memory.state = state
        memory.is_changed = True
        return Written(latest=True, history=wrote_history, position=wrote_position, dropped=admitted.dropped)

    def _insert(
        self,
        connection: sqlite3.Connection,
        number: int,
        mower_id: MowerId,
        state: MowerState,
        decision: Decision,
    ) -> tuple[bool, bool]:
        """Which of the due rows were new."""
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
        memory = _Memory(None, None)
        if row is not None:
            observed_us, history_written_us, fingerprint, places, state = row
            position, seen = (None, None) if places is None else _places.decode(places)
            memory.remembered = Remembered(
                observed_us=observed_us,
                history_written_us=history_written_us,
                history=None if fingerprint is None else _fingerprints.decode(fingerprint),
                position=position,
                seen=seen,
            )
            memory.state = _states.decode(state)
        self._memories[number] = memory
        return memory

    def _save(self, connection: sqlite3.Connection, memories: dict[int, _Memory], received_us: int) -> None:
        """One upsert per mower, of its last state."""
        for number, memory in memories.items():
            known = memory.remembered
            if known is None or memory.state is None:
                continue
            connection.execute(
                _UPSERT_LATEST,
                (
                    number,
                    known.observed_us,
                    received_us,
                    known.history_written_us,
                    None if known.history is None else _encoder.encode(known.history).decode(),
                    _encoder.encode((known.position, known.seen)).decode(),
                    _encoder.encode(memory.state),
                ),
            )
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
