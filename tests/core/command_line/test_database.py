"""`mowdeck db`."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from core.storage.migrations import migrate, read_migrations
from tests.core.command_line.conftest import Terminal

DAY_US = 86_400_000_000


@pytest.fixture
def away(tmp_path: Path) -> Terminal:
    """Without any host."""
    return Terminal(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "telemetry.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, read_migrations())
        connection.execute("INSERT INTO mowers VALUES (1, 'shaun', 'a')")
        connection.execute("INSERT INTO journal_stream VALUES (1, 's', 0)")
        connection.executemany(
            "INSERT INTO mower_positions (mower_no, observed_us, lat_e7, lon_e7, blades_on) VALUES (1, ?, ?, 0, 1)",
            [(1_700_000_000_000_000 + n * 1_000_000, 480_000_000 + n) for n in range(600)],
        )
    return path


def test_stats(away: Terminal, file: Path) -> None:
    found = away.ask("db", "stats", str(file))
    assert {t["name"]: t["rows"] for t in found["tables"]}["mower_positions"] == 600
    assert (found["backlog_numbers"], found["mowers"][0]["position_rows"]) == (None, 600)
    shown = away.run("db", "stats", str(file)).stdout
    for part in ("mower_positions", "600", "shaun", "2023-11-14 22:13Z"):
        assert part in shown, part


def test_check_ends_with_one_when_something_is_wrong(away: Terminal, file: Path) -> None:
    assert away.ask("db", "check", str(file)) == []
    assert "Nothing is wrong" in away.run("db", "check", str(file)).stdout
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DELETE FROM mowers")
    assert [f["code"] for f in away.ask("db", "check", str(file), status=1)] == ["orphans"]
    assert "mower_positions has 600 rows" in away.run("db", "check", str(file)).stdout


def test_thin_only_says_what_it_would_do(away: Terminal, file: Path) -> None:
    before = file.read_bytes()
    (found,) = away.ask("db", "thin", "--dry-run", str(file), "--positions-days", "0")
    assert (found["scanned_rows"], found["young_rows"], found["expired_rows"]) == (600, 0, 0)
    assert 500 < found["thinned_rows"] < 600
    assert "shaun" in away.run("db", "thin", "--dry-run", str(file), "--positions-days", "0").stdout
    (aged,) = away.ask("db", "thin", "--dry-run", str(file))
    assert (aged["scanned_rows"], aged["expired_rows"]) == (0, 600)
    assert file.read_bytes() == before


def test_thin_refuses_to_be_for_real(away: Terminal, file: Path) -> None:
    assert away.run("db", "thin", str(file)).exit_code == 2
    assert away.run("db", "thin", "--dry-run", str(file), "--positions-days", "8").exit_code == 2
    assert away.run("db", "stats", str(file.with_name("none"))).exit_code == 2
