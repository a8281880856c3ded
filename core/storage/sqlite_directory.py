"""Which mower belongs to which account and box, and the small numbers that stand for (mower, account) in rows.

Lives on the writer's thread; keeps the directory in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from core.domain.ids import AccountId, EdgeId, MowerId
from core.storage.telemetry_store import DirectoryEntry

NOBODY = AccountId("")
"""Whose rows are of a mower that the directory does not know: nobody can read them."""


class SqliteDirectory:
    """With `moves_rows` (the box, which has one household) rows follow a mower into another account; without (the
    relay) rows stay with the account that they were written under."""

    def __init__(self, *, moves_rows: bool) -> None:
        self._moves_rows = moves_rows
        self._entries: dict[MowerId, DirectoryEntry] | None = None
        self._numbers: dict[tuple[MowerId, AccountId], int] = {}

    def forget(self) -> None:
        """Drops what is remembered (after a rollback)."""
        self._entries = None
        self._numbers.clear()

    def entries(self, connection: sqlite3.Connection) -> dict[MowerId, DirectoryEntry]:
        """All entries by mower."""
        if self._entries is None:
            self._entries = {entry.mower_id: entry for entry in read_directory(connection)}
        return self._entries

    def number(self, connection: sqlite3.Connection, mower_id: MowerId, account_id: AccountId) -> int:
        """The number of (mower, account), made when it has none."""
        key = (mower_id, account_id)
        number = self._numbers.get(key)
        if number is None:
            number = find_number(connection, mower_id, account_id)
            if number is None:
                cursor = connection.execute("INSERT INTO mowers (mower_id, account_id) VALUES (?, ?)", key)
                number = int(cursor.lastrowid or 0)
            self._numbers[key] = number
        return number

    def number_of(self, connection: sqlite3.Connection, mower_id: MowerId) -> int | None:
        """The number under the account that the directory names; None for an unknown mower."""
        entry = self.entries(connection).get(mower_id)
        return None if entry is None else self.number(connection, mower_id, entry.account_id)

    def put(self, connection: sqlite3.Connection, entries: Sequence[DirectoryEntry]) -> None:
        """Adds and replaces; a seed never replaces what a registration said."""
        known = self.entries(connection)
        for entry in entries:
            before = known.get(entry.mower_id)
            if before == entry or (before is not None and entry.is_seed and not before.is_seed):
                continue
            connection.execute(
                "INSERT OR REPLACE INTO mower_directory (mower_id, account_id, edge_id, name, is_seed) "
                "VALUES (?, ?, ?, ?, ?)",
                (entry.mower_id, entry.account_id, entry.edge_id, entry.name, entry.is_seed),
            )
            if self._moves_rows:
                self._move_rows(connection, entry, NOBODY if before is None else before.account_id)
            known[entry.mower_id] = entry

    def remove(self, connection: sqlite3.Connection, mower_id: MowerId) -> None:
        """Takes the mower out of the directory; its numbers stay until its rows are gone."""
        connection.execute("DELETE FROM mower_directory WHERE mower_id = ?", (mower_id,))
        self.entries(connection).pop(mower_id, None)

    def _move_rows(self, connection: sqlite3.Connection, entry: DirectoryEntry, before: AccountId) -> None:
        if before == entry.account_id or find_number(connection, entry.mower_id, entry.account_id) is not None:
            return
        connection.execute(
            "UPDATE mowers SET account_id = ? WHERE mower_id = ? AND account_id = ?",
            (entry.account_id, entry.mower_id, before),
        )
        self._numbers.pop((entry.mower_id, before), None)


def read_directory(connection: sqlite3.Connection) -> list[DirectoryEntry]:
    """All entries, by mower."""
    rows = connection.execute(
        "SELECT mower_id, account_id, edge_id, name, is_seed FROM mower_directory ORDER BY mower_id"
    )
    return [
        DirectoryEntry(
            mower_id=MowerId(mower_id),
            account_id=AccountId(account_id),
            edge_id=None if edge_id is None else EdgeId(edge_id),
            name=name,
            is_seed=bool(is_seed),
        )
        for mower_id, account_id, edge_id, name, is_seed in rows
    ]


def find_number(connection: sqlite3.Connection, mower_id: MowerId, account_id: AccountId) -> int | None:
    """The number of (mower, account), if rows were ever written under it."""
    row = connection.execute(
        "SELECT mower_no FROM mowers WHERE mower_id = ? AND account_id = ?", (mower_id, account_id)
    ).fetchone()
    return None if row is None else int(row[0])


def numbers_of(connection: sqlite3.Connection, mower_id: MowerId) -> list[int]:
    """The mower's numbers under all accounts that it ever belonged to."""
    rows = connection.execute("SELECT mower_no FROM mowers WHERE mower_id = ?", (mower_id,))
    return [int(number) for (number,) in rows]
