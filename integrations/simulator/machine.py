"""The simulated mower: a state machine with a clock of its own, which moves only by `advance`. Pure.

It starts docked and stays there until it is told otherwise. The same seed and the same orders at the same ticks give
the same track, whatever the pieces in which time is advanced.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from typing import assert_never

from integrations.simulator import wire
from integrations.simulator.battery import GO_HOME_AT, GO_ON_AT
from integrations.simulator.chassis import Chassis
from integrations.simulator.job import Job
from integrations.simulator.joystick import Joystick
from integrations.simulator.lawn import Garden
from integrations.simulator.reception import wifi_dbm
from integrations.simulator.routes import Router
from integrations.simulator.shapes import distance, length
from integrations.simulator.troubles import CARRIED_HOME, Troubles
from integrations.simulator.weather import Weather
from integrations.simulator.wire import AT_DOCK, MOVING, Fault, Happening, Phase, Reading, Wait

TICK_S = 0.25
_TICK_US = round(TICK_S * 1_000_000)
_TRANSIT_MPS = 0.5
_DOCKING_MPS = 0.3
_SHORT_HOP_M = 2.0
"""The blades go on turning on hops up to this long between two strokes of one patch."""
_BEEP_S = 10.0
_HAPPENINGS = 200
"""Kept for nobody in particular while no link listens; the oldest go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What makes one machine different from the next. `remote_rest_s`: without a joystick frame for this long it
    leaves the remote mode (the machine's own seconds)."""

    seed: int
    start_battery: float = 100.0
    has_rain: bool = False
    weather_seed: int = 0
    stuck_per_hour: float = 0.0
    remote_rest_s: float = 60.0


class Machine:
    """One mower in its garden. `orders.obey` tells it what to do."""

    def __init__(self, garden: Garden, traits: Traits, router: Router | None = None) -> None:
        self.garden = garden
        self.router = router or Router(garden)
        self._traits = traits
        self.chassis = Chassis.in_dock(garden, random.Random(f"receiver {traits.seed}"), traits.start_battery)
        self._weather = Weather(random.Random(f"weather {traits.weather_seed}"), traits.has_rain)
        self._troubles = Troubles(random.Random(f"troubles {traits.seed}"), traits.stuck_per_hour)
        self._ticks = 0
        self._owed_us = 0
        self.phase = Phase.PARKED if self.chassis.battery.is_full else Phase.CHARGING
        self._job: Job | None = None
        self._jobs = 0
        self._is_on_stroke = False
        self._wait: Wait | None = None
        self._goes_on_as: Phase | None = None
        self._fault: Fault | None = None
        self._fault_since_s = 0.0
        self._help_at_s: float | None = None
        self._stick = Joystick()
        self._beeps_until_s = 0.0
        self.plan: tuple[wire.PlanWindow, ...] = ()
        self.skips_next = False
        self._happenings: deque[Happening] = deque(maxlen=_HAPPENINGS)

    # Time

    @property
    def clock_s(self) -> float:
        """Seconds that this machine has lived."""
        return self._ticks * TICK_S

    def advance(self, seconds: float) -> None:
        """Lets time pass, in ticks; what is less than a tick is kept for the next call."""
        self._owed_us += round(seconds * 1_000_000)
        while self._owed_us >= _TICK_US:
            self._owed_us -= _TICK_US
            self._tick()

    def _tick(self) -> None:
        self._ticks += 1
        if self._weather.pass_by(TICK_S):
            self._tell(wire.RainChanged(is_raining=self._weather.is_raining))
        match self.phase:
            case Phase.PARKED | Phase.CHARGING:
                self._rest_in_dock()
            case Phase.UNDOCKING:
                self.chassis.drive(TICK_S, _DOCKING_MPS, is_cutting=False)
                if not self.chassis.wheels.way:
                    self.phase = Phase.CUTTING
            case Phase.CUTTING:
                self._cut()
            case Phase.HOMING:
                self._come_home()
            case Phase.HALTED | Phase.STANDBY:
                self.chassis.stand(TICK_S)
            case Phase.FAULT:
                self.chassis.stand(TICK_S)
                self._wait_for_help()
            case Phase.REMOTE:
                self._follow_stick()
            case _:
                assert_never(self.phase)
        if self.chassis.battery.is_empty and self.phase not in AT_DOCK and self.phase is not Phase.FAULT:
            self.fail(Fault.BATTERY_EMPTY)

    def _rest_in_dock(self) -> None:
        if self.phase is Phase.CHARGING:
            self.chassis.charge(TICK_S)
            if self.chassis.battery.is_full:
                self.phase = Phase.PARKED
        has_job = self._job is not None and self._wait is not None
        if has_job and not self._weather.is_raining and self.chassis.battery.percent >= GO_ON_AT:
            self._leave_dock()

    def _cut(self) -> None:
        job = self._job
        if job is None:
            self._go_home(None)
        elif self._weather.is_raining:
            self._go_home(Wait.RAIN)
        elif self.chassis.battery.percent <= GO_HOME_AT:
            self._go_home(Wait.BATTERY)
        elif job.is_over_limit:
            self._end_job("duration")
            self._go_home(None)
        elif (fault := self._troubles.draw(TICK_S)) is not None:
            self.fail(fault)
        elif self.chassis.wheels.way or self._take_next(job):
            pace = self.chassis.pace_mps if self._is_on_stroke else _TRANSIT_MPS
            metres = self.chassis.drive(TICK_S, pace, is_cutting=True)
            job.spent_s += TICK_S
            if self._is_on_stroke:
                job.count(metres)

    def _take_next(self, job: Job) -> bool:
        """Gives the wheels the next line: a stroke, or the way to it. False when the phase has changed instead."""
        chassis = self.chassis
        if self._is_on_stroke:
            self._is_on_stroke = False
            before = job.patch
            if not job.begin_next():
                chassis.blades_on = False
                self._end_job("done")
                self._go_home(None)
                return False
            is_same_patch = before == job.patch
        else:
            is_same_patch = False
        if distance(chassis.wheels.at, job.points[0]) < 0.02:
            chassis.wheels.take(job.points)
            chassis.blades_on = self._is_on_stroke = True
            return True
        way = self.router.route(chassis.wheels.at, job.points[0])
        if way is None:
            self.fail(Fault.NO_WAY)
            return False
        chassis.wheels.take(way)
        is_short = length((chassis.wheels.at, *way)) <= _SHORT_HOP_M
        chassis.blades_on = chassis.blades_on and is_same_patch and is_short
        return True

    def _come_home(self) -> None:
        chassis = self.chassis
        is_near = len(chassis.wheels.way) <= 1
        chassis.drive(TICK_S, _DOCKING_MPS if is_near else _TRANSIT_MPS, is_cutting=False)
        if not chassis.wheels.way:
            self._arrive()

    def _arrive(self) -> None:
        self.chassis.set_down()
        self.chassis.charges += 1
        self.phase = Phase.PARKED if self.chassis.battery.is_full else Phase.CHARGING
        self._goes_on_as = None
        self._tell(wire.DockReached())

    def _wait_for_help(self) -> None:
        fault = self._fault
        if fault is None or self._help_at_s is None or self.clock_s < self._help_at_s:
            return
        self.clear_fault()
        if fault in CARRIED_HOME:
            self._end_job("cancelled")
            self._arrive()

    def _follow_stick(self) -> None:
        start_s = self.clock_s - TICK_S
        left_s = self._stick.lasts_s(start_s, TICK_S)
        if left_s > 0.0:
            self.chassis.steer(left_s, self._stick.linear, self._stick.angular)
            return
        self.chassis.stand(TICK_S)
        if start_s - self._stick.until_s >= self._traits.remote_rest_s:
            self.let_go()

    # Changes of phase

    def _break_off(self) -> None:
        """Stands, blades off; what is left of the stroke is kept in the job."""
        wheels = self.chassis.wheels
        if self._is_on_stroke and self._job is not None:
            self._job.keep((wheels.at, *wheels.way))
        self._is_on_stroke = False
        self.chassis.blades_on = False
        wheels.take(())
        wheels.stand()

    def _leave_dock(self) -> None:
        self._wait = None
        self.phase = Phase.UNDOCKING
        self.chassis.wheels.take((self.garden.gate,), is_backwards=True)

    def _go_home(self, wait: Wait | None) -> None:
        self._break_off()
        way = self.router.route(self.chassis.wheels.at, self.garden.gate)
        if way is None:
            self.fail(Fault.NO_WAY)
            return
        self._wait = wait
        self.phase = Phase.HOMING
        self.chassis.wheels.take((*way, self.garden.dock))

    def _end_job(self, reason: str) -> None:
        if self._job is not None:
            self._break_off()
            self._tell(wire.JobEnded(reason=reason))
        self._job = None
        self._wait = None

    def fail(self, fault: Fault) -> None:
        """Something goes wrong, now. Nothing happens to a machine in its dock or with a fault already."""
        if self.phase in AT_DOCK or self.phase is Phase.FAULT:
            return
        if self.phase is not Phase.HALTED:
            self.halt()
        self.phase = Phase.FAULT
        self._fault, self._fault_since_s = fault, self.clock_s
        help_s = self._troubles.help_after_s(fault)
        self._help_at_s = None if help_s is None else self.clock_s + help_s
        self._tell(wire.FaultRaised(fault=fault))

    # Driving by hand

    def steer(self, sequence: int, linear: float, angular: float, ttl_s: float) -> bool:
        """One joystick frame (-1 to 1 each), obeyed for `ttl_s` of the machine's seconds; whether it was taken."""
        return self.phase is Phase.REMOTE and self._stick.move(sequence, linear, angular, self.clock_s, ttl_s)

    def let_go(self) -> None:
        """The driver is gone: stands, and leaves the remote mode."""
        if self.phase is Phase.REMOTE:
            self.halt()
            if self._goes_on_as is None:
                self.phase = Phase.STANDBY

    # For orders (see orders.py)

    @property
    def fault(self) -> Fault | None:
        return self._fault

    @property
    def is_raining(self) -> bool:
        return self._weather.is_raining

    def rain(self, *, is_raining: bool) -> None:
        """It begins to rain, or stops, now."""
        if self._weather.turn(is_raining=is_raining):
            self._tell(wire.RainChanged(is_raining=is_raining))

    @property
    def jobs(self) -> int:
        """How many jobs there were."""
        return self._jobs

    def begin(self, job: Job) -> None:
        """Starts a job, in place of another one."""
        self._end_job("replaced")
        self._break_off()
        self._job, self._goes_on_as = job, None
        self._jobs += 1
        self._tell(wire.JobStarted(patches=job.patches))
        if self.phase in AT_DOCK:
            self._leave_dock()
        else:
            self.phase = Phase.CUTTING

    def halt(self) -> None:
        """Stands where it is; only an order lets it go on."""
        if self.phase in MOVING:
            self._goes_on_as = self.phase
        elif self.phase is Phase.REMOTE:
            self._goes_on_as = Phase.CUTTING if self._job is not None else None
        elif self.phase is Phase.STANDBY:
            self._goes_on_as = None
        self._break_off()
        self.phase = Phase.HALTED

    def go_on(self) -> bool:
        """Goes on after a halt; False when there is nothing to go on with."""
        if self.phase is not Phase.HALTED or self._goes_on_as is None:
            return False
        if self._goes_on_as is Phase.HOMING or self._job is None:
            self._go_home(self._wait)
        else:
            self.phase = Phase.CUTTING
        self._goes_on_as = None
        return True

    def send_home(self) -> None:
        """Drops the job and goes home; in the dock it only drops the job."""
        self._end_job("cancelled")
        if self.phase not in AT_DOCK:
            self._goes_on_as = None
            self._go_home(None)

    def kill(self) -> None:
        """Stands at once, blades off. In the dock the waiting job is dropped, so that nothing goes on by itself."""
        if self.phase in AT_DOCK:
            self._end_job("cancelled")
        elif self.phase is not Phase.FAULT:
            self.halt()

    def clear_fault(self) -> None:
        """The fault is over; the machine stands until it is told to go on."""
        fault = self._fault
        if fault is None:
            return
        self._fault = self._help_at_s = None
        self.phase = Phase.HALTED if self._goes_on_as is not None else Phase.STANDBY
        self._tell(wire.FaultCleared(fault=fault))

    def take_remote(self) -> None:
        """Waits for a joystick; a job is kept."""
        self._break_off()
        self._wait = None
        self.phase = Phase.REMOTE
        self._stick = Joystick(until_s=self.clock_s)

    def beep(self) -> None:
        self._beeps_until_s = self.clock_s + _BEEP_S
        self._tell(wire.Notice(code="BEEP", text="here I am"))

    # What it shows

    def _tell(self, happening: Happening) -> None:
        self._happenings.append(happening)

    def take_happenings(self) -> tuple[Happening, ...]:
        """What has happened since the last call, in order."""
        taken = tuple(self._happenings)
        self._happenings.clear()
        return taken

    def read(self) -> Reading:
        """All that the machine shows now."""
        chassis, job = self.chassis, self._job
        receiver, at = chassis.receiver, chassis.wheels.at
        return Reading(
            clock_s=self.clock_s,
            phase=self.phase,
            fault=self._fault,
            fault_since_s=None if self._fault is None else self._fault_since_s,
            waits_for=self._wait if self.phase in AT_DOCK or self.phase is Phase.HOMING else None,
            battery=chassis.battery.percent,
            fix=receiver.fix,
            satellites=receiver.satellites,
            seen_at=receiver.seen_at(at),
            accuracy_m=receiver.accuracy_m,
            heading_deg=chassis.wheels.heading,
            speed_mps=chassis.wheels.speed_mps,
            target_speed_mps=chassis.pace_mps,
            blades_on=chassis.blades_on,
            blade_height_mm=chassis.blade_height_mm,
            patch=job.patch if job is not None and self._goes_on() else None,
            progress={} if job is None else job.progress,
            is_by_plan=None if job is None else job.is_by_plan,
            is_raining=self._weather.is_raining,
            is_beeping=self.clock_s < self._beeps_until_s,
            wifi_dbm=wifi_dbm(self.garden, at),
            counters=chassis.counters,
            plan=self.plan,
            skips_next=self.skips_next,
        )

    def _goes_on(self) -> bool:
        """Whether the job's patch is where the machine works or will work next."""
        return self.phase in {Phase.UNDOCKING, Phase.CUTTING, Phase.HALTED, Phase.FAULT}
