"""The RecordBook port: records of many mowers (small documents that change over time, see core.telemetry.records).

Part of a host's telemetry store, so that records share its transactions, journal and retention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from core.domain.ids import AccountId, MowerId
from core.storage.telemetry_store import Page
from core.telemetry.rows import RecordRow

RecordListener = Callable[[AccountId, Sequence[RecordRow]], None]
"""Hears of versions that have just been stored. Called on the event loop; only touches memory, raises nothing."""


class RecordBook(Protocol):
    """All methods raise StorageError. Every read names the account: a record of another is as good as absent."""

    def subscribe(self, listener: RecordListener) -> None:
        """`listener` hears of every version that is new or newer, whoever wrote it: `put`, a batch of a box, or the
        store itself. It may miss one (the writer was cancelled, the process died): it is for telling people at once,
        not for keeping books."""
        ...

    async def put(
        self, account_id: AccountId, rows: Sequence[RecordRow], *, is_durable: bool = False
    ) -> Sequence[RecordRow]:
        """Stores versions of records, all or none; returns those that were new or newer. A version that is not newer
        than the stored one changes nothing. Rows of mowers that the directory does not give to the account are left
        out. With `is_durable` they outlive a power cut when this returns. InvalidInputError for a row that can be none
        (key, date, body)."""
        ...

    async def get(self, account_id: AccountId, mower_id: MowerId, kind: str, key: str) -> RecordRow | None: ...

    async def list_kind(
        self,
        account_id: AccountId,
        mower_id: MowerId,
        kind: str,
        start: datetime,
        end: datetime,
        *,
        limit: int,
        is_newest_first: bool = False,
    ) -> tuple[Sequence[RecordRow], Page]:
        """Records with `start <= at < end` in order of (`at`, `key`). `limit` is overrun by those of the same instant.
        A cut list goes on with the page's cursor as `start`, or as `end` when the newest come first."""
        ...
