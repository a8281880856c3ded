"""Requests of the relay to the box itself (`down/call`), answered one at a time on `up/reply`."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import structlog

from core.domain import limits
from core.domain.errors import MowdeckError
from core.domain.ids import AccountId, MowerId, StreamId, is_safe_id
from core.domain.mower import MowerState
from core.storage.telemetry_store import TelemetryStore
from core.sync.batch import fit_batch
from core.sync.messages import Call, Reply
from core.telemetry.rows import PositionRow, SequencedRow
from edge_agent.clock.keeper import ClockKeeper

_log = structlog.get_logger(__name__)

CALLS_WAITING = 8
RECENT_ROWS = limits.BATCH_ROWS
RECENT_STREAM = StreamId("recent")
"""Name of the stream in a batch outside of the journal; its numbers mean nothing."""
_STEPS = (timedelta(hours=1), timedelta(hours=6), timedelta(hours=24))
"""How far the track of today is read back until there are enough rows."""
CALL_DEADLINE_S = 20.0


class Calls:
    """Bounded: more calls than CALLS_WAITING are answered `rate-limited` at once."""

    def __init__(
        self,
        *,
        store: TelemetryStore,
        clock: ClockKeeper,
        account_id: Callable[[], AccountId],
        states: Callable[[], dict[MowerId, MowerState]],
        put_state: Callable[[MowerId, MowerState], None],
        put_reply: Callable[[Reply], None],
        say_hello: Callable[[], None],
        diagnostics: Callable[[], dict[str, Any]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._account_id = account_id
        self._states = states
        self._put_state = put_state
        self._put_reply = put_reply
        self._say_hello = say_hello
        self._diagnostics = diagnostics
        self._waiting: deque[Call] = deque()
        self._arrived = asyncio.Event()

    def put(self, call: Call) -> None:
        """Takes a call."""
        if not is_safe_id(call.request_id):
            return  # it could not be answered
        if len(self._waiting) >= CALLS_WAITING:
            self._put_reply(Reply(request_id=call.request_id, error_code="rate-limited", error_detail="too many calls"))
            return
        self._waiting.append(call)
        self._arrived.set()

    async def run(self) -> None:
        """Answers until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                await self._answer(self._waiting.popleft())

    async def _answer(self, call: Call) -> None:
        left_s = self._clock.time_left_s(call.expires_at)
        if left_s is not None and left_s <= 0:
            return
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                reply = Reply(request_id=call.request_id, result=await self._perform(call))
        except TimeoutError:
            reply = Reply(request_id=call.request_id, error_code="unavailable", error_detail="took too long")
        except MowdeckError as err:
            reply = Reply(request_id=call.request_id, error_code=err.code, error_detail=err.detail)
        except Exception:  # noqa: BLE001  (the outermost handler of a remote request)
            _log.exception("a call failed", method=call.method)
            reply = Reply(request_id=call.request_id, error_code="internal", error_detail="see the box's log")
        self._put_reply(reply)

    async def _perform(self, call: Call) -> Any:
        match call.method:
            case "hello":
                self._say_hello()
                return {}
            case "diagnostics":
                return self._diagnostics()
            case "recent":
                return await self._recent()

    async def _recent(self) -> dict[str, Any]:
        """The newest states (also at once on the live lane) and the newest rows of today's track, as one batch in
        base64, so that an app is useful while the backlog still climbs."""
        states = self._states()
        for mower_id, state in states.items():
            self._put_state(mower_id, state)
        rows: list[PositionRow] = []
        share = max(1, RECENT_ROWS // max(1, len(states)))
        for mower_id in states:
            rows.extend(await self._track(mower_id, share))
        rows.sort(key=lambda row: row.observed_at)
        return {
            "states": [
                {"mower_id": mower_id, "state": msgspec.to_builtins(state)} for mower_id, state in states.items()
            ],
            "positions": base64.b64encode(_as_batch(rows)).decode("ascii") if rows else None,
        }

    async def _track(self, mower_id: MowerId, most: int) -> list[PositionRow]:
        """The newest `most` positions of the last day."""
        now = self._clock.now()
        newest: deque[PositionRow] = deque(maxlen=most)
        for step in _STEPS:
            newest.clear()
            await self._read_into(newest, mower_id, now - step, now)
            if len(newest) >= most:
                break
        return list(newest)

    async def _read_into(self, newest: deque[PositionRow], mower_id: MowerId, start: datetime, end: datetime) -> None:
        after = start
        while True:
            rows, page = await self._store.positions(
                self._account_id(), mower_id, after, end, limit=limits.MAX_RAW_ROWS
            )
            newest.extend(rows)
            if not page.is_truncated or page.cursor is None or page.cursor <= after:
                return
            after = page.cursor


def _as_batch(rows: list[PositionRow]) -> bytes:
    """The newest rows that fit into one batch."""
    while True:
        numbered = [SequencedRow(seq=number, row=row) for number, row in enumerate(rows, start=1)]
        data, end = fit_batch(RECENT_STREAM, 1, len(numbered), numbered)
        if end == len(numbered):
            return data
        rows = rows[len(rows) - end :]
