"""The live lane: snapshots go to the people who look at once, and to the store newest only, once a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from cloud_relay.ingest.metrics import IngestMetrics
from cloud_relay.ingest.owners import Owners
from core.domain.clock import Clock
from core.domain.errors import MalformedMessageError, StorageError
from core.domain.ids import AccountId, EdgeId, MowerId
from core.domain.mower import MowerState
from core.storage.telemetry_store import TelemetryStore
from core.sync.messages import StateMessage, decode
from core.telemetry.admission import admit
from core.web.ports import LiveState

FLUSH_S = 1.0
GOODBYE_S = 2.0

_log = structlog.get_logger(__name__)


class LiveLane:
    """Takes `up/state`. History and track are not touched here: they come by the journal, row for row."""

    def __init__(
        self,
        *,
        store: TelemetryStore,
        owners: Owners,
        account_of: Callable[[EdgeId], AccountId | None],
        publish_state: Callable[[LiveState], None],
        clock: Clock,
        metrics: IngestMetrics,
        flush_s: float = FLUSH_S,
    ) -> None:
        """`publish_state` tells the people who look; it only touches memory."""
        self._store = store
        self._owners = owners
        self._account_of = account_of
        self._publish_state = publish_state
        self._clock = clock
        self._metrics = metrics
        self._flush_s = flush_s
        self._pending: dict[MowerId, tuple[AccountId, MowerState]] = {}
        self._arrived = asyncio.Event()

    def take(self, edge_id: EdgeId, mower_id: str | None, payload: bytes) -> None:
        """One snapshot. MalformedMessageError when it is none, or not of the mower that its topic names."""
        message = decode(payload, StateMessage)
        if message.mower_id != mower_id:
            raise MalformedMessageError("the topic names another mower")
        account_id = self._account_of(edge_id)
        if account_id is None:
            return self._skip("unknown-edge")
        owns = self._owners.owns(edge_id, account_id, message.mower_id)
        if not owns:
            return self._skip("unknown-mower" if owns is None else "foreign-mower")
        admitted = admit(message.state, now=self._clock.now())
        for field in admitted.dropped:
            self._metrics.implausible.labels(field.partition(":")[0]).inc()
        if admitted.state is None:
            return self._skip(f"implausible:{admitted.refused}")
        waiting = self._pending.get(message.mower_id)
        if waiting is not None and waiting[1].observed_at > admitted.state.observed_at:
            return self._skip("older")
        self._pending[message.mower_id] = (account_id, admitted.state)
        self._arrived.set()
        self._metrics.states.inc()
        self._publish_state(LiveState(mower_id=message.mower_id, account_id=account_id, state=admitted.state))
        return None

    async def run(self) -> None:
        """Writes what came, at most once per `flush_s`, until cancelled; then once more."""
        is_failing = False
        try:
            while True:
                await self._arrived.wait()
                await asyncio.sleep(self._flush_s)
                is_failing = await self._try_flush(is_failing=is_failing)
        finally:
            try:
                async with asyncio.timeout(GOODBYE_S):
                    await self._try_flush(is_failing=is_failing)
            except TimeoutError:
                _log.warning("last live states not stored", count=len(self._pending))

    async def flush(self) -> None:
        """Writes the newest state of each mower. StorageError; they are then kept for the next time."""
        taken, self._pending = self._pending, {}
        self._arrived.clear()
        if not taken:
            return
        states = [(mower_id, account_id, state) for mower_id, (account_id, state) in taken.items()]
        try:
            await self._store.record_states(states, received_at=self._clock.now(), latest_only=True)
        except BaseException:
            self._pending = {**taken, **self._pending}
            self._arrived.set()
            raise

    async def _try_flush(self, *, is_failing: bool) -> bool:
        try:
            await self.flush()
        except StorageError as err:
            if not is_failing:
                _log.warning("live states cannot be stored, people still see them", error=err.detail)
            return True
        if is_failing:
            _log.info("live states are stored again")
        return False

    def _skip(self, reason: str) -> None:
        self._metrics.skipped.labels(reason).inc()
