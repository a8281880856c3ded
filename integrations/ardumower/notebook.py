"""What the box remembers of one mower between two statuses and between two links. The mower keeps none of it."""

from __future__ import annotations

from datetime import datetime

from core.domain.events import MowerEvent
from core.domain.mower import MowerState, Totals
from integrations.ardumower.mapping import events_between
from integrations.ardumower.wire import Op, Statistics, Status


class Notebook:
    """Lives as long as the entry is loaded."""

    def __init__(self) -> None:
        self.error_since: datetime | None = None
        self.totals: Totals | None = None
        self.obstacles: str | None = None
        self._op: Op | None = None
        self._is_stopped = False
        self._error_code: int | None = None
        self._seen = Statistics(charging_s=None, mowing_s=None, distance_m=None, obstacles=None)
        self._state: MowerState | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether this box has interrupted a job that may go on."""
        return self._is_stopped

    def note_stop(self) -> None:
        """A stop is about to be sent; whether it was heard, the next status shows."""
        if self._op in (Op.MOW, Op.DOCK):
            self._is_stopped = True

    def note_status(self, status: Status, at: datetime) -> None:
        """A status has come."""
        if status.op in (Op.MOW, Op.DOCK, Op.CHARGE, Op.ERROR):
            self._is_stopped = False  # it goes on, or there is nothing left to resume
        self._op = status.op
        code = status.sensor.value if status.op is Op.ERROR else None
        if code != self._error_code:
            self._error_code = code
            self.error_since = None if code is None else at

    def note_statistics(self, statistics: Statistics) -> None:
        """Sums have come. They fall when somebody clears them or the mower starts anew; totals never do."""
        known = self.totals or Totals()
        seen, self._seen = self._seen, statistics
        self.totals = Totals(
            charging_s=_grown(known.charging_s, seen.charging_s, statistics.charging_s),
            mowing_s=_grown(known.mowing_s, seen.mowing_s, statistics.mowing_s),
            distance_m=_grown(known.distance_m, seen.distance_m, statistics.distance_m),
            collisions=_grown(known.collisions, seen.obstacles, statistics.obstacles),
        )

    def note_state(self, state: MowerState) -> list[MowerEvent]:
        """A state is about to be reported; what has happened since the one before, also over a gap between links."""
        before, self._state = self._state, state
        return [] if before is None else events_between(before, state)


def _grown(total: int | None, before: int | None, now: int | None) -> int | None:
    if now is None:
        return total
    if total is None:
        return now
    return total + (now if before is None or now < before else now - before)
