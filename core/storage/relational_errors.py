"""Errors of the relational driver in the words of the house."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from core.domain.errors import ConflictError, MowdeckError, StorageError, StorageFullError, UnavailableError

_KEYS = {
    "SQLITE_CONSTRAINT_UNIQUE",
    "SQLITE_CONSTRAINT_PRIMARYKEY",
    "SQLITE_CONSTRAINT_FOREIGNKEY",
    "SQLITE_CONSTRAINT_ROWID",
    "23505",  # PostgreSQL: unique_violation
    "23503",  # PostgreSQL: foreign_key_violation
}
_FULL = {"SQLITE_FULL", "53100"}
_BUSY = {"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_BUSY_SNAPSHOT"}


@contextmanager
def translated() -> Iterator[None]:
    """Raises the house's error for the driver's. Mistakes in our own SQL that the driver never saw pass as bugs."""
    try:
        yield
    except PoolTimeoutError as err:
        raise UnavailableError("the database is busy") from err
    except DBAPIError as err:
        raise _meaning(err) from err
    except sqlite3.Error as err:
        raise StorageError(f"database: {type(err).__name__}") from err


def _meaning(err: DBAPIError) -> MowdeckError:
    """Never repeats the statement or its values: they may hold a hash or a name."""
    name = _code(err)
    if isinstance(err, IntegrityError) and name in _KEYS:
        return ConflictError("already there, or still referenced")
    if name in _FULL:
        return StorageFullError("the disk is full")
    if name in _BUSY or err.connection_invalidated:
        return UnavailableError("the database is busy or gone")
    if isinstance(err, OperationalError) and not name.startswith("SQLITE"):
        return UnavailableError("the database cannot be reached")
    return StorageError(f"database: {name or type(err.orig).__name__}")


def _code(err: DBAPIError) -> str:
    original = err.orig
    name = getattr(original, "sqlite_errorname", None) or getattr(original, "sqlstate", None)
    return str(name) if name else ""
