"""Alerts for boxes that are away: only the relay can tell, so they are the relay's own and never go down to a box.

Each mower of the box has one, because people watch mowers; it goes with the mower and with its account. What people
closed is closed here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.clock import Clock
from core.domain.ids import AccountId, EdgeId, MowerId, make_id
from core.storage.alert_log import AlertLog, LoggedAlert
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.telemetry.alert import ALERT_ANSWER, AlertKind, Evidence, Severity, key_of_answer, row_of
from core.telemetry.alert_tracks import AlertTracks, Finding, Reading
from core.telemetry.rows import RecordRow

EVERY_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    edge_id: EdgeId | None
    tracks: AlertTracks


class BoxOffline:
    """`check` is called again and again."""

    def __init__(
        self, *, store: SqliteTelemetryStore, clock: Clock, is_online: Callable[[EdgeId], bool | None]
    ) -> None:
        """`is_online`: None while nobody has said, which is neither."""
        self._store = store
        self._log = AlertLog(store.records)
        self._clock = clock
        self._is_online = is_online
        self._watched: dict[MowerId, _Watched] = {}
        self._closings: set[tuple[MowerId, str]] = set()
        store.records.subscribe(self._on_records)

    async def check(self) -> None:
        """Looks at every box once. StorageError; what was not stored is found again at the next call."""
        entries = {entry.mower_id: entry for entry in await self._store.directory()}
        for mower_id in [known for known in self._watched if known not in entries]:
            del self._watched[mower_id]
        for entry in entries.values():
            await self._look_at(entry)

    async def _look_at(self, entry: DirectoryEntry) -> None:
        watched, edge_id = self._watched.get(entry.mower_id), entry.edge_id
        if watched is None or watched.edge_id != edge_id:
            logged = await self._own(entry)
            self._closings |= {(entry.mower_id, one.alert.alert_id) for one in logged if one.closed_by is not None}
            watched = _Watched(edge_id=edge_id, tracks=AlertTracks(make_id, [one.alert for one in logged]))
            self._watched[entry.mower_id] = watched
        now = self._clock.now()
        closings = {closing for closing in self._closings if closing[0] == entry.mower_id} if self._closings else set()
        self._closings -= closings
        changed = [watched.tracks.close(alert_id, now) for _, alert_id in closings]
        reading = Reading(kind=AlertKind.BOX_OFFLINE, causes=self._causes(edge_id, now))
        changed += watched.tracks.take(reading, now=now, monotonic_s=self._clock.monotonic())
        rows = [row_of(entry.mower_id, alert) for alert in changed if alert is not None]
        if not rows:
            return
        try:
            await self._store.records.put(entry.account_id, rows, is_durable=True)
        except BaseException:
            del self._watched[entry.mower_id]  # what the store has counts: looked at anew, nothing is doubled or lost
            raise

    def _causes(self, edge_id: EdgeId | None, now: datetime) -> dict[str, Finding] | None:
        """A mower that has no box (any more) misses none."""
        is_online = True if edge_id is None else self._is_online(edge_id)
        if edge_id is None or is_online is None:
            return {} if is_online else None
        return {} if is_online else {edge_id: Finding(severity=Severity.WARNING, evidence=Evidence(at=now))}

    def _on_records(self, _account_id: AccountId, rows: Sequence[RecordRow]) -> None:
        for row in rows:
            watched = self._watched.get(row.mower_id)
            body = ALERT_ANSWER.read(row) if row.kind == ALERT_ANSWER.name else None
            if watched is None or body is None or row.key != key_of_answer(body.alert_id, "close"):
                continue
            if any(alert.alert_id == body.alert_id for alert in watched.tracks.open_alerts()):
                self._closings.add((row.mower_id, body.alert_id))

    async def _own(self, entry: DirectoryEntry) -> list[LoggedAlert]:
        logged = await self._log.of_mower(entry.account_id, entry.mower_id)
        return [one for one in logged if one.alert.kind is AlertKind.BOX_OFFLINE and one.alert.closed_at is None]
