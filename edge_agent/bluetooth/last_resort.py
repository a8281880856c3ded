"""When an adapter that is stuck is switched off and on: the very last resort. Pure: the caller brings the time.

It cuts everything that hangs on the adapter, so it takes: several attempts in a row that found the adapter busy with
attempts of old, over minutes and with nothing good between; no connection on it, ours or anybody's; an hour since the
last time.
"""

from __future__ import annotations

STUCK_TIMES = 3
STUCK_S = 300.0
EVERY_S = 3600.0


class LastResort:
    """Of one adapter. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._times = 0
        self._since = 0.0
        self._used_at: float | None = None

    def note_stuck(self, now: float) -> None:
        """An attempt found the adapter busy with an earlier one."""
        if not self._times:
            self._since = now
        self._times += 1

    def note_good(self) -> None:
        """A connection has come up: it is not stuck."""
        self._times = 0

    def is_due(self, now: float, *, connections: int | None) -> bool:
        """`connections`: all that the adapter has; None is unknown, and then it is left alone."""
        return (
            connections == 0
            and self._times >= STUCK_TIMES
            and now - self._since >= STUCK_S
            and (self._used_at is None or now - self._used_at >= EVERY_S)
        )

    def note_used(self, now: float) -> None:
        """It is being done; whatever comes of it, not again for an hour."""
        self._used_at = now
        self._times = 0
