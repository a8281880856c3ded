"""Looks at every mower once a second and keeps its alerts. It only looks: a defect in a rule disturbs nothing else,
and nothing here ever sends a command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from core.domain.clock import Clock
from core.domain.errors import InvalidInputError, StorageError
from core.domain.events import AlertClosed, AlertOpened, MowerEvent
from core.domain.ids import AccountId, MowerId, make_id
from core.domain.mower import MowerState
from core.storage.alert_log import AlertLog
from core.storage.record_book import RecordBook
from core.telemetry.admission import admit
from core.telemetry.alert import ALERT_ANSWER, Alert, AlertKind, key_of_answer, row_of
from core.telemetry.alert_rules import Look, Rule, make_rules
from core.telemetry.alert_tracks import AlertTracks
from core.telemetry.rows import RecordRow

TICK_S = 1.0
PENDING_MAX = 1_000
"""Versions waiting for a store that fails; beyond it the oldest is given up."""

_log = structlog.get_logger(__name__)

Around = Callable[[MowerId, MowerState, datetime, float], Look]
"""A look at a mower (state, wall, monotonic seconds) with what is around it."""


@dataclass(slots=True, kw_only=True)
class _Watched:
    rules: tuple[Rule, ...]
    tracks: AlertTracks


class AlertWatch:
    """`put` is a sink of the intake: newest state wins. Alerts are dated, so nothing is looked at while the clock
    cannot be believed."""

    def __init__(
        self,
        *,
        book: RecordBook,
        clock: Clock,
        account_id: Callable[[], AccountId],
        look: Around,
        is_known: Callable[[MowerId], bool],
        is_clock_right: Callable[[], bool],
        on_event: Callable[[MowerId, MowerEvent], None],
        make_rules: Callable[[], tuple[Rule, ...]] = make_rules,
    ) -> None:
        self._book = book
        self._clock = clock
        self._account_id = account_id
        self._look = look
        self._is_known = is_known
        self._is_clock_right = is_clock_right
        self._on_event = on_event
        self._make_rules = make_rules
        self._states: dict[MowerId, MowerState] = {}
        self._watched: dict[MowerId, _Watched] = {}
        self._pending: dict[tuple[MowerId, str], Alert] = {}
        self._is_failing = False
        self.defects: dict[str, int] = {}
        """How often each rule failed."""
        book.subscribe(self._on_records)
        self._closings: set[tuple[MowerId, str]] = set()

    def put(self, mower_id: MowerId, state: MowerState) -> None:
        """The newest state of a mower."""
        self._states[mower_id] = state

    def mowers_with_theft(self) -> frozenset[MowerId]:
        """Those whose tracks are evidence now."""
        return frozenset(
            mower_id
            for mower_id, watched in self._watched.items()
            if any(alert.kind is AlertKind.THEFT for alert in watched.tracks.open_alerts())
        )

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.tick()
            except Exception:  # noqa: BLE001  (fire door: alerts must not end the box)
                self._count_defect("watch")

    async def tick(self) -> None:
        """One look at every mower, and what it says is stored."""
        if not self._is_clock_right():
            return
        for mower_id in [known for known in self._states if not self._is_known(known)]:
            self._states.pop(mower_id, None)
            self._watched.pop(mower_id, None)
        try:
            for mower_id, state in list(self._states.items()):
                watched = self._watched.get(mower_id) or await self._begin(mower_id)
                self._look_at(mower_id, watched, state)
            await self._write()
        except StorageError as err:
            if not self._is_failing:
                _log.warning("alerts cannot be stored and wait", code=err.code, detail=err.detail)
            self._is_failing = True
        else:
            self._is_failing = False

    async def _begin(self, mower_id: MowerId) -> _Watched:
        """With what was open when the process ended; what a person closed meanwhile is closed."""
        logged = await AlertLog(self._book).of_mower(self._account_id(), mower_id)
        own = [one for one in logged if one.alert.closed_at is None and one.alert.kind is not AlertKind.BOX_OFFLINE]
        self._closings |= {(mower_id, one.alert.alert_id) for one in own if one.closed_by is not None}
        watched = _Watched(rules=self._make_rules(), tracks=AlertTracks(make_id, [one.alert for one in own]))
        self._watched[mower_id] = watched
        return watched

    def _look_at(self, mower_id: MowerId, watched: _Watched, state: MowerState) -> None:
        now, monotonic_s = self._clock.now(), self._clock.monotonic()
        for closing in [one for one in self._closings if one[0] == mower_id]:
            self._closings.discard(closing)
            ended = watched.tracks.close(closing[1], now)
            if ended is not None:
                self._note(mower_id, ended)
        believed = admit(state, now=now).state
        if believed is None:
            return
        look = self._look(mower_id, believed, now, monotonic_s)
        for rule in watched.rules:
            try:
                readings = rule(look)
            except Exception:  # noqa: BLE001  (fire door: one rule's defect must not silence the others)
                self._count_defect(getattr(rule, "__name__", type(rule).__name__))
                continue
            for reading in readings:
                for alert in watched.tracks.take(reading, now=now, monotonic_s=monotonic_s):
                    self._note(mower_id, alert)

    def _note(self, mower_id: MowerId, alert: Alert) -> None:
        """To be stored; beginning and end are also told at once, ahead of any backlog."""
        key = (mower_id, alert.alert_id)
        self._pending.pop(key, None)
        self._pending[key] = alert
        while len(self._pending) > PENDING_MAX:
            lost = next(iter(self._pending))
            del self._pending[lost]
            _log.error("an alert was given up, the store has failed for too long", mower_id=lost[0], alert_id=lost[1])
        what, severity = alert.kind.value, alert.severity.value
        if alert.closed_at is not None:
            self._on_event(mower_id, AlertClosed(at=alert.closed_at, alert_id=alert.alert_id, alert=what))
        elif len(alert.evidence) == 1:
            opened = AlertOpened(at=alert.opened_at, alert_id=alert.alert_id, alert=what, severity=severity)
            self._on_event(mower_id, opened)

    async def _write(self) -> None:
        for (mower_id, alert_id), alert in list(self._pending.items()):
            try:
                await self._book.put(self._account_id(), [row_of(mower_id, alert)], is_durable=True)
            except InvalidInputError as err:
                _log.error("an alert cannot be a record", mower_id=mower_id, alert_id=alert_id, detail=err.detail)
            if self._pending.get((mower_id, alert_id)) is alert:
                del self._pending[mower_id, alert_id]

    def _on_records(self, _account_id: AccountId, rows: Sequence[RecordRow]) -> None:
        for row in rows:
            body = ALERT_ANSWER.read(row) if row.kind == ALERT_ANSWER.name else None
            if (
                len(self._closings) < PENDING_MAX
                and body is not None
                and row.key == key_of_answer(body.alert_id, "close")
            ):
                self._closings.add((row.mower_id, body.alert_id))

    def _count_defect(self, where: str) -> None:
        self.defects[where] = self.defects.get(where, 0) + 1
        if self.defects[where] == 1:
            _log.exception("a rule of alerts failed, the others go on", rule=where)
