"""Driving by hand, without I/O: which frame holds, until when, and whether the mower has to be told to stand still.

Frames are the newest only; each is sent once. A frame holds for its time to live, at most as long as the firmware's
own motor timeout; then the mower is told to stand. Times are monotonic seconds.
"""

from __future__ import annotations

from core.domain.drive import DriveFrame
from integrations.ardumower.models import MOTOR_TIMEOUT_S
from integrations.ardumower.orders import STAND_STILL, drive_body

REST_S = 60.0
"""Without a frame for this long nobody drives any more."""
PACE_S = 0.1
"""Drive requests are at least this far apart; a stop never waits."""


class Manual:
    """The mode of one link in which it takes frames."""

    def __init__(self) -> None:
        self.is_on = False
        self._sequence: int | None = None
        self._frame: DriveFrame | None = None
        self._holds_until = 0.0
        self._rests_at = 0.0
        self._sent_at = float("-inf")
        self._may_move = False
        self._must_stand = False

    def begin(self, now: float) -> None:
        """The mower stands and listens; sequence numbers begin anew."""
        self.is_on = True
        self._sequence = self._frame = None
        self._rests_at = now + REST_S

    def end(self) -> None:
        """No more frames. Whether the mower still has to be told to stand shows in `take`."""
        self.is_on = False
        self._frame = None
        self._must_stand = self._may_move

    def offer(self, frame: DriveFrame, now: float) -> bool:
        """Takes a frame; False when it is not obeyed: not driving, or older than the last one."""
        if not self.is_on or (self._sequence is not None and frame.sequence <= self._sequence):
            return False
        self._sequence = frame.sequence
        self._frame = frame
        self._holds_until = now + min(max(frame.ttl_ms, 0) / 1000.0, MOTOR_TIMEOUT_S)
        self._rests_at = now + REST_S
        return True

    def due_at(self) -> float:
        """When `take` has to be asked next."""
        if self._must_stand:
            return float("-inf")
        if self._frame is not None:
            return min(self._sent_at + PACE_S, self._holds_until)
        if self._may_move:
            return self._holds_until
        return self._rests_at if self.is_on else float("inf")

    def take(self, now: float) -> str | None:
        """The request that is due now, each at most once."""
        if self.is_on and now >= self._rests_at:
            self.end()
        if self.is_stop_due(now):
            self._frame = None
            self._must_stand = self._may_move = False
            return STAND_STILL
        frame = self._frame
        if frame is None or now < self._sent_at + PACE_S:
            return None
        self._frame = None
        if now >= self._holds_until:
            return None
        self._sent_at = now
        body = drive_body(frame.linear, frame.angular)
        self._may_move = True
        return body

    def is_stop_due(self, now: float) -> bool:
        """Whether the mower has to be told to stand, before anything else is asked."""
        return self._must_stand or (self._may_move and now >= self._holds_until)

    @property
    def holds_until(self) -> float:
        """Until when the frame that was sent last is meant."""
        return self._holds_until

    @property
    def may_move(self) -> bool:
        """Whether a drive request was sent that no stop has followed."""
        return self._may_move or self._must_stand
