"""The box's time: a Clock that never runs backwards by a little, knows whether it can be believed, and knows
the relay's clock.

Three questions are kept apart. `now()` dates rows: it follows the wall clock, but where the wall clock is set
back by up to FUTURE_TOLERANCE it slows down instead of going back, so that rows keep their order. `is_trusted`
says whether rows may be dated at all. `relay_time()` is the relay's clock, anchored to the monotonic clock so
that setting the wall clock does not move it; the expiry of the relay's commands is judged by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import structlog

from core.domain import limits
from core.domain.clock import EPOCH, Clock
from edge_agent.clock.kernel import ClockQuality, ReadQuality

_log = structlog.get_logger(__name__)

JUMP_S = 0.5
"""The wall clock is taken as set when it parts from the monotonic clock by more than this between two looks."""
CATCH_UP_RATE = 0.5
"""How fast `now()` runs against the wall clock while it is ahead of it."""
QUALITY_EVERY_S = 5.0
"""The kernel is asked at most this often."""
CLOSE_TO_RELAY_S = 5.0
"""A wall clock this close to the relay's is believed, whatever the kernel says."""
ROUND_TRIP_MAX_S = 10.0
"""An answer that took longer says too little about the offset."""

Trust = Literal["kernel", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOffset:
    """The relay's clock against ours: `skew_s` = relay minus box at the time of measuring."""

    skew_s: float
    uncertainty_s: float
    measured_at: datetime


def _seconds(at: datetime) -> float:
    return (at - EPOCH).total_seconds()


class ClockKeeper:
    """A Clock (`now`, `monotonic`) over the machine's, with its doubts. Pure: it only looks when asked.

    `trust`: "kernel" believes the wall clock once the kernel says that it is synchronised (or cannot be asked),
    "always" believes it at once (a box with a clock battery and no network).
    """

    def __init__(
        self,
        clock: Clock,
        *,
        read_quality: ReadQuality,
        trust: Trust = "kernel",
        on_jump: Callable[[float], None] | None = None,
    ) -> None:
        self._clock = clock
        self._read_quality = read_quality
        self._trust = trust
        self._on_jump = on_jump
        self._given = _seconds(clock.now())
        """The last time that was given out (s since 1970)."""
        self._looked_at = clock.monotonic()
        self._wall = self._given
        self._ahead_s = 0.0
        """How far `now()` is ahead of the wall clock after that was set back."""
        self._quality = ClockQuality.UNKNOWN
        self._quality_at: float | None = None
        self._relay_minus_monotonic: float | None = None
        self._relay: RelayOffset | None = None
        self._is_relay_doubtful = False
        self.jumps = 0

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def now(self) -> datetime:
        """Wall time for dating rows; later than or equal to every earlier answer, except after the wall clock
        was set back by more than FUTURE_TOLERANCE (rows from that far ahead would be of no use to anybody)."""
        self._look()
        return EPOCH + timedelta(microseconds=round(self._given * 1e6))

    def wall(self) -> datetime:
        """The machine's wall clock as it is."""
        return self._clock.now()

    def _look(self) -> None:
        wall, monotonic = _seconds(self._clock.now()), self._clock.monotonic()
        passed = max(0.0, monotonic - self._looked_at)
        jump = wall - (self._wall + passed)
        self._wall, self._looked_at = wall, monotonic
        ahead = max(0.0, self._ahead_s - jump - passed * (1.0 - CATCH_UP_RATE))
        is_too_far = ahead > limits.FUTURE_TOLERANCE.total_seconds()
        self._ahead_s = 0.0 if is_too_far else ahead
        given = wall + self._ahead_s
        self._given = given if is_too_far else max(self._given, given)
        if abs(jump) > JUMP_S:
            self.jumps += 1
            self._is_relay_doubtful = True
            _log.warning("the wall clock was set", jump_s=round(jump, 3), ahead_s=round(self._ahead_s, 3))
            if self._on_jump is not None:
                self._on_jump(jump)

    @property
    def quality(self) -> ClockQuality:
        """What the kernel says (asked at most every QUALITY_EVERY_S)."""
        monotonic = self._clock.monotonic()
        if self._quality_at is None or monotonic - self._quality_at >= QUALITY_EVERY_S:
            before, self._quality = self._quality, self._read_quality()
            self._quality_at = monotonic
            if before is not self._quality:
                _log.info("clock quality", quality=self._quality.value)
        return self._quality

    @property
    def is_trusted(self) -> bool:
        """Whether rows may be dated by `now()`."""
        if self._trust == "always" or self.quality is not ClockQuality.UNSYNCHRONISED:
            return True
        skew = self.skew_s()
        return skew is not None and abs(skew) <= CLOSE_TO_RELAY_S

    def measure(self, *, sent_monotonic: float, received_monotonic: float, relay_at: datetime) -> RelayOffset | None:
        """Learns the relay's clock from one round trip: `relay_at` lies between sending and receiving.
        None when the trip took too long to say anything."""
        trip_s = received_monotonic - sent_monotonic
        if not 0.0 <= trip_s <= ROUND_TRIP_MAX_S:
            return None
        self._look()
        middle = sent_monotonic + trip_s / 2
        self._relay_minus_monotonic = _seconds(relay_at) - middle
        self._is_relay_doubtful = False
        now = _seconds(self._clock.now()) + (middle - self._clock.monotonic())
        self._relay = RelayOffset(
            skew_s=_seconds(relay_at) - now, uncertainty_s=trip_s / 2, measured_at=self._clock.now()
        )
        return self._relay

    def relay_time(self) -> datetime | None:
        """The relay's clock now; None before it was measured."""
        if self._relay_minus_monotonic is None:
            return None
        return EPOCH + timedelta(seconds=self._relay_minus_monotonic + self._clock.monotonic())

    def skew_s(self) -> float | None:
        """Relay minus wall clock now (s)."""
        relay = self.relay_time()
        return None if relay is None else (relay - self._clock.now()).total_seconds()

    @property
    def relay_offset(self) -> RelayOffset | None:
        """The last measurement."""
        return self._relay

    def time_left_s(self, expires_at: datetime, *, is_late_harmless: bool = False) -> float | None:
        """How long a command of the relay may still wait (negative: expired). None when nobody knows: neither
        the relay's clock was measured nor the own one can be believed.

        After the wall clock was set, the machine may also have slept (the monotonic clock stands still then), so
        until the next measurement the shorter of both answers counts; the longer one for what does no harm late and
        must not get lost (a stop).
        """
        self._look()
        relay = self.relay_time()
        own = (expires_at - self._clock.now()).total_seconds()
        if relay is None:
            return own if self.is_trusted else None
        by_relay = (expires_at - relay).total_seconds()
        if not self._is_relay_doubtful:
            return by_relay
        return max(by_relay, own) if is_late_harmless else min(by_relay, own)
