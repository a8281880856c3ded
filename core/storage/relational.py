"""The relational file of a host: identity, access and fleet in one database, so that rows and the rights that
follow them change in one transaction.

SQLAlchemy Core, async; SQLite by aiosqlite, and the SQL stays portable. Modules hang their tables on `METADATA`;
the composition root imports them before it opens the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, Table, event, insert, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from core.domain.errors import DatabaseNewerError, SettingsError, StorageError, UnavailableError
from core.storage.relational_errors import translated

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""Where every module of a host hangs its tables."""

SCHEMA_VERSION = 1
"""Raised whenever an existing table changes; a database with a higher one is left alone."""

READERS = 4
"""Connections (and threads, with SQLite) that read."""
BUSY_S = 5.0
"""SQLite waits this long for another process that writes."""
TURN_S = 10.0
"""A writer waits this long for its turn, and closing waits this long for what still runs."""

_schema_version = Table("schema_version", METADATA, Column("version", Integer, primary_key=True))


def sqlite_url(path: Path) -> str:
    """The URL of a database file."""
    return f"sqlite+aiosqlite:///{path}"


class RelationalDatabase:
    """Opened and closed by its owner, which ends all users of it first. Errors inside `read` and `write`:
    ConflictError (a unique or foreign key says no), UnavailableError (busy, gone, closed), StorageFullError,
    StorageError (anything else)."""

    def __init__(self, url: str) -> None:
        """`url` as in `sqlite+aiosqlite:////var/lib/x.db`; SettingsError when it cannot be used."""
        try:
            parsed = make_url(url)
            self._file = _sqlite_file(parsed.database) if parsed.get_backend_name() == "sqlite" else None
            self._writer = self._engine(url, is_reader=False)
            self._reader = self._engine(url, is_reader=True)
        except (ArgumentError, ImportError) as err:  # ImportError: the driver is not installed
            raise SettingsError.of("database_url", f"cannot be used: {type(err).__name__}") from err
        self._turn = asyncio.Lock()
        self._writing: asyncio.Task[Any] | None = None
        self._is_open = False
        self._in_use = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def _engine(self, url: str, *, is_reader: bool) -> AsyncEngine:
        if self._file is None:
            options: dict[str, Any] = {"postgresql_readonly": True} if is_reader else {}
            return create_async_engine(
                url, pool_size=READERS, pool_timeout=TURN_S, pool_pre_ping=True, execution_options=options
            )
        engine = create_async_engine(
            url,
            pool_size=READERS if is_reader else 1,
            max_overflow=0,
            pool_timeout=TURN_S,
            # The driver opens no transactions by itself; `BEGIN` below does.
            connect_args={"isolation_level": None, "timeout": BUSY_S},
        )
        _prepare_sqlite(engine, is_reader=is_reader)
        return engine

    async def open(self, metadata: MetaData) -> None:
        """Makes what is missing and records the schema's version; DatabaseNewerError if it is newer than this code."""
        if self._file is not None:
            await asyncio.to_thread(_touch, self._file)
        self._is_open = True
        try:
            async with self.write() as conn:
                await conn.run_sync(_prepare_schema, metadata)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends all connections and their threads. May be called again."""
        self._is_open = False
        try:
            async with asyncio.timeout(TURN_S):
                await self._idle.wait()
        except TimeoutError as err:
            raise StorageError("the database is still in use while it is closed") from err
        finally:
            await self._reader.dispose()
            await self._writer.dispose()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A consistent snapshot; with SQLite the connection refuses to write."""
        with translated():
            async with self._used(), self._reader.connect() as conn, conn.begin():
                yield conn

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction, one at a time: committed at the end, rolled back when the body raises. Never inside
        another `write` of the same task. Do nothing slow in it: others wait."""
        task = asyncio.current_task()
        if self._writing is not None and self._writing is task:
            raise RuntimeError("write() inside write(): pass the connection on instead")
        with translated():
            async with self._used():
                await self._take_turn()
                self._writing = task
                try:
                    async with self._writer.connect() as conn, conn.begin():
                        yield conn
                finally:
                    self._writing = None
                    self._turn.release()

    async def ping(self) -> None:
        """UnavailableError or StorageError when the database does not answer."""
        async with self.read() as conn:
            await conn.execute(select(_schema_version.c.version))

    async def _take_turn(self) -> None:
        try:
            async with asyncio.timeout(TURN_S):
                await self._turn.acquire()
        except TimeoutError as err:
            raise UnavailableError("the database is busy") from err

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[None]:
        if not self._is_open:
            raise UnavailableError("the database is closed")
        self._in_use += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_use -= 1
            if not self._in_use:
                self._idle.set()


def _sqlite_file(database: str | None) -> Path:
    if not database or database == ":memory:" or database.startswith("file:"):
        # A private memory database has one connection: a reader would see, and end, the writer's transaction.
        raise SettingsError.of("database_url", "must name a file")
    return Path(database)


def _touch(file: Path) -> None:
    """The file holds password hashes: only its owner reads it (SQLite gives its side files the same mode)."""
    try:
        file.touch(mode=0o600, exist_ok=True)
    except OSError as err:
        raise StorageError(f"cannot open the database file: {err.strerror}") from err


def _prepare_sqlite(engine: AsyncEngine, *, is_reader: bool) -> None:
    pragmas = ["foreign_keys=ON", "synchronous=FULL", *(["query_only=ON"] if is_reader else ["journal_mode=WAL"])]

    def on_connect(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def on_begin(conn: Connection) -> None:
        # IMMEDIATE: two processes that both read first and then write would otherwise end in a deadlock.
        conn.exec_driver_sql("BEGIN" if is_reader else "BEGIN IMMEDIATE")

    event.listen(engine.sync_engine, "connect", on_connect)
    event.listen(engine.sync_engine, "begin", on_begin)


def _prepare_schema(conn: Connection, metadata: MetaData) -> None:
    found: int | None = None
    if inspect(conn).has_table(_schema_version.name):
        found = conn.scalar(select(_schema_version.c.version))
    if found is not None and found > SCHEMA_VERSION:
        raise DatabaseNewerError(f"the database has schema {found}, this version knows {SCHEMA_VERSION}")
    if _schema_version.metadata is not metadata:
        _schema_version.create(conn, checkfirst=True)
    metadata.create_all(conn)
    if found is None:
        conn.execute(insert(_schema_version).values(version=SCHEMA_VERSION))
