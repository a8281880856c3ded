"""Migrations: in order, all or nothing, never backwards."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.domain.errors import DatabaseNewerError
from core.storage.migrations import Migration, migrate, read_migrations, split_statements

FIRST = Migration(version=1, sql="CREATE TABLE a (x);\nINSERT INTO a VALUES (1);\n")
SECOND = Migration(version=2, sql="ALTER TABLE a ADD COLUMN y;\nUPDATE a SET y = 2;\n")
BROKEN = Migration(version=2, sql="INSERT INTO a VALUES (2);\nINSERT INTO nowhere VALUES (1);\n")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        yield opened


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_each_step_runs_once(connection: sqlite3.Connection) -> None:
    assert migrate(connection, [FIRST]) == 0
    assert migrate(connection, [FIRST, SECOND]) == 1
    assert migrate(connection, [FIRST, SECOND]) == 2
    assert connection.execute("SELECT x, y FROM a").fetchall() == [(1, 2)]
    assert version(connection) == 2


def test_a_failed_step_leaves_everything_as_it_was(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, [FIRST, BROKEN])
    assert version(connection) == 0
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert not connection.in_transaction


def test_a_newer_database_is_not_touched(connection: sqlite3.Connection) -> None:
    migrate(connection, [FIRST, SECOND])
    with pytest.raises(DatabaseNewerError):
        migrate(connection, [FIRST])
    assert version(connection) == 2
    assert not connection.in_transaction


def test_the_files_of_the_store_are_in_order() -> None:
    steps = read_migrations()
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))


@pytest.mark.parametrize("name", ["0002_gap.sql", "1_short.sql", "0001_Upper.sql"])
def test_stray_files_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("SELECT 1;")
    with pytest.raises(ValueError, match="is not migration 0001"):
        read_migrations(tmp_path)


def test_statements_are_split_where_they_end() -> None:
    script = "-- a; b\nCREATE TABLE t (\n  x TEXT DEFAULT ';'\n);\n\nINSERT INTO t VALUES ('a;\nb');\n-- end\n"
    assert len(list(split_statements(script))) == 2
    with pytest.raises(ValueError, match="without an end"):
        list(split_statements("SELECT 1"))
