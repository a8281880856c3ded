"""Writes states to the store in groups at most COMMIT_WINDOW_S apart, and never stops for a full disk or a wrong
clock: rows then wait in memory, bounded, and the status says so.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import msgspec
import structlog

from core.domain import limits
from core.domain.errors import StorageError
from core.domain.ids import AccountId, BootId, MowerId
from core.domain.mower import MowerState
from core.storage.telemetry_store import TelemetryStore, Written
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.recorder.memory import Held, Waiting, dated

_log = structlog.get_logger(__name__)

GROUP_S = 0.8 * limits.COMMIT_WINDOW_S
"""States are collected this long from the first one; the rest of the window is for the commit itself."""
GROUP_ROWS = 500
"""States of one commit at most."""
RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Pauses after failed commits."""
CLOCK_POLL_S = 2.0
"""How often the clock is asked while rows wait for it."""


class RecorderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether records are being kept, and if not why and how many rows wait in memory."""

    is_recording: bool
    waiting_rows: int
    dropped_rows: int
    """States thinned out of memory because they could not be written in time."""
    refused_rows: dict[str, int] = {}
    """States that the store did not take, by reason."""
    implausible_parts: dict[str, int] = {}
    """Parts that were left out of states because they cannot be (`battery_percent`, `position:jump`, ...)."""
    failure: str | None = None
    is_clock_trusted: bool = True
    last_commit_at: datetime | None = None


class Recorder:
    """`put` never blocks and never fails; `run` does the writing."""

    def __init__(
        self,
        *,
        store: TelemetryStore,
        clock: ClockKeeper,
        boot_id: BootId,
        account_id: Callable[[], AccountId],
        on_commit: Callable[[], None] = lambda: None,
        on_written: Callable[[Written], None] = lambda _written: None,
        capacity: int = limits.UNDATED_ROWS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._boot_id = boot_id
        self._account_id = account_id
        self._on_commit = on_commit
        self._on_written = on_written
        self._waiting = Waiting(capacity=capacity)
        self._arrived = asyncio.Event()
        self._failure: str | None = None
        self._failures = 0
        self._refused: Counter[str] = Counter()
        self._implausible: Counter[str] = Counter()
        self._last_commit_at: datetime | None = None

    def put(self, mower_id: MowerId, state: MowerState) -> None:
        """Takes a state to be written soon."""
        self._waiting.put(
            Held(
                mower_id=mower_id,
                state=state,
                monotonic_s=self._clock.monotonic(),
                boot_id=self._boot_id,
                wall=self._clock.now(),
                is_dated=self._clock.is_trusted,
            )
        )
        self._arrived.set()

    def status(self) -> RecorderStatus:
        """For status pages, diagnostics and the box's own problems list."""
        is_trusted = self._clock.is_trusted
        return RecorderStatus(
            is_recording=self._failure is None and is_trusted,
            waiting_rows=len(self._waiting),
            dropped_rows=self._waiting.dropped,
            refused_rows=dict(self._refused),
            implausible_parts=dict(self._implausible),
            failure=self._failure,
            is_clock_trusted=is_trusted,
            last_commit_at=self._last_commit_at,
        )

    async def run(self) -> None:
        """Writes until cancelled, then once more what still waits."""
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                await asyncio.sleep(self._pause_s())
                await self.flush()
                if len(self._waiting):
                    self._arrived.set()
        finally:
            await self._flush_last()

    async def flush(self) -> bool:
        """Writes all that may be written now; whether nothing is left."""
        while len(self._waiting) and self._clock.is_trusted:
            group = self._waiting.take(GROUP_ROWS)
            is_written = False
            try:
                await self._commit(group)
                is_written = True
            except StorageError as err:
                self._note_failure(err.detail or err.code)
                return False
            finally:
                if not is_written:
                    self._waiting.put_back(group)
            self._note_success()
        return not len(self._waiting)

    def _pause_s(self) -> float:
        if self._failures:
            return RETRY_S[min(self._failures, len(RETRY_S)) - 1]
        return GROUP_S if self._clock.is_trusted else CLOCK_POLL_S

    async def _commit(self, group: list[Held]) -> None:
        account_id = self._account_id()
        wall, monotonic_s = self._clock.wall(), self._clock.monotonic()
        rows = [(held.mower_id, account_id, dated(held, wall=wall, monotonic_s=monotonic_s)) for held in group]
        try:
            await self._record(rows)
        except StorageError:
            raise
        except Exception:  # noqa: BLE001  (a row that the store chokes on must not hold up the others)
            _log.exception("a group of states could not be written; trying one by one", rows=len(rows))
            await self._commit_singly(rows)

    async def _commit_singly(self, rows: list[tuple[MowerId, AccountId, MowerState]]) -> None:
        for row in rows:
            try:
                await self._record([row])
            except StorageError:
                raise
            except Exception:  # noqa: BLE001  (the poison row itself: counted and logged, never tried again)
                self._refused["unwritable"] += 1
                _log.exception("a state cannot be written and is left out", mower_id=row[0])

    async def _record(self, rows: list[tuple[MowerId, AccountId, MowerState]]) -> None:
        for written in await self._store.record_states(rows, received_at=self._clock.now()):
            self._on_written(written)
            if written.skipped is not None:
                self._refused[written.skipped] += 1
            self._implausible.update(written.dropped)

    def _note_failure(self, failure: str) -> None:
        self._failures += 1
        if self._failure is None:
            _log.error("recording has stopped; states wait in memory", reason=failure)
        self._failure = failure

    def _note_success(self) -> None:
        if self._failure is not None:
            _log.info("recording goes on", waiting=len(self._waiting), dropped=self._waiting.dropped)
        self._failure, self._failures = None, 0
        self._last_commit_at = self._clock.now()
        self._on_commit()

    async def _flush_last(self) -> None:
        try:
            async with asyncio.timeout(limits.CLOSE_DEADLINE_S):
                await self.flush()
        except TimeoutError:
            _log.error("states were lost at the end: the store did not answer", rows=len(self._waiting))
        if len(self._waiting):
            _log.error("states in memory end with the process", rows=len(self._waiting), reason=self._failure)
