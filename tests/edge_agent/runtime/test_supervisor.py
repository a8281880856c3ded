"""The fire doors: what one plugin does wrong, no other mower notices."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from core.domain import limits
from core.domain.clock import SystemClock
from core.domain.errors import AuthFailedError, ConflictError, EntryError, LinkLostError, NotReadyError
from core.domain.ids import EntryId, MowerId
from core.domain.mower import Activity, Connectivity, LinkKind, MowerState
from core.platform.integration import Entry, IntegrationContext
from edge_agent.runtime.door import DoorStatus, Phase, retry_pause_s
from edge_agent.runtime.intake import Intake
from edge_agent.runtime.supervisor import Supervisor
from tests.edge_agent.runtime.plugin import CAPABILITIES, FakeIntegration, description, state
from tests.fakes import misbehaving

ENTRY = EntryId("e")
GOOD, BAD = MowerId("good"), MowerId("bad")


@dataclass
class Box:
    supervisor: Supervisor
    intake: Intake
    states: list[tuple[MowerId, MowerState]] = field(default_factory=list)
    statuses: list[DoorStatus] = field(default_factory=list)
    pauses: asyncio.Queue[float] = field(default_factory=asyncio.Queue)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, mower_id: MowerId, integration: Any, links: tuple[LinkKind, ...] = (LinkKind.SIM,)) -> None:
        self.intake.add(mower_id)
        self.supervisor.add(mower_id, ENTRY, description(mower_id), integration, links)

    async def until(self, claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not claim():
                self.changed.clear()
                await self.changed.wait()

    async def phase(self, mower_id: MowerId, phase: Phase) -> DoorStatus:
        await self.until(lambda: self.status(mower_id).phase is phase)
        return self.status(mower_id)

    def status(self, mower_id: MowerId) -> DoorStatus:
        return next(status for status in self.supervisor.statuses() if status.mower_id == mower_id)

    def last(self, mower_id: MowerId) -> MowerState:
        return next(state for known, state in reversed(self.states) if known == mower_id)


@asynccontextmanager
async def running(*, pause_for_ever: bool = True) -> AsyncIterator[Box]:
    box: Box

    def on_state(mower_id: MowerId, seen: MowerState) -> None:
        box.states.append((mower_id, seen))
        box.changed.set()

    def on_change(status: DoorStatus) -> None:
        box.statuses.append(status)
        box.changed.set()

    async def pause(seconds: float) -> None:
        box.pauses.put_nowait(seconds)
        if pause_for_ever:
            await asyncio.Event().wait()

    clock = SystemClock()
    intake = Intake(clock=clock, state_sinks=[on_state])
    supervisor = Supervisor(
        intake=intake,
        clock=clock,
        rng=random.Random(1),
        on_change=on_change,
        pause=pause,
        open_deadline_s=0.3,
        close_deadline_s=0.05,
    )
    box = Box(supervisor=supervisor, intake=intake)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(intake.run(), name="intake"),
            group.create_task(supervisor.run(), name="supervisor"),
        ]
        await asyncio.sleep(0)
        yield box
        for task in tasks:
            task.cancel()


def bad_integration(fault: str, stubborn_s: float = 0.4) -> Any:
    context = IntegrationContext(
        clock=SystemClock(),
        log=logging.LoggerAdapter(logging.getLogger("misbehaving"), {}),
        secrets=None,  # type: ignore[arg-type]
        budget=None,  # type: ignore[arg-type]
        spawn=lambda coroutine, name: coroutine.close(),
        http=None,  # type: ignore[arg-type]
    )
    entry = Entry(
        entry_id=EntryId("e"),
        domain="misbehaving",
        unique_id=None,
        title="",
        data={"fault": fault, "stubborn_s": stubborn_s},
    )
    return misbehaving.create(context, entry)


PARKS = ["raise", "unprintable", "exit", "interrupt", "generator_exit", "stop_iteration", "cancelled", "odd"]
PARKS += ["memory", "recursion", "group", "auth_failed", "entry_error"]
WAITS = ["connection", "timeout", "not_ready", "link_lost", "link_timeout", "rate_limited"]
REPORTS = ["garbage", "garbage_state", "naive_time"]


@pytest.mark.parametrize(
    ("fault", "phase"),
    [(f"{where}:{how}", Phase.PARKED) for where in ("open", "run") for how in PARKS]
    + [(f"{where}:{how}", Phase.WAITING) for where in ("open", "run") for how in WAITS]
    + [(f"run:{how}", Phase.PARKED) for how in REPORTS]
    + [("open:rubbish", Phase.PARKED), ("open:hang", Phase.WAITING), ("open:stubborn", Phase.WAITING)]
    + [("run:return", Phase.WAITING), ("run:flood_states", Phase.WAITING), ("run:flood_events", Phase.WAITING)],
)
async def test_one_bad_plugin_leaves_the_others_alone(fault: str, phase: Phase) -> None:
    async with running() as box:
        good = FakeIntegration()
        box.add(GOOD, good)
        box.add(BAD, bad_integration(fault))
        link = await good.opened.get()
        await link.running.wait()
        status = await box.phase(BAD, phase)
        assert status.code
        assert "hunter2" not in str(box.statuses)
        assert box.status(GOOD).phase is Phase.ONLINE
        assert link.report is not None
        link.report(state(Activity.MOWING))
        await box.until(lambda: box.last(GOOD).activity is Activity.MOWING)
        await box.until(lambda: box.last(BAD).connectivity is Connectivity.OFFLINE)
    assert box.status(BAD).phase is phase  # the end of the box is no failure of the mower


@pytest.mark.parametrize("fault", ["run:hang", "run:stubborn", "run:late"])
async def test_a_link_that_will_not_end_is_left_behind(fault: str) -> None:
    async with running() as box:
        box.add(BAD, bad_integration(fault))
        await box.phase(BAD, Phase.ONLINE)
        async with asyncio.timeout(2):
            await box.supervisor.remove(BAD, ENTRY)
        assert not box.supervisor.statuses()
    await asyncio.sleep(0.45 if fault == "run:stubborn" else 0)  # the abandoned task of the test itself


async def test_closing_the_box_is_not_held_up_by_a_stubborn_link() -> None:
    async with asyncio.timeout(2), running() as box:
        box.add(BAD, bad_integration("run:stubborn"))
        await box.phase(BAD, Phase.ONLINE)
    await asyncio.sleep(0.45)


async def test_backs_off_longer_each_time_and_comes_back() -> None:
    async with running(pause_for_ever=False) as box:
        good = FakeIntegration()
        good.errors[LinkKind.SIM] = [NotReadyError("no") for _ in range(4)]
        box.add(GOOD, good)
        await good.opened.get()
        await box.phase(GOOD, Phase.ONLINE)
        pauses = [box.pauses.get_nowait() for _ in range(4)]
        for pause, base in zip(pauses, (5, 10, 20, 40), strict=True):
            assert base <= pause <= base * 1.2
        assert box.supervisor.capabilities(GOOD) == CAPABILITIES
        assert box.status(GOOD).code is None


async def test_waits_as_long_as_it_was_asked_to() -> None:
    async with running() as box:
        good = FakeIntegration()
        good.errors[LinkKind.SIM] = [NotReadyError("no", retry_after_s=300.0)]
        box.add(GOOD, good)
        assert await box.pauses.get() >= 300.0


def test_pauses_are_bounded() -> None:
    rng = random.Random(3)
    assert max(retry_pause_s(n, rng) for n in range(1, 200)) <= limits.RETRY_MAX_S * 1.2
    assert min(retry_pause_s(n, rng) for n in range(1, 200)) >= limits.RETRY_FIRST_S


@pytest.mark.parametrize("error", [AuthFailedError("wrong password"), EntryError("no such mower"), ValueError("bug")])
async def test_parked_until_resumed(error: Exception) -> None:
    async with running() as box:
        good = FakeIntegration()
        good.errors[LinkKind.SIM] = [error]
        box.add(GOOD, good)
        await box.phase(GOOD, Phase.PARKED)
        assert good.opened.empty()
        assert box.last(GOOD).connectivity is Connectivity.OFFLINE
        box.supervisor.resume(GOOD)
        await box.phase(GOOD, Phase.ONLINE)


async def test_resume_ends_a_pause() -> None:
    async with running() as box:
        good = FakeIntegration()
        good.errors[LinkKind.SIM] = [NotReadyError("no")]
        box.add(GOOD, good)
        await box.phase(GOOD, Phase.WAITING)
        box.supervisor.resume(GOOD)
        await box.phase(GOOD, Phase.ONLINE)


async def test_the_next_kind_of_link_is_tried() -> None:
    async with running() as box:
        good = FakeIntegration()
        good.errors[LinkKind.BLE] = [LinkLostError("out of range")]
        box.add(GOOD, good, (LinkKind.BLE, LinkKind.CLOUD))
        status = await box.phase(GOOD, Phase.ONLINE)
        assert status.link is LinkKind.CLOUD


async def test_a_dead_password_does_not_park_a_mower_that_is_out_of_range() -> None:
    async with running() as box:
        good = FakeIntegration()
        good.errors = {LinkKind.BLE: [LinkLostError("out of range")], LinkKind.CLOUD: [AuthFailedError("no")]}
        box.add(GOOD, good, (LinkKind.BLE, LinkKind.CLOUD))
        assert (await box.phase(GOOD, Phase.WAITING)).code == "link-lost"


async def test_a_lost_link_is_offline_and_its_activity_is_kept_for_a_while() -> None:
    async with running() as box:
        good = FakeIntegration()
        box.add(GOOD, good)
        link = await good.opened.get()
        await link.running.wait()
        assert link.report is not None
        link.report(state(Activity.MOWING))
        link.end(LinkLostError("gone"))
        await box.phase(GOOD, Phase.WAITING)
        await box.until(lambda: box.last(GOOD).connectivity is Connectivity.OFFLINE)
        assert box.last(GOOD).activity is Activity.MOWING
        assert box.supervisor.open_links(GOOD) == ()
        with pytest.raises(LinkLostError):
            link.report(state(Activity.MOWING))


async def test_nothing_is_sent_by_the_supervisor_itself() -> None:
    async with running(pause_for_ever=False) as box:
        good = FakeIntegration()
        box.add(GOOD, good)
        for _ in range(3):
            link = await good.opened.get()
            await link.running.wait()
            link.end(LinkLostError("gone"))
        await good.opened.get()
        assert [link.sent for link in good.links] == [[], [], [], []]


async def test_twice_the_same_mower_is_refused() -> None:
    async with running() as box:
        box.add(GOOD, FakeIntegration())
        with pytest.raises(ConflictError):
            box.supervisor.add(GOOD, ENTRY, description(), FakeIntegration(), (LinkKind.SIM,))
        await box.supervisor.remove(GOOD, ENTRY)
        box.add(GOOD, FakeIntegration())
        await box.phase(GOOD, Phase.ONLINE)
