"""The checks of the contract. Each raises BreachError with a message for the integration's author."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from core.domain import commands
from core.domain.clock import SystemClock
from core.domain.commands import confirm_timeout_s, find_obstacle, kind_of
from core.domain.drive import DriveFrame
from core.domain.errors import IntegrationError
from core.domain.events import MowerEvent
from core.domain.ids import is_safe_id
from core.domain.limits import CLOSE_DEADLINE_S, REPORTS_PER_S
from core.domain.mower import AT_DOCK, MOVING, Activity, MowerDescription
from core.platform.contract.breach import BreachError, NotApplicableError, require
from core.platform.contract.plausible import require_plausible
from core.platform.contract.running import QUIET_S, obeyed, run_link
from core.platform.contract.samples import beyond, sample_commands
from core.platform.contract.surroundings import open_context
from core.platform.integration import DrivableLink, Integration, IntegrationContext, MowerKey, key_of

Make = Callable[[IntegrationContext], AbstractAsyncContextManager[Integration]]
"""Yields the integration on a fresh emulated mower, which is the same machine each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is checked. The mower is in its dock, without a fault, ready to mow, and fast enough for the confirm
    timeouts of its own capabilities. `may_refuse`: kinds of commands that it may refuse although it can do them."""

    make: Make
    may_refuse: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An integration that is set up, and its first mower."""

    world: World
    integration: Integration
    mower: MowerDescription


async def mowers_have_a_lasting_identity(subject: Subject) -> None:
    """Vendor and serial tell mowers apart, and are the same after a restart."""
    first = await subject.integration.mowers()
    require(first, "mowers() is empty")
    keys = [key_of(mower) for mower in first]
    require(len(set(keys)) == len(keys), f"two mowers with the same vendor and serial: {keys}")
    again = [key_of(mower) for mower in await subject.integration.mowers()]
    require(again == keys, f"asked again, mowers() names others: {keys}, then {again}")
    async with open_context() as context, subject.world.make(context) as after_restart:
        later = [key_of(mower) for mower in await after_restart.mowers()]
        require(later == keys, f"after a restart mowers() names others: {keys}, then {later}")
        await after_restart.close()
    for mower in first:
        require(mower.vendor and mower.serial and mower.name and mower.links, f"vendor, serial, name or links: {mower}")
        areas = [area.area_id for area in mower.areas]
        require(len(set(areas)) == len(areas), f"two areas with the same area_id: {areas}")
        unsafe = [area_id for area_id in areas if not is_safe_id(area_id)]
        require(not unsafe, f"area_id may hold letters, digits, '-' and '_' only: {unsafe}")
        require(all(len(area.ring) != 1 and len(area.ring) != 2 for area in mower.areas), "a ring of fewer than three")
        copy = msgspec.json.decode(msgspec.json.encode(mower), type=MowerDescription)
        require(copy == mower, "the description does not survive JSON")


async def open_refuses_an_unknown_mower(subject: Subject) -> None:
    """`open` raises an IntegrationError for a mower that is not there."""
    link = subject.mower.links[0]
    await _refuses(subject.integration.open(MowerKey("nobody:0"), link), "open() of a mower that is not there")


async def nothing_moves_unless_told(subject: Subject) -> None:
    """A new link leaves the mower where it is, blades off."""
    async with run_link(subject.integration, subject.mower) as running:
        await running.watch()
        require({s.activity for s in running.states}.isdisjoint(MOVING), "it moves although nobody has told it to")
        require(
            all(s.blades_on is not True for s in running.states), "the blades are on although nobody has told it to"
        )


async def states_are_plausible_and_in_order(subject: Subject) -> None:
    """Aware UTC, never in the future, no impossible values, never back in time, no flood."""
    async with run_link(subject.integration, subject.mower) as running:
        began = SystemClock().monotonic()
        if running.link.capabilities.start_mow is not None:
            await obeyed(running, commands.StartMow())
            await running.watch()
        count, seconds = len(running.states) + len(running.events), SystemClock().monotonic() - began
        require(count <= REPORTS_PER_S * (seconds + 1.0), f"{count} reports in {seconds:.1f} s are a flood")
    for state in running.states:
        require_plausible(state)
    dates = [state.observed_at for state in running.states]
    require(dates == sorted(dates), "a state is older than the one before it")
    now = SystemClock().now()
    for event in running.events:
        require(event.at.utcoffset() == timedelta(0), f"the event is not dated in aware UTC: {event}")
        require(event.at <= now, f"the event lies in the future: {event}")
        copy = msgspec.json.decode(msgspec.json.encode(event), type=MowerEvent)
        require(copy == event, "the event does not survive JSON")


async def commands_have_a_visible_effect(subject: Subject) -> None:
    """Each command that the capabilities name is accepted, and its effect seen within its confirm timeout."""
    async with run_link(subject.integration, subject.mower) as running:
        for command in sample_commands(running.link.capabilities, subject.mower):
            if confirm_timeout_s(command, running.link.capabilities) is None:
                continue
            if (obstacle := find_obstacle(command, running.latest)) is not None:
                raise BreachError(f"{kind_of(command)}: {obstacle}")
            await obeyed(running, command, may_refuse=kind_of(command) in subject.world.may_refuse)


async def stops_at_once_wherever_it_is(subject: Subject) -> None:
    """An emergency stop works in the dock and while mowing, and holds."""
    async with run_link(subject.integration, subject.mower) as running:
        if running.link.capabilities.emergency_stop is None:
            raise NotApplicableError("cannot be stopped from afar")
        await obeyed(running, commands.EmergencyStop())
        if running.link.capabilities.start_mow is not None:
            await obeyed(running, commands.StartMow())
        await obeyed(running, commands.EmergencyStop())
        await running.watch()
        stopped = [state for state in await running.watch() if state.activity in MOVING or state.blades_on]
        require(not stopped, "it moved again by itself after an emergency stop")


async def what_it_cannot_do_is_refused(subject: Subject) -> None:
    """Commands without a capability, and values beyond its limits, are refused with a reason and change nothing."""
    async with run_link(subject.integration, subject.mower) as running:
        capabilities, before = running.link.capabilities, running.latest.activity
        samples = sample_commands(capabilities, subject.mower)
        cannot = [command for command in samples if confirm_timeout_s(command, capabilities) is None]
        for command in [*cannot, *beyond(capabilities)]:
            outcome = await running.link.send(command)
            require(outcome.kind == "refused", f"{command} was {outcome.kind}")
            require(outcome.reason, f"{command} was refused without a reason")
        seen = {state.activity for state in [running.latest, *await running.watch()]}
        by_itself = AT_DOCK if before in AT_DOCK else frozenset()
        require(seen <= {before, *by_itself}, f"what was refused had an effect: {before}, then {sorted(seen)}")


async def driving_by_hand_has_a_dead_man(subject: Subject) -> None:
    """Without a new frame the machine stands still again, blades off."""
    async with run_link(subject.integration, subject.mower) as running:
        ability = running.link.capabilities.manual_drive
        if ability is None:
            raise NotApplicableError("cannot be driven by hand")
        link = running.link
        if not isinstance(link, DrivableLink):
            raise BreachError("the capabilities name manual_drive, but the link has no drive()")
        await obeyed(running, commands.ManualDrive())
        await link.drive(DriveFrame(sequence=1, linear=-0.3, angular=0.1, ttl_ms=200))
        await running.watch(ability.motor_timeout_s + QUIET_S)
        await running.until(lambda s: not s.speed_mps, 5.0, "standing without a frame")
        require(all(state.blades_on is not True for state in running.states), "the blades were on while driven by hand")
        if running.link.capabilities.pause_mow is not None:
            outcome = await link.send(commands.PauseMow())
            require(outcome.kind == "accepted", "pause_mow does not end driving by hand")
            await running.until(lambda s: s.activity is not Activity.MANUAL, 10.0, "out of manual mode after pause_mow")


async def a_link_is_never_reopened(subject: Subject) -> None:
    """A link that has ended neither runs nor sends again; `open` makes a new one."""
    async with run_link(subject.integration, subject.mower) as running:
        pass
    async with asyncio.timeout(CLOSE_DEADLINE_S):
        await _refuses(running.link.run(running.report), "run() of a link that has ended")
        await _refuses(running.link.send(commands.EmergencyStop()), "send() on a link that has ended")
    async with run_link(subject.integration, subject.mower) as second:
        require(second.link is not running.link, "open() returned the old link")


async def leaves_no_task_behind(world: World) -> None:
    """After `close` no task of it lives, and nothing is reported any more."""
    before = asyncio.all_tasks()
    async with open_context() as context, world.make(context) as integration:
        mower = (await integration.mowers())[0]
        async with run_link(integration, mower) as running:
            if running.link.capabilities.start_mow is not None:
                await obeyed(running, commands.StartMow())
        count = len(running.states)
        await asyncio.sleep(QUIET_S)
        require(len(running.states) == count, "it reported after its end")
        await integration.close()
    left = asyncio.all_tasks() - before
    require(not left, f"left behind: {sorted(task.get_name() for task in left)}")


async def _refuses(attempt: Awaitable[object], what: str) -> None:
    """The attempt must raise an IntegrationError."""
    try:
        await attempt
    except IntegrationError:
        return
    raise BreachError(f"{what} must raise an IntegrationError")
