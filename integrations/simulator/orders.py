"""What the machine does when it is told something, and what it refuses. Pure.

A refused order changes nothing.
"""

from __future__ import annotations

from typing import assert_never

from integrations.simulator import wire
from integrations.simulator.battery import START_AT
from integrations.simulator.job import Job
from integrations.simulator.machine import Machine
from integrations.simulator.planner import Stroke, plan_patch, plan_spot
from integrations.simulator.troubles import CONFIRMABLE
from integrations.simulator.wire import AT_DOCK, MOVING, Order, Phase

Motion = (
    wire.Cut | wire.CutSpot | wire.Halt | wire.GoOn | wire.GoHome | wire.KillSwitch | wire.ClearFault | wire.TakeRemote
)
Setting = wire.SetHeight | wire.SetPace | wire.SetPlan | wire.SkipWindow | wire.Beep | wire.NewBlades


def obey(machine: Machine, order: Order) -> str | None:
    """Has the machine do it at once and answers None, or answers why it will not."""
    if isinstance(order, Motion):
        return _move(machine, order)
    return _set(machine, order)


def _move(machine: Machine, order: Motion) -> str | None:
    match order:
        case wire.Cut():
            return _cut(machine, order)
        case wire.CutSpot():
            return _cut_spot(machine, order)
        case wire.Halt():
            if machine.phase is Phase.REMOTE:
                machine.let_go()
            elif machine.phase in MOVING:
                machine.halt()
            else:
                return "nothing to pause"
        case wire.GoOn():
            return None if machine.go_on() else "nothing to go on with"
        case wire.GoHome():
            if machine.fault is not None:
                return f"there is a fault ({machine.fault})"
            machine.send_home()
        case wire.KillSwitch():
            machine.kill()
        case wire.ClearFault():
            return _clear_fault(machine)
        case wire.TakeRemote():
            return _take_remote(machine)
        case _:
            assert_never(order)
    return None


def _set(machine: Machine, order: Setting) -> str | None:
    match order:
        case wire.SetHeight():
            machine.chassis.blade_height_mm = order.height_mm
        case wire.SetPace():
            machine.chassis.pace_mps = order.speed_mps
        case wire.SetPlan():
            named = {name for window in order.windows for name in window.patches}
            unknown = sorted(name for name in named if machine.garden.patch(name) is None)
            if unknown:
                return f"no such area: {', '.join(unknown)}"
            machine.plan, machine.skips_next = order.windows, False
        case wire.SkipWindow():
            if not machine.plan:
                return "nothing is planned"
            machine.skips_next = True
        case wire.Beep():
            machine.beep()
        case wire.NewBlades():
            machine.chassis.blade_wear_s = 0.0
        case _:
            assert_never(order)
    return None


def _why_no_job(machine: Machine) -> str | None:
    if machine.fault is not None:
        return f"there is a fault ({machine.fault})"
    if machine.phase is Phase.REMOTE:
        return "somebody is driving by hand"
    if machine.is_raining:
        return "it is raining"
    if machine.chassis.battery.percent < START_AT:
        return "the battery is too low"
    return None


def _cut(machine: Machine, order: wire.Cut) -> str | None:
    reason = _why_no_job(machine)
    if reason is not None:
        return reason
    garden = machine.garden
    unknown = [name for name in order.patches if garden.patch(name) is None]
    if unknown:
        return f"no such area: {', '.join(unknown)}"
    if order.is_by_plan and machine.phase not in AT_DOCK:
        return "a planned job starts only from the dock"
    patches = [p for p in garden.patches if not order.patches or p.area_id in order.patches]
    strokes: list[Stroke] = []
    here = machine.chassis.wheels.at
    for patch in patches:
        strokes.extend(plan_patch(machine.router, patch, start=here, job=machine.jobs))
        here = strokes[-1].points[-1]
    names = tuple(p.area_id for p in patches)
    machine.begin(Job.of(names, strokes, is_by_plan=order.is_by_plan, limit_s=order.limit_s))
    return None


def _cut_spot(machine: Machine, order: wire.CutSpot) -> str | None:
    reason = _why_no_job(machine)
    if reason is not None:
        return reason
    strokes = plan_spot(machine.router, order.centre, order.radius_m)
    if not strokes:
        return "there is no lawn at that place"
    patch = strokes[0].area_id
    machine.begin(Job.of(() if patch is None else (patch,), strokes))
    return None


def _clear_fault(machine: Machine) -> str | None:
    if machine.fault is None:
        return "there is no fault"
    if machine.fault not in CONFIRMABLE:
        return "somebody has to look at the machine"
    machine.clear_fault()
    return None


def _take_remote(machine: Machine) -> str | None:
    if machine.fault is not None:
        return f"there is a fault ({machine.fault})"
    if machine.phase in MOVING:
        return "pause it first"
    machine.take_remote()
    return None


def begin_window(machine: Machine, window: wire.PlanWindow, *, limit_s: float, is_followed: bool) -> str | None:
    """A window of the plan begins. Starts its job, or answers why not; a skip is used up either way."""
    was_skipped, machine.skips_next = machine.skips_next, False
    if was_skipped:
        return "this window is skipped"
    if not is_followed:
        return "the plan is not followed"
    return obey(machine, wire.Cut(patches=window.patches, limit_s=limit_s, is_by_plan=True))
