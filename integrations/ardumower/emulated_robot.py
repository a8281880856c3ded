"""The machine behind the emulated mower: it drives lanes on a small lawn, empties its battery, docks and charges.

Pure: time passes by `advance`. Units are the firmware's own (metres and radians in the local frame, volts, seconds).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from integrations.ardumower.wire import Op, Sensor, Solution

TICK_S = 0.05
DRIVE_TIMEOUT_S = 1.0
CONTACT_S = 2.0
"""Standing idle on the charging contacts for this long, it begins to charge."""
_DOCK = (0.0, 0.0)
_DOCK_RADIUS_M = 0.1
_GO_HOME_V = 21.5
_FULL_V = 28.7
_MOW_V_PER_S = 0.004
_CHARGE_V_PER_S = 0.01


def make_lanes(width_m: float = 8.0, depth_m: float = 6.0, lane_m: float = 1.0) -> list[tuple[float, float]]:
    """Waypoints up and down a rectangle ahead of the dock."""
    points: list[tuple[float, float]] = []
    for index in range(int(width_m / lane_m) + 1):
        ends = [(1.0 + index * lane_m, 0.0), (1.0 + index * lane_m, depth_m)]
        points += ends if index % 2 == 0 else ends[::-1]
    return points


@dataclass(slots=True, kw_only=True)
class Robot:
    """What is true of the machine. Everything may be set from outside, to begin a test where it is wanted."""

    op: Op = Op.CHARGE
    sensor: Sensor = Sensor.NONE
    x_m: float = 0.0
    y_m: float = 0.0
    heading_rad: float = 0.0
    volts: float = 28.6
    solution: Solution = Solution.FIX
    speed_mps: float = 0.3
    mow_point: int = 0
    blade_on: bool = False
    lanes: list[tuple[float, float]] = field(default_factory=make_lanes)
    plan_weekday: int = -1
    plan_hour: int = 0
    idle_s: float = 0.0
    charge_s: float = 0.0
    mow_s: float = 0.0
    distance_m: float = 0.0
    obstacles: list[list[tuple[float, float]]] = field(default_factory=list)
    drive_requests: int = 0
    linear_mps: float = 0.0
    angular_radps: float = 0.0
    _drive_left_s: float = 0.0
    _contact_s: float = 0.0
    _rest_s: float = 0.0

    @property
    def is_docked(self) -> bool:
        return math.dist((self.x_m, self.y_m), _DOCK) <= _DOCK_RADIUS_M

    @property
    def is_moving(self) -> bool:
        is_driven = self.op in (Op.IDLE, Op.CHARGE) and (self.linear_mps, self.angular_radps) != (0.0, 0.0)
        return self.op in (Op.MOW, Op.DOCK) or is_driven

    @property
    def amps(self) -> float:
        if self.op is Op.CHARGE:
            return 0.05 if self.volts >= _FULL_V - 0.15 else 1.4
        return 1.8 if self.op is Op.MOW else 0.1

    def switch(self, op: Op) -> None:
        """Somebody asks for another operation; asking for the present one changes nothing."""
        if op is self.op or op not in (Op.IDLE, Op.MOW, Op.DOCK, Op.CHARGE, Op.ERROR):
            return
        self.op = op
        self.linear_mps = self.angular_radps = self._drive_left_s = self._contact_s = 0.0
        self.blade_on = op is Op.MOW
        if op in (Op.MOW, Op.DOCK):
            self.sensor = Sensor.NONE

    def steer(self, linear_mps: float, angular_radps: float) -> None:
        """A drive request."""
        self.drive_requests += 1
        self.linear_mps, self.angular_radps = linear_mps, angular_radps
        self._drive_left_s = DRIVE_TIMEOUT_S

    def fail(self, sensor: Sensor) -> None:
        """Something triggers a sensor, and the mower stops with an error."""
        self.switch(Op.ERROR)
        self.sensor = sensor

    def rain(self) -> None:
        """Rain sends it home."""
        if self.op is Op.MOW:
            self.switch(Op.DOCK)
            self.sensor = Sensor.RAIN

    def help(self) -> None:
        """A person has put right what was wrong with it."""
        if self.op is Op.ERROR:
            self.switch(Op.IDLE)
        self.sensor = Sensor.NONE

    def reboot(self) -> None:
        """Power was lost: it stands, and its sums begin anew."""
        self.switch(Op.IDLE)
        self.blade_on = False
        self.sensor = Sensor.NONE
        self.idle_s = self.charge_s = self.mow_s = self.distance_m = 0.0

    def advance(self, seconds: float) -> None:
        """Lets time pass, in ticks."""
        self._rest_s += seconds
        while self._rest_s >= TICK_S:
            self._rest_s -= TICK_S
            self._tick()

    def _tick(self) -> None:
        match self.op:
            case Op.MOW:
                self._mow()
            case Op.DOCK:
                if self._go_to(_DOCK):
                    self.switch(Op.CHARGE)
            case Op.CHARGE:
                self.charge_s += TICK_S
                self.volts = min(self.volts + _CHARGE_V_PER_S * TICK_S, _FULL_V)
                self._be_driven()
            case Op.IDLE:
                self.idle_s += TICK_S
                self._be_driven()
                self._contact_s = self._contact_s + TICK_S if self.is_docked else 0.0
                if self._contact_s >= CONTACT_S:
                    self.switch(Op.CHARGE)
            case _:
                self.linear_mps = self.angular_radps = 0.0

    def _mow(self) -> None:
        self.mow_s += TICK_S
        self.volts -= _MOW_V_PER_S * TICK_S
        if self.volts <= _GO_HOME_V or self.mow_point >= len(self.lanes):
            self.mow_point = 0 if self.mow_point >= len(self.lanes) else self.mow_point
            self.switch(Op.DOCK)
        elif self._go_to(self.lanes[self.mow_point]):
            self.mow_point += 1

    def _go_to(self, target: tuple[float, float]) -> bool:
        """One tick towards a point; whether it is reached."""
        left_m = math.dist((self.x_m, self.y_m), target)
        step_m = min(self.speed_mps * TICK_S, left_m)
        if left_m > 0:
            self.heading_rad = math.atan2(target[1] - self.y_m, target[0] - self.x_m)
            self.x_m += math.cos(self.heading_rad) * step_m
            self.y_m += math.sin(self.heading_rad) * step_m
            self.distance_m += step_m
        return left_m <= step_m

    def _be_driven(self) -> None:
        self._drive_left_s -= TICK_S
        if self._drive_left_s <= 0:
            self.linear_mps = self.angular_radps = 0.0
            return
        self.heading_rad = math.remainder(self.heading_rad + self.angular_radps * TICK_S, math.tau)
        self.x_m += math.cos(self.heading_rad) * self.linear_mps * TICK_S
        self.y_m += math.sin(self.heading_rad) * self.linear_mps * TICK_S
        self.distance_m += abs(self.linear_mps) * TICK_S
        if self.op is Op.CHARGE and not self.is_docked:
            self.op = Op.IDLE  # off the contacts; the drive goes on
