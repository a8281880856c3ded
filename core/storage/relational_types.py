"""Column types that mean the same in every database."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Dialect, String
from sqlalchemy.types import TypeDecorator

from core.domain.clock import from_us, to_us

ID = String(64)
"""Any id of `core.domain.ids`."""
WORD = String(32)
"""A member of one of our enums, or the name of a role."""


class Instant(TypeDecorator[datetime]):
    """An aware datetime, kept as microseconds since 1970 UTC: SQLite has no zones, and integers compare
    the same everywhere. Naive datetimes raise TypeError."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002  (the base's signature)
        return None if value is None else to_us(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  (the base's signature)
        return None if value is None else from_us(value)
