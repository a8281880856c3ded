"""What every integration has to hold, whatever its brand: one suite, run against a healthy peer or emulator.

    class TestAcmeContract(IntegrationContract):
        def make(self, context: IntegrationContext) -> AbstractAsyncContextManager[Integration]:
            ...start the emulator, yield create(context, entry)...

The peer behind the integration must have at least one mower in its dock, without a fault, ready to mow, and must
run fast enough for the confirm timeouts of its own capabilities.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import aiohttp
import msgspec
import pytest

from core.domain import commands
from core.domain.capabilities import Capabilities
from core.domain.clock import SystemClock
from core.domain.commands import Command, confirm_timeout_s, find_obstacle, is_confirmed, kind_of
from core.domain.drive import DriveFrame
from core.domain.errors import IntegrationError
from core.domain.events import MowerEvent
from core.domain.ids import is_safe_id
from core.domain.limits import CLOSE_DEADLINE_S, REPORTS_PER_S
from core.domain.mower import MOVING, Activity, MowerDescription, MowerState
from core.platform.integration import (
    DrivableLink,
    Integration,
    IntegrationContext,
    MowerKey,
    MowerLink,
    Outcome,
    key_of,
)

FIRST_STATE_S = 10.0
QUIET_S = 0.6
"""How long a test watches for what must not happen."""


class PlainSecrets:
    """Secrets in memory."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        return self._values.get(name)

    def put(self, name: str, value: str) -> None:
        self._values[name] = value


class FreeBudget:
    """A budget without end that counts."""

    def __init__(self) -> None:
        self.spent = 0

    async def spend(self, requests: int = 1) -> None:
        self.spent += requests


@asynccontextmanager
async def open_context() -> AsyncIterator[IntegrationContext]:
    """A context as the box gives it: tasks that a plugin spawns end with it, and so does the HTTP session."""
    session: list[aiohttp.ClientSession] = []
    tasks: set[asyncio.Task[None]] = set()

    async def http() -> aiohttp.ClientSession:
        if not session:
            session.append(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)))
        return session[0]

    def spawn(work: Coroutine[object, object, None], name: str) -> None:
        tasks.add(asyncio.get_running_loop().create_task(work, name=name))

    try:
        yield IntegrationContext(
            clock=SystemClock(),
            log=logging.LoggerAdapter(logging.getLogger("integrations.under_test"), {}),
            secrets=PlainSecrets(),
            budget=FreeBudget(),
            spawn=spawn,
            http=http,
        )
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in session:
            await one.close()


@dataclass
class Running:
    """A link that runs, and all that it has reported."""

    link: MowerLink
    states: list[MowerState] = field(default_factory=list)
    events: list[MowerEvent] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def report(self, item: MowerState | MowerEvent) -> None:
        if isinstance(item, MowerState):
            self.states.append(item)
        else:
            self.events.append(item)
        self._news.set()

    @property
    def latest(self) -> MowerState:
        return self.states[-1]

    async def until(self, is_so: Callable[[MowerState], bool], timeout_s: float, what: str) -> MowerState:
        """The newest state once it is so; fails the test after the deadline."""
        try:
            async with asyncio.timeout(timeout_s):
                while not (self.states and is_so(self.latest)):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            last = self.latest if self.states else None
            pytest.fail(f"{what}: not within {timeout_s:g} s; the last state is {last}")
        return self.latest

    async def watch(self, seconds: float = QUIET_S) -> list[MowerState]:
        """The states of the next seconds: for what must not happen."""
        first = len(self.states)
        await asyncio.sleep(seconds)
        return self.states[first:]


@asynccontextmanager
async def run_link(integration: Integration, mower: MowerDescription) -> AsyncIterator[Running]:
    """An open link with its first state there; it is cancelled at the end and must end in time."""
    running = Running(await integration.open(key_of(mower), mower.links[0]))
    task = asyncio.get_running_loop().create_task(running.link.run(running.report), name="link under test")
    try:
        await _first_state(running, task)
        yield running
        assert not task.done() or not task.exception(), "the link failed by itself"
    finally:
        await end(task)


async def _first_state(running: Running, task: asyncio.Task[None]) -> None:
    waiting = asyncio.get_running_loop().create_task(running.until(lambda _: True, FIRST_STATE_S, "a first state"))
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        pytest.fail(f"the link ended before its first state: {task}")
    waiting.result()


async def end(task: asyncio.Task[None]) -> None:
    """Cancels a link's task; it has to be over within the deadline."""
    task.cancel()
    _, late = await asyncio.wait({task}, timeout=CLOSE_DEADLINE_S)
    assert not late, f"run() did not end within {CLOSE_DEADLINE_S} s of its cancellation"
    if not task.cancelled():
        task.exception()  # seen


def sample_commands(capabilities: Capabilities, mower: MowerDescription) -> list[Command]:
    """One of each command, in an order in which they make sense; some need more than this mower can do."""
    areas = (mower.areas[0].area_id,) if mower.areas else ()
    takes_areas = capabilities.start_mow is not None and capabilities.start_mow.takes_areas
    height, speed = capabilities.set_blade_height, capabilities.set_speed
    window = commands.ScheduleWindow(weekday=2, start_minute=600, end_minute=660, area_ids=areas if takes_areas else ())
    return [
        commands.SetBladeHeight(height_mm=0.0 if height is None else height.maximum),
        commands.SetSpeed(speed_mps=0.3 if speed is None else speed.minimum),
        commands.SetSchedule(windows=(window,)),
        commands.SkipNext(),
        commands.FindMower(),
        commands.ResetBladeUsage(),
        commands.StartMow(area_ids=areas if takes_areas else ()),
        commands.PauseMow(),
        commands.ResumeMow(),
        commands.EmergencyStop(),
        *_spot(capabilities, mower),
        commands.EmergencyStop(),
        commands.ManualDrive(),
        commands.ReturnToDock(),
    ]


def _spot(capabilities: Capabilities, mower: MowerDescription) -> list[Command]:
    """The middle of the first area, when the mower says where its areas are."""
    ring = mower.areas[0].ring if mower.areas else ()
    if not ring:
        return []
    radius_m = 1.0 if capabilities.mow_spot is None else min(1.0, capabilities.mow_spot.max_radius_m)
    lat, lon = (sum(corner[axis] for corner in ring) / len(ring) for axis in (0, 1))
    return [commands.MowSpot(lat=lat, lon=lon, radius_m=radius_m)]


def beyond(capabilities: Capabilities) -> list[Command]:
    """Commands whose values are outside of what the mower takes."""
    found: list[Command] = []
    if (height := capabilities.set_blade_height) is not None:
        found += [commands.SetBladeHeight(height_mm=value) for value in (height.maximum + 50, -1.0, float("nan"))]
    if (speed := capabilities.set_speed) is not None:
        found += [commands.SetSpeed(speed_mps=value) for value in (speed.maximum + 5, -1.0, float("inf"))]
    if (spot := capabilities.mow_spot) is not None:
        found.append(commands.MowSpot(lat=0.0, lon=0.0, radius_m=spot.max_radius_m * 10))
    if capabilities.start_mow is not None:
        found.append(commands.StartMow(duration_s=-5))
        if capabilities.start_mow.takes_areas:
            found.append(commands.StartMow(area_ids=("no-such-area",)))
    return found


def assert_plausible(state: MowerState) -> None:
    """What every state has to hold by itself."""
    assert state.observed_at.utcoffset() == timedelta(0), "observed_at is not aware UTC"
    assert state.observed_at <= SystemClock().now(), "observed_at lies in the future"
    assert state.battery_percent is None or 0 <= state.battery_percent <= 100
    assert state.progress_percent is None or 0 <= state.progress_percent <= 100
    assert state.speed_mps is None or 0 <= state.speed_mps < 5
    assert state.satellites is None or 0 <= state.satellites < 100
    position = state.position
    if position is not None:
        assert (position.lat is None) == (position.lon is None)
        assert position.lat is not None or (position.x_m is not None and position.frame), "a position without a place"
        if position.lat is not None and position.lon is not None:
            assert -90 <= position.lat <= 90
            assert -180 <= position.lon <= 180
            assert (position.lat, position.lon) != (0.0, 0.0), "no position is None, not (0, 0)"
        assert position.heading_deg is None or 0 <= position.heading_deg < 360
        assert position.accuracy_m is None or position.accuracy_m >= 0
    again = msgspec.json.decode(msgspec.json.encode(state), type=MowerState)
    assert again == state, "the state does not survive JSON"


class IntegrationContract:
    """Subclass it as `Test...` and override `make`."""

    may_refuse: frozenset[str] = frozenset()
    """Kinds of commands that the healthy peer may refuse although its capabilities name them."""

    def make(self, context: IntegrationContext) -> AbstractAsyncContextManager[Integration]:
        """The integration on a fresh peer that is the same machine each time."""
        raise AssertionError("override make()")

    @pytest.fixture
    async def integration(self) -> AsyncIterator[Integration]:
        async with open_context() as context, self.make(context) as integration:
            yield integration
            await integration.close()

    @pytest.fixture
    async def mower(self, integration: Integration) -> MowerDescription:
        return (await integration.mowers())[0]

    async def test_mowers_have_a_lasting_identity(self, integration: Integration) -> None:
        first = await integration.mowers()
        assert first
        keys = [key_of(mower) for mower in first]
        assert len(set(keys)) == len(keys)
        assert [key_of(mower) for mower in await integration.mowers()] == keys
        async with open_context() as context, self.make(context) as after_restart:
            assert [key_of(mower) for mower in await after_restart.mowers()] == keys
            await after_restart.close()
        for mower in first:
            assert mower.vendor
            assert mower.serial
            assert mower.name
            assert mower.links
            areas = [area.area_id for area in mower.areas]
            assert len(set(areas)) == len(areas)
            assert all(is_safe_id(area_id) for area_id in areas)
            assert all(len(area.ring) == 0 or len(area.ring) >= 3 for area in mower.areas)
            assert msgspec.json.decode(msgspec.json.encode(mower), type=MowerDescription) == mower

    async def test_open_refuses_an_unknown_mower(self, integration: Integration, mower: MowerDescription) -> None:
        with pytest.raises(IntegrationError):
            await integration.open(MowerKey("nobody:0"), mower.links[0])

    async def test_nothing_moves_unless_told(self, integration: Integration, mower: MowerDescription) -> None:
        async with run_link(integration, mower) as running:
            await running.watch()
            assert {state.activity for state in running.states}.isdisjoint(MOVING)
            assert all(state.blades_on is not True for state in running.states)

    async def test_states_are_plausible_and_in_order(self, integration: Integration, mower: MowerDescription) -> None:
        async with run_link(integration, mower) as running:
            began = SystemClock().monotonic()
            if running.link.capabilities.start_mow is not None:
                await obeyed(running, commands.StartMow())
                await running.watch()
            count, seconds = len(running.states) + len(running.events), SystemClock().monotonic() - began
            assert count <= REPORTS_PER_S * (seconds + 1.0), f"{count} reports in {seconds:.1f} s are a flood"
        for state in running.states:
            assert_plausible(state)
        dates = [state.observed_at for state in running.states]
        assert dates == sorted(dates)
        now = SystemClock().now()
        for event in running.events:
            assert event.at.utcoffset() == timedelta(0)
            assert event.at <= now
            assert msgspec.json.decode(msgspec.json.encode(event), type=MowerEvent) == event

    async def test_commands_have_a_visible_effect(self, integration: Integration, mower: MowerDescription) -> None:
        async with run_link(integration, mower) as running:
            for command in sample_commands(running.link.capabilities, mower):
                if confirm_timeout_s(command, running.link.capabilities) is None:
                    continue
                if (obstacle := find_obstacle(command, running.latest)) is not None:
                    pytest.fail(f"{kind_of(command)}: {obstacle}")
                await obeyed(running, command, may_refuse=kind_of(command) in self.may_refuse)

    async def test_stops_at_once_wherever_it_is(self, integration: Integration, mower: MowerDescription) -> None:
        async with run_link(integration, mower) as running:
            if running.link.capabilities.emergency_stop is None:
                pytest.skip("cannot be stopped from afar")
            await obeyed(running, commands.EmergencyStop())
            await obeyed(running, commands.StartMow())
            await obeyed(running, commands.EmergencyStop())
            await running.watch()
            stopped = [state for state in await running.watch() if state.activity in MOVING or state.blades_on]
            assert not stopped, "it moved again by itself after an emergency stop"

    async def test_what_it_cannot_do_is_refused(self, integration: Integration, mower: MowerDescription) -> None:
        async with run_link(integration, mower) as running:
            capabilities, before = running.link.capabilities, running.latest.activity
            cannot = [c for c in sample_commands(capabilities, mower) if confirm_timeout_s(c, capabilities) is None]
            for command in [*cannot, *beyond(capabilities)]:
                outcome = await running.link.send(command)
                assert outcome.kind == "refused", f"{command} was {outcome.kind}"
                assert outcome.reason
            states = [running.latest, *await running.watch()]
            assert {state.activity for state in states} <= {before, *_AFTER_A_WHILE.get(before, ())}

    async def test_driving_by_hand_has_a_dead_man(self, integration: Integration, mower: MowerDescription) -> None:
        async with run_link(integration, mower) as running:
            ability = running.link.capabilities.manual_drive
            if ability is None:
                pytest.skip("cannot be driven by hand")
            assert isinstance(running.link, DrivableLink)
            await obeyed(running, commands.ManualDrive())
            await running.link.drive(DriveFrame(sequence=1, linear=-0.3, angular=0.1, ttl_ms=200))
            await running.watch(ability.motor_timeout_s + QUIET_S)
            await running.until(lambda s: not s.speed_mps, 5.0, "standing without a frame")
            assert all(state.blades_on is not True for state in running.states)
            if running.link.capabilities.pause_mow is not None:
                assert (await running.link.send(commands.PauseMow())).kind == "accepted"
                await running.until(lambda s: s.activity is not Activity.MANUAL, 10.0, "out of manual mode")

    async def test_a_link_is_never_reopened(self, integration: Integration, mower: MowerDescription) -> None:
        async with run_link(integration, mower) as running:
            pass
        with pytest.raises(IntegrationError):
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await running.link.run(running.report)
        with pytest.raises(IntegrationError):
            await running.link.send(commands.EmergencyStop())
        async with run_link(integration, mower) as second:
            assert second.link is not running.link

    async def test_leaves_no_task_behind(self) -> None:
        before = asyncio.all_tasks()
        async with open_context() as context, self.make(context) as integration:
            mower = (await integration.mowers())[0]
            async with run_link(integration, mower) as running:
                if running.link.capabilities.start_mow is not None:
                    await obeyed(running, commands.StartMow())
            count = len(running.states)
            await asyncio.sleep(QUIET_S)
            assert len(running.states) == count, "it reported after its end"
            await integration.close()
        left = asyncio.all_tasks() - before
        assert not left, f"left behind: {[task.get_name() for task in left]}"


_AFTER_A_WHILE: dict[object, tuple[object, ...]] = {"charging": ("docked",), "docked": ("charging",)}
"""Changes that happen by themselves."""


async def obeyed(running: Running, command: Command, *, may_refuse: bool = False) -> Outcome:
    """Sends the command; unless it was refused, its effect shows within the mower's own confirm timeout."""
    timeout_s = confirm_timeout_s(command, running.link.capabilities)
    assert timeout_s is not None
    before, sent_at = running.latest, SystemClock().now()
    async with asyncio.timeout(timeout_s):
        outcome = await running.link.send(command)
    if outcome.kind == "refused":
        assert outcome.reason, "refused without a reason"
        assert may_refuse, f"{kind_of(command)} was refused: {outcome.reason}"
        return outcome
    assert outcome.kind == "accepted", f"{kind_of(command)}: {outcome}"

    def shows(state: MowerState) -> bool:
        is_fresh = state.observed_at >= sent_at or state is before
        return is_fresh and is_confirmed(command, before, state)

    await running.until(shows, timeout_s, f"the effect of {kind_of(command)}")
    return outcome
