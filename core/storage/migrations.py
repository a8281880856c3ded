"""Numbered SQL files, applied in order in one transaction; `PRAGMA user_version` says how far a database is."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.domain.errors import DatabaseNewerError

FOLDER = Path(__file__).parent / "migrations"
_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step: the version that it leads to and its statements."""

    version: int
    sql: str


def read_migrations(folder: Path = FOLDER) -> tuple[Migration, ...]:
    """The steps of a folder, `0001_name.sql` on; ValueError for a gap or a stray file."""
    steps: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None or int(match[1]) != len(steps) + 1:
            raise ValueError(f"{path.name} is not migration {len(steps) + 1:04}")
        steps.append(Migration(version=len(steps) + 1, sql=path.read_text(encoding="utf-8")))
    return tuple(steps)


def migrate(connection: sqlite3.Connection, steps: Sequence[Migration]) -> int:
    """Brings an autocommit connection's database to the newest step, all or nothing; returns the version it had.

    DatabaseNewerError when a newer version of the code wrote it; nothing is touched then.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        newest = steps[-1].version if steps else 0
        if found > newest:
            raise DatabaseNewerError(f"the database has version {found}, this code knows up to {newest}")
        for step in steps[found:]:
            for statement in split_statements(step.sql):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {step.version}")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return found


def split_statements(sql: str) -> Iterator[str]:
    """The statements of a script one by one (`executescript` would commit in between)."""
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if any(line.strip() and not line.lstrip().startswith("--") for line in pending.splitlines()):
        raise ValueError(f"statement without an end: {pending.strip()[:60]!r}")
