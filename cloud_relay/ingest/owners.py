"""Which account and box each mower belongs to, in memory, for the path that must not wait for a database."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from core.domain.clock import Clock
from core.domain.errors import StorageError
from core.domain.ids import AccountId, EdgeId, MowerId
from core.storage.telemetry_store import TelemetryStore

REFRESH_S = 15.0
"""The directory is read again this often, for what changes elsewhere (a mower moved or removed by a person)."""
MISS_S = 1.0
"""And at most this often for a mower that is not in it."""

_log = structlog.get_logger(__name__)


class Owners:
    """A copy of the store's directory."""

    def __init__(self, store: TelemetryStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._owners: Mapping[MowerId, tuple[AccountId, EdgeId | None]] = {}
        self._read_at = float("-inf")
        self._wanted = asyncio.Event()

    def owns(self, edge_id: EdgeId, account_id: AccountId, mower_id: MowerId) -> bool | None:
        """Whether the mower is this box's and account's; None when nobody knows it (the copy may be a moment old)."""
        owner = self._owners.get(mower_id)
        if owner is None:
            self._wanted.set()
            return None
        return owner == (account_id, edge_id)

    async def refresh(self) -> None:
        """Reads the directory now. StorageError."""
        entries = await self._store.directory()
        self._owners = {entry.mower_id: (entry.account_id, entry.edge_id) for entry in entries}
        self._read_at = self._clock.monotonic()
        self._wanted.clear()

    async def run(self) -> None:
        """Keeps the copy fresh until cancelled."""
        is_failing = False
        while True:
            try:
                await self.refresh()
            except StorageError as err:
                if not is_failing:
                    _log.warning("directory of mowers cannot be read", error=err.detail)
                is_failing = True
            else:
                is_failing = False
            await asyncio.sleep(MISS_S)
            try:
                async with asyncio.timeout(REFRESH_S):
                    await self._wanted.wait()
            except TimeoutError:
                pass
