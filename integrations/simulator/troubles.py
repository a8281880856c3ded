"""What goes wrong on a lawn, how often, and who can put it right. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

from integrations.simulator.wire import Fault

CONFIRMABLE = frozenset({Fault.STUCK})
"""Faults that may be confirmed from afar; all others wait for somebody beside the machine."""
CARRIED_HOME = frozenset({Fault.BATTERY_EMPTY, Fault.NO_WAY})
"""Faults after which that somebody carries the machine to its dock."""
_KINDS = ((Fault.STUCK, 0.8), (Fault.LIFTED, 0.12), (Fault.BLADES_BLOCKED, 0.08))
_HELP_S = (300.0, 1_200.0)


@dataclass(slots=True)
class Troubles:
    """Draws faults while the machine mows; never one unless `per_hour` is above 0."""

    dice: random.Random
    per_hour: float

    def draw(self, seconds: float) -> Fault | None:
        """A fault that happened within these seconds of mowing."""
        if self.per_hour <= 0.0 or self.dice.random() >= self.per_hour * seconds / 3_600.0:
            return None
        return self.dice.choices([kind for kind, _ in _KINDS], [weight for _, weight in _KINDS])[0]

    def help_after_s(self, fault: Fault) -> float | None:
        """How long until somebody comes; None for a fault that waits to be confirmed."""
        return None if fault in CONFIRMABLE else self.dice.uniform(*_HELP_S)
