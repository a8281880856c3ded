"""What people entered about a mower on the relay and its box has to know: it travels with the registrations, which are
retained, so a box that is away gets it when it is back, and getting it twice changes nothing.
"""

from __future__ import annotations

import msgspec
import structlog

from core.domain.errors import StorageError
from core.domain.ids import AccountId, MowerId
from core.storage.record_book import RecordBook
from core.sync.messages import EnteredRecord
from core.telemetry.admission import EARLIEST
from core.telemetry.alert import ALERT_ANSWER
from core.telemetry.blades import ENTERED
from core.web.health_routes import LATEST

NEWEST = 3
"""Of each kind. Hours are counted from the newest change; earlier ones only matter where they were entered."""
NEWEST_ANSWERS = 16
"""Answers to alerts: those that were given while the box was away."""

_log = structlog.get_logger(__name__)


class EnteredRecords:
    """Reads them for a registration."""

    def __init__(self, book: RecordBook) -> None:
        self._book = book

    async def of_mower(self, account_id: AccountId, mower_id: MowerId) -> tuple[EnteredRecord, ...]:
        """The newest of each kind. None while the store fails: the box keeps what it has, and they come with the next
        list."""
        found: list[EnteredRecord] = []
        try:
            for kind, count in (*((kind, NEWEST) for kind in ENTERED), (ALERT_ANSWER.name, NEWEST_ANSWERS)):
                rows, _ = await self._book.list_kind(
                    account_id, mower_id, kind, EARLIEST, LATEST, limit=count, is_newest_first=True
                )
                found += [
                    EnteredRecord(
                        kind=row.kind, key=row.key, at=row.at, updated_at=row.updated_at, body=msgspec.Raw(row.body)
                    )
                    for row in rows[:count]
                ]
        except StorageError as err:
            _log.warning("a box is not told what was entered about a mower", mower_id=mower_id, detail=err.detail)
            return ()
        return tuple(found)
