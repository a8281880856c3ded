"""The dead man's switch of the remote mode: a frame holds for its time to live and not a moment longer. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Joystick:
    """`linear` and `angular` from -1 to 1; `until_s` in the machine's seconds."""

    linear: float = 0.0
    angular: float = 0.0
    until_s: float = 0.0
    _sequence: int = -1

    def move(self, sequence: int, linear: float, angular: float, now_s: float, ttl_s: float) -> bool:
        """Takes a frame; False for one that is older than the last or not made of numbers."""
        if sequence <= self._sequence or not (math.isfinite(linear) and math.isfinite(angular) and ttl_s >= 0.0):
            return False
        self._sequence = sequence
        self.linear, self.angular = max(-1.0, min(1.0, linear)), max(-1.0, min(1.0, angular))
        self.until_s = now_s + ttl_s
        return True

    def lasts_s(self, start_s: float, seconds: float) -> float:
        """How much of the `seconds` from `start_s` on is to be driven."""
        if self.linear == 0.0 and self.angular == 0.0:
            return 0.0
        return max(0.0, min(seconds, self.until_s - start_s))
