"""The dead man's switch of a drive session, pure: frames and monotonic time in, what the mower has to be told out.

    standing --newer frame with speed--> moving --its ttl passes, or a frame that is not in order--> standing
    (either) --lifetime or idle time passes--> over

A frame holds for its time to live, counted from when its sender sent it, and not a moment longer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.domain import limits
from core.domain.drive import DriveEnd, DriveFrame, find_frame_mistakes


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Tell the mower to drive like this until `until` and no longer (a driver who holds still: both speeds 0)."""

    linear: float
    angular: float
    until: float

    @property
    def is_standing(self) -> bool:
        return self.linear == 0.0 and self.angular == 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Tell the mower to stand; the session goes on."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """Tell the mower to stand; the session has ended."""

    end: DriveEnd


Verdict = Move | Halt | Over

OUT_OF_ORDER = "the frame is not newer than the last one"
TOO_OLD = "the frame was too long on its way"
SILENCE = "no newer frame came in time"


class DeadMan:
    """One session from `now` on. Times are monotonic seconds of the box; they never go back."""

    def __init__(
        self,
        *,
        now: float,
        motor_timeout_s: float = math.inf,
        lifetime_s: float = limits.DRIVE_SESSION.total_seconds(),
        idle_s: float = limits.DRIVE_IDLE_S,
    ) -> None:
        """`motor_timeout_s`: the mower itself stops after this long, so no frame is taken to hold longer."""
        self._ends_at = now + lifetime_s
        self._idle_s = idle_s
        self._idle_at = now + idle_s
        self._motor_timeout_s = motor_timeout_s
        self._moves_until: float | None = None
        self._sequence = -1
        self._fastest_s = math.inf
        """The smallest difference between the box's clock and the sender's that a frame has shown."""
        self._over: Over | None = None

    @property
    def is_moving(self) -> bool:
        """Whether the last word to the mower was to drive."""
        return self._moves_until is not None

    def take(self, frame: DriveFrame, now: float) -> Verdict:
        """A frame that belongs to the session. One that makes no sense, is not newer than the last or was too long on
        its way is not obeyed and makes the mower stand."""
        late = self.tick(now)
        if isinstance(late, Over):
            return late
        mistakes = find_frame_mistakes(frame)
        if mistakes:
            return self._halt("; ".join(f"{m.field}: {m.reason}" for m in mistakes))
        if frame.sequence <= self._sequence:
            return self._halt(OUT_OF_ORDER)
        self._sequence = frame.sequence
        self._idle_at = now + self._idle_s
        left_s = min(frame.ttl_ms / 1000.0 - self._delay_s(frame, now), self._motor_timeout_s)
        if left_s <= 0.0:
            return self._halt(TOO_OLD)
        move = Move(linear=frame.linear, angular=frame.angular, until=now + left_s)
        self._moves_until = None if move.is_standing else move.until
        return move

    def tick(self, now: float) -> Halt | Over | None:
        """What is due at `now`, if anything."""
        if self._over is None and now >= self._ends_at:
            self._over = Over(end=DriveEnd.TIME)
        if self._over is None and now >= self._idle_at:
            self._over = Over(end=DriveEnd.IDLE)
        if self._over is not None:
            self._moves_until = None
            return self._over
        if self._moves_until is not None and now >= self._moves_until:
            return self._halt(SILENCE)
        return None

    @property
    def due_at(self) -> float:
        """When `tick` has something to say next."""
        over_at = min(self._ends_at, self._idle_at)
        return over_at if self._moves_until is None else min(over_at, self._moves_until)

    def _halt(self, reason: str) -> Halt:
        self._moves_until = None
        return Halt(reason=reason)

    def _delay_s(self, frame: DriveFrame, now: float) -> float:
        """How much longer the frame was on its way than the fastest one. Needs no clock in common: what a stalled
        line lets go of all at once is seen to be old."""
        if frame.sent_ms is None:
            return 0.0
        apart_s = now - frame.sent_ms / 1000.0
        self._fastest_s = min(self._fastest_s, apart_s)
        return apart_s - self._fastest_s
