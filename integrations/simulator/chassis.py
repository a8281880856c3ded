"""The hardware of one machine: wheels, blades, battery, receiver, and the counters of its life. Pure.

It decides nothing; `machine.py` does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from integrations.simulator.battery import CUTTING_S, DRIVING_S, STANDING_S, Battery
from integrations.simulator.lawn import Garden
from integrations.simulator.motion import Wheels
from integrations.simulator.reception import Receiver
from integrations.simulator.shapes import heading_deg
from integrations.simulator.wire import Counters

REMOTE_MPS = 0.5
REMOTE_DPS = 90.0
_RECEIVER_EVERY_S = 1.0


@dataclass(slots=True)
class Chassis:
    """Starts in the dock, blades off. `counters` only grow, but for `blade_wear_s`."""

    garden: Garden
    wheels: Wheels
    battery: Battery
    receiver: Receiver
    blades_on: bool = False
    blade_height_mm: float = 45.0
    pace_mps: float = 0.4
    cutting_s: float = 0.0
    running_s: float = 0.0
    charging_s: float = 0.0
    blades_s: float = 0.0
    blade_wear_s: float = 0.0
    distance_m: float = 0.0
    charges: int = 0
    bumps: int = 0
    _is_touching: bool = False
    _unseen_s: float = field(default=0.0)

    @classmethod
    def in_dock(cls, garden: Garden, dice: random.Random, battery_percent: float) -> Chassis:
        chassis = cls(
            garden=garden,
            wheels=Wheels(at=garden.dock, heading=heading_deg(garden.gate, garden.dock)),
            battery=Battery(battery_percent),
            receiver=Receiver(garden, dice),
        )
        chassis.receiver.update(garden.dock, 1.0)
        return chassis

    def stand(self, seconds: float) -> None:
        """Time passes off the dock without moving."""
        self.wheels.stand()
        self.battery.drain(seconds, STANDING_S)

    def charge(self, seconds: float) -> None:
        self.battery.charge(seconds)
        self.charging_s += seconds

    def drive(self, seconds: float, pace_mps: float, *, is_cutting: bool) -> float:
        """Along the way of the wheels; the metres made."""
        metres = self.wheels.follow(seconds, pace_mps)
        self._count(seconds, metres)
        if is_cutting:
            self.cutting_s += seconds
        return metres

    def steer(self, seconds: float, linear: float, angular: float) -> None:
        """By hand, -1 to 1 each; `angular` above 0 turns left."""
        metres, is_bump = self.wheels.steer(self.garden, seconds, linear * REMOTE_MPS, -angular * REMOTE_DPS)
        if is_bump and not self._is_touching:
            self.bumps += 1
        self._is_touching = is_bump
        self._count(seconds, metres)

    def set_down(self) -> None:
        """Somebody carried it to the dock."""
        self.wheels.take(())
        self.wheels.stand()
        self.wheels.at = self.garden.dock
        self.wheels.heading = heading_deg(self.garden.gate, self.garden.dock)
        self.receiver.update(self.wheels.at, _RECEIVER_EVERY_S)

    def _count(self, seconds: float, metres: float) -> None:
        self.running_s += seconds
        self.distance_m += metres
        if self.blades_on:
            self.blades_s += seconds
            self.blade_wear_s += seconds
        self.battery.drain(seconds, CUTTING_S if self.blades_on else DRIVING_S)
        self._unseen_s += seconds
        if self._unseen_s >= _RECEIVER_EVERY_S:
            self.receiver.update(self.wheels.at, self._unseen_s)
            self._unseen_s = 0.0

    @property
    def counters(self) -> Counters:
        return Counters(
            cutting_s=self.cutting_s,
            running_s=self.running_s,
            charging_s=self.charging_s,
            blades_s=self.blades_s,
            blade_wear_s=self.blade_wear_s,
            distance_m=self.distance_m,
            charges=self.charges,
            bumps=self.bumps,
        )
