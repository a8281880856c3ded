"""Looking into a telemetry file, whether its host runs or not: what is in it, and whether it hangs together.

Everything here only reads. Findings say what to do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from core.domain.clock import from_us
from core.domain.errors import DatabaseNewerError, InvalidInputError
from core.storage.migrations import read_migrations
from core.storage.sqlite_tickets import translate

BUSY_TIMEOUT_S = 5.0
_AGING = ("mower_history", "mower_positions")
_OWNED = ("mower_latest", "mower_history", "mower_positions", "command_timeline", "mower_records")
_NUMBERED = ("mower_history", "mower_positions", "command_timeline", "mower_records")
_FAULTS_SHOWN = 20
_STOP = "Stop the host, keep a copy of the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """`used_bytes` counts the pages of the table and its indexes; None where this SQLite cannot tell."""

    name: str
    rows: int
    used_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MowerSize:
    """Rows of one mower and account; `used_bytes` is its share of the tables, by rows."""

    mower_id: str
    account_id: str
    history_rows: int
    position_rows: int
    used_bytes: int | None
    oldest_at: datetime | None
    newest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSize:
    """What is in a file. `backlog_numbers` are numbers of the journal that the relay has not acknowledged (None: a
    relay's file, it has no journal)."""

    version: int
    file_bytes: int
    free_bytes: int
    tables: tuple[TableSize, ...]
    mowers: tuple[MowerSize, ...]
    backlog_numbers: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that should not be, and what to do."""

    code: str
    detail: str
    advice: str


@contextmanager
def open_to_look(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write, all of whose reads see one moment. InvalidInputError: no file of ours.
    DatabaseNewerError, StorageError."""
    if not path.is_file():
        raise InvalidInputError.of("file", f"{path} is not there")
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S
    )
    try:
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("BEGIN")
        _check_version(connection, path)
        yield connection
    except sqlite3.Error as err:
        if getattr(err, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise InvalidInputError.of("file", f"{path} is no SQLite database") from err
        raise translate(err) from err
    finally:
        connection.close()


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    version, newest = _pragma(connection, "user_version"), len(read_migrations())
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'mower_positions'").fetchone()
    if known is None:
        raise InvalidInputError.of("file", f"{path} holds no telemetry of Mowdeck")
    if version > newest:
        raise DatabaseNewerError(f"the database has version {version}, this code knows up to {newest}")
    if version < newest:
        raise InvalidInputError.of("file", f"has version {version}; start its host once, it brings it to {newest}")


def measure_file(connection: sqlite3.Connection) -> FileSize:
    """Counts everything once; reads the whole file."""
    page_bytes = _pragma(connection, "page_size")
    names = [
        str(name)
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
    ]
    used = _used_bytes(connection)
    tables = tuple(
        TableSize(
            name=name,
            rows=connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0],
            used_bytes=None if used is None else used.get(name, 0),
        )
        for name in names
    )
    return FileSize(
        version=_pragma(connection, "user_version"),
        file_bytes=_pragma(connection, "page_count") * page_bytes,
        free_bytes=_pragma(connection, "freelist_count") * page_bytes,
        tables=tables,
        mowers=tuple(_mowers(connection, {table.name: table for table in tables})),
        backlog_numbers=_backlog(connection),
    )


def _used_bytes(connection: sqlite3.Connection) -> dict[str, int] | None:
    try:
        rows = connection.execute(
            "SELECT coalesce(m.tbl_name, d.name), sum(d.pgsize) FROM dbstat d "
            "LEFT JOIN sqlite_master m ON m.name = d.name WHERE d.aggregate = 1 GROUP BY 1"
        ).fetchall()
    except sqlite3.OperationalError:  # a SQLite built without dbstat
        return None
    return {str(name): int(size) for name, size in rows}


def _mowers(connection: sqlite3.Connection, tables: dict[str, TableSize]) -> Iterator[MowerSize]:
    mowers = connection.execute("SELECT mower_no, mower_id, account_id FROM mowers ORDER BY mower_id, mower_no")
    for number, mower_id, account_id in mowers.fetchall():
        rows: dict[str, int] = {}
        times: list[int] = []
        size: int | None = 0
        for name in _AGING:
            count, first_us, last_us = connection.execute(
                f"SELECT count(*), min(observed_us), max(observed_us) FROM {name} WHERE mower_no = ?", (number,)
            ).fetchone()
            rows[name] = count
            times += [] if not count else [first_us, last_us]
            table = tables[name]
            if size is None or table.used_bytes is None:
                size = None
            elif table.rows:
                size += table.used_bytes * count // table.rows
        yield MowerSize(
            mower_id=mower_id,
            account_id=account_id,
            history_rows=rows["mower_history"],
            position_rows=rows["mower_positions"],
            used_bytes=size,
            oldest_at=from_us(min(times)) if times else None,
            newest_at=from_us(max(times)) if times else None,
        )


def _backlog(connection: sqlite3.Connection) -> int | None:
    last_seq = connection.execute("SELECT max(last_seq) FROM journal_blocks").fetchone()[0]
    acked = connection.execute("SELECT acked_seq FROM journal_stream").fetchone()
    return None if last_seq is None or acked is None else max(0, last_seq - acked[0])


def find_faults(connection: sqlite3.Connection) -> list[Finding]:
    """Everything that is wrong; reads the whole file several times."""
    found = [
        Finding(
            code="damaged",
            detail=str(text),
            advice=f"{_STOP}, and restore the last backup, or save what is readable with sqlite3's .recover.",
        )
        for (text,) in connection.execute(f"PRAGMA integrity_check({_FAULTS_SHOWN})")
        if text != "ok"
    ]
    if found:
        return found  # what else would be read from such a file means nothing
    found += _orphans(connection)
    found += _journal_faults(connection)
    found += _thinning_faults(connection)
    found += _latest_faults(connection)
    return found


def _orphans(connection: sqlite3.Connection) -> Iterator[Finding]:
    for name in (*_OWNED, "mower_positions_thinning", "thinned_stretches", "thinning_tails"):
        count = connection.execute(
            f"SELECT count(*) FROM {name} WHERE mower_no NOT IN (SELECT mower_no FROM mowers)"
        ).fetchone()[0]
        if count:
            yield Finding(
                code="orphans",
                detail=f"{name} has {count} rows of no known mower",
                advice="They harm nothing and age out. Remove the mower again if its removal was cut off.",
            )


def _journal_faults(connection: sqlite3.Connection) -> Iterator[Finding]:
    last_seq = connection.execute("SELECT coalesce(max(last_seq), 0) FROM journal_blocks").fetchone()[0]
    numbers = " UNION ALL ".join(f"SELECT max(seq) FROM {name}" for name in _NUMBERED)
    beyond = max((value for (value,) in connection.execute(numbers).fetchall() if value is not None), default=0)
    advice = f"{_STOP}, and link the box again: it starts a new stream, and the relay drops what it has twice."
    if beyond > last_seq:
        yield Finding(
            code="journal-numbers",
            detail=f"a row has number {beyond}, but the journal has given {last_seq}",
            advice=advice,
        )
    acked = connection.execute("SELECT acked_seq FROM journal_stream").fetchone()
    if acked is not None and last_seq and acked[0] > last_seq:
        yield Finding(
            code="journal-acknowledged",
            detail=f"the relay has acknowledged {acked[0]}, but the journal has given {last_seq}",
            advice=advice,
        )
    hidden = connection.execute(
        "SELECT count(*) FROM mower_positions p WHERE p.seq IS NOT NULL AND NOT EXISTS ("
        "SELECT 1 FROM journal_blocks b WHERE b.first_seq = (SELECT max(first_seq) FROM journal_blocks WHERE first_seq "
        "<= p.seq) AND p.seq <= b.last_seq AND p.observed_us BETWEEN b.first_us AND b.last_us)"
    ).fetchone()[0]
    if hidden:
        yield Finding(
            code="journal-blocks",
            detail=f"{hidden} rows of the track are in no block of the journal: the relay will not get them",
            advice="They stay on the box. Export them with mowdeck track export if they are needed elsewhere.",
        )


def _thinning_faults(connection: sqlite3.Connection) -> Iterator[Finding]:
    ahead = connection.execute(
        "SELECT count(*) FROM thinned_stretches s LEFT JOIN mower_positions_thinning t USING (mower_no) "
        "WHERE t.thinned_until_us IS NULL OR s.last_us >= t.thinned_until_us"
    ).fetchone()[0]
    if ahead:
        yield Finding(
            code="thinning-watermark",
            detail=f"{ahead} thinned stretches lie beyond how far their track is thinned",
            advice=f"{_STOP}: thinning would go over them again and its stated error would no longer hold.",
        )


def _latest_faults(connection: sqlite3.Connection) -> Iterator[Finding]:
    if _backlog(connection) is None:
        return  # on a relay the two come by different ways
    for mower_id, latest_us, newest_us in connection.execute(
        "SELECT m.mower_id, l.observed_us, (SELECT max(h.observed_us) FROM mower_history h WHERE h.mower_no = m.mower_no)"
        " FROM mowers m LEFT JOIN mower_latest l USING (mower_no)"
    ).fetchall():
        if newest_us is not None and (latest_us is None or latest_us < newest_us):
            known = "none" if latest_us is None else f"{from_us(latest_us):%Y-%m-%d %H:%M:%S}Z"
            yield Finding(
                code="latest-behind",
                detail=f"{mower_id}: the latest state is {known}, history goes on to {from_us(newest_us):%Y-%m-%d %H:%M:%S}Z",
                advice="The next report of the mower puts it right.",
            )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
