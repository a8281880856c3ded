"""The gardens of the mowers as the fleet knows them: their time zones, and what people entered there about a mower."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog

from core.domain.errors import InvalidInputError, StorageError
from core.domain.ids import AccountId, MowerId
from core.storage.record_book import RecordBook
from core.sync.messages import EnteredRecord, Registration, Registrations
from core.telemetry.alert import ALERT_ANSWER
from core.telemetry.blades import ENTERED
from core.telemetry.rows import RecordRow

_log = structlog.get_logger(__name__)

_ENTERED = frozenset((*ENTERED, ALERT_ANSWER.name))
UTC_NAME = "UTC"
"""The zone of a site for which nobody has chosen one."""


class Gardens:
    """`zone_of` may be called from any thread."""

    def __init__(self, time_zone: str | None) -> None:
        """`time_zone` is the box's; None: the machine's."""
        self._own = machine_zone() if time_zone is None else ZoneInfo(time_zone)
        self._zones: dict[MowerId, ZoneInfo] = {}

    def zone_of(self, mower_id: MowerId) -> ZoneInfo:
        """Where the mower's days begin: the zone of its site, if one was chosen, else the box's."""
        return self._zones.get(mower_id, self._own)

    async def take(self, registrations: Registrations, book: RecordBook, account_id: Callable[[], AccountId]) -> None:
        """What the fleet says. A record that cannot be stored now comes again with the next list."""
        zones = {mower.mower_id: zone for mower in registrations.mowers if (zone := _zone(mower)) is not None}
        self._zones = zones
        for mower in registrations.mowers:
            rows = [_row(mower.mower_id, entered) for entered in mower.entered if entered.kind in _ENTERED]
            try:
                await book.put(account_id(), rows, is_durable=True)
            except (InvalidInputError, StorageError) as err:
                _log.warning("what was entered about a mower is not kept", mower_id=mower.mower_id, detail=err.detail)


def machine_zone(localtime: Path = Path("/etc/localtime")) -> ZoneInfo:
    """The zone that the machine is set to; UTC when it does not tell its name."""
    name = str(localtime.resolve()).partition("zoneinfo/")[2]
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo(UTC_NAME)


def _zone(mower: Registration) -> ZoneInfo | None:
    if mower.time_zone is None or mower.time_zone == UTC_NAME:
        return None
    try:
        return ZoneInfo(mower.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _row(mower_id: MowerId, entered: EnteredRecord) -> RecordRow:
    return RecordRow(
        mower_id=mower_id,
        kind=entered.kind,
        key=entered.key,
        at=entered.at,
        updated_at=entered.updated_at,
        body=bytes(entered.body),
    )
