"""The range of time that a read asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from core.domain.errors import InvalidInputError

DEFAULT_RANGE = timedelta(hours=24)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)


class RangeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Without `to`: until now. Without `from`: the 24 hours before `to`."""

    start: datetime | None = msgspec.field(default=None, name="from")
    end: datetime | None = msgspec.field(default=None, name="to")


def range_of(query: RangeQuery, now: datetime) -> tuple[datetime, datetime]:
    """The range that is asked for. InvalidInputError unless it is one, between 1970 and 2200."""
    end = now if query.end is None else query.end
    for field, instant in (("to", end), ("from", query.start)):
        if instant is not None and not EARLIEST <= instant <= LATEST:
            raise InvalidInputError.of(field, "must lie between 1970 and 2200")
    start = max(EARLIEST, end - DEFAULT_RANGE) if query.start is None else query.start
    if start >= end:
        raise InvalidInputError.of("from", "must be before 'to'")
    return start, end
