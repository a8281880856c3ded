"""Alerts of a mower with what people have answered, read from a host's records."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from core.domain.ids import AccountId, MowerId
from core.storage.record_book import RecordBook
from core.telemetry.admission import EARLIEST
from core.telemetry.alert import ALERT, ALERT_ANSWER, Alert, AlertAnswer, Step, key_of_answer
from core.telemetry.rows import RecordRow

LATEST = datetime(2200, 1, 1, tzinfo=UTC)
NEWEST = 500
"""Alerts of one mower that are looked at; earlier ones are only kept."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """Who has answered, and when."""

    by: str
    at: datetime
    note: str = ""


class LoggedAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert as it stands: closed when its host says so or a person did."""

    mower_id: MowerId
    alert: Alert
    acknowledged: Answered | None = None
    closed_by: Answered | None = None

    @property
    def is_open(self) -> bool:
        return self.alert.closed_at is None and self.closed_by is None


class AlertLog:
    """Reads a RecordBook; all methods raise StorageError."""

    def __init__(self, book: RecordBook) -> None:
        self._book = book

    async def of_mower(self, account_id: AccountId, mower_id: MowerId) -> list[LoggedAlert]:
        """The newest first. Versions that this host does not understand are left out."""
        rows, _ = await self._book.list_kind(
            account_id, mower_id, ALERT.name, EARLIEST, LATEST, limit=NEWEST, is_newest_first=True
        )
        answers: dict[str, Answered] = {}
        if rows:
            given, _ = await self._book.list_kind(
                account_id, mower_id, ALERT_ANSWER.name, rows[-1].at, LATEST, limit=2 * NEWEST, is_newest_first=True
            )
            answers = {row.key: said for row in given if (said := _answered(row)) is not None}
        return [
            LoggedAlert(
                mower_id=mower_id,
                alert=alert,
                acknowledged=answers.get(key_of_answer(alert.alert_id, "ack")),
                closed_by=answers.get(key_of_answer(alert.alert_id, "close")),
            )
            for row in rows
            if (alert := ALERT.read(row)) is not None
        ]

    async def find(self, account_id: AccountId, mower_id: MowerId, alert_id: str) -> LoggedAlert | None:
        """One alert of the mower."""
        row = await self._book.get(account_id, mower_id, ALERT.name, alert_id)
        alert = None if row is None else ALERT.read(row)
        if alert is None:
            return None
        return LoggedAlert(
            mower_id=mower_id,
            alert=alert,
            acknowledged=await self._answer(account_id, mower_id, alert_id, "ack"),
            closed_by=await self._answer(account_id, mower_id, alert_id, "close"),
        )

    async def answer(self, account_id: AccountId, mower_id: MowerId, alert_id: str, step: Step, said: Answered) -> bool:
        """The first answer stands: one that is there already changes nothing. Whether it is new."""
        key = key_of_answer(alert_id, step)
        if await self._book.get(account_id, mower_id, ALERT_ANSWER.name, key) is not None:
            return False
        body = AlertAnswer(alert_id=alert_id, by=said.by, note=said.note)
        row = ALERT_ANSWER.make(mower_id, key, body, at=said.at, updated_at=said.at)
        return bool(await self._book.put(account_id, [row], is_durable=True))

    async def _answer(self, account_id: AccountId, mower_id: MowerId, alert_id: str, step: Step) -> Answered | None:
        row = await self._book.get(account_id, mower_id, ALERT_ANSWER.name, key_of_answer(alert_id, step))
        return None if row is None else _answered(row)


def _answered(row: RecordRow) -> Answered | None:
    body = ALERT_ANSWER.read(row)
    return None if body is None else Answered(by=body.by, at=row.at, note=body.note)
