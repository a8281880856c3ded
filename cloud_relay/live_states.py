"""The newest stored states, for a socket that subscribes before anything was published in this process."""

from __future__ import annotations

from collections.abc import Sequence

from core.domain.ids import AccountId, MowerId
from core.storage.telemetry_store import TelemetryStore
from core.web.ports import LiveState


class StoredStates:
    """Implements `LiveStates` over the telemetry store."""

    def __init__(self, store: TelemetryStore) -> None:
        self._store = store

    async def last(self, account_id: AccountId, mower_ids: Sequence[MowerId]) -> Sequence[LiveState]:
        found = await self._store.latest_of(account_id, mower_ids)
        return [LiveState(mower_id=one.mower_id, account_id=one.account_id, state=one.state) for one in found]
