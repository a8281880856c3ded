"""Random histories of a mower with two links: drops, slow and unknown sends, stops, restarts. What must never happen
does not: a command reaches at most one link at most once, a stop reaches every link that is up, and what is shown is
the newest of what was told.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.domain.capabilities import Capabilities, Simple, Start
from core.domain.commands import FINAL, EmergencyStop, ReturnToDock, StartMow
from core.domain.errors import LinkLostError
from core.domain.mower import Activity, Connectivity, LinkKind
from core.platform.integration import ACCEPTED, Outcome
from core.sync.messages import CommandEnvelope
from tests.edge_agent.runtime.box import MOWER
from tests.edge_agent.runtime.linked_box import LinkedBox, linked_box
from tests.fakes.scripted_path import ScriptedPath

QUICK = Capabilities(
    start_mow=Start(confirm_timeout_s=0.002, max_duration_s=1_000_000),
    return_to_dock=Simple(confirm_timeout_s=0.002),
    emergency_stop=Simple(confirm_timeout_s=0.002),
)
ANSWERS: tuple[Outcome | Exception, ...] = (
    ACCEPTED,
    Outcome(kind="refused"),
    Outcome(kind="unknown"),
    LinkLostError("gone"),
)
ACTIVITIES = (Activity.DOCKED, Activity.MOWING, Activity.PAUSED, Activity.IDLE)
PATH = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("start"), PATH, st.integers(0, 1)),
    st.tuples(st.just("dock"), PATH, st.just(0)),
    st.tuples(st.just("repeat"), PATH, st.integers(0, 5)),
    st.tuples(st.just("stop"), PATH, st.just(0)),
    st.tuples(st.just("drop"), PATH, st.just(0)),
    st.tuples(st.just("raise"), PATH, st.just(0)),
    st.tuples(st.just("gate"), PATH, st.integers(0, 1)),
    st.tuples(st.just("answer"), PATH, st.integers(0, 3)),
    st.tuples(st.just("show"), PATH, st.integers(0, 3)),
    st.tuples(st.just("late"), PATH, st.integers(0, 3)),
    st.tuples(st.just("wait"), PATH, st.integers(1, 70)),
    st.tuples(st.just("crash"), PATH, st.just(0)),
    st.tuples(st.just("idle"), PATH, st.just(0)),
)


@dataclass
class World:
    """The box, every command ever made (a start is known by its duration), and what each link has told."""

    box: LinkedBox
    paths: list[ScriptedPath]
    made: list[CommandEnvelope] = field(default_factory=list)
    given_before_stop: set[int] = field(default_factory=set)
    arrived_before_stop: set[int] = field(default_factory=set)
    told: dict[LinkKind, tuple[datetime, int]] = field(default_factory=dict)
    tasks: list[asyncio.Task[object]] = field(default_factory=list)
    reports: int = 0

    def submit(self, envelope: CommandEnvelope) -> None:
        self.tasks.append(asyncio.create_task(self.box.submit(envelope)))

    def make(self, *, is_start: bool) -> None:
        self.box.clock.advance(0.001)
        mark = 60 + len(self.made)
        envelope = self.box.envelope(StartMow(duration_s=mark) if is_start else ReturnToDock(), ttl_s=10)
        self.made.append(envelope)
        self.submit(envelope)

    def arrivals(self) -> list[int]:
        """The marks of all starts that have reached the machine, over whatever link."""
        return [c.duration_s or 0 for path in self.paths for c in path.sent if isinstance(c, StartMow)]

    async def act(self, what: str, number: int, more: int) -> None:
        box = self.box
        match what:
            case "start":
                for _ in range(more + 1):
                    self.make(is_start=True)
            case "dock":
                self.make(is_start=False)
            case "repeat" if self.made:
                self.submit(self.made[more % len(self.made)])
            case "stop":
                await self.stop()
            case "crash":
                await self.crash()
            case "idle":
                await box.idle()
            case _:
                self.change(what, self.paths[number], more)

    def change(self, what: str, path: ScriptedPath, more: int) -> None:
        """Something in the world that is no command."""
        match what:
            case "drop":
                path.drop()
            case "raise":
                self.box.supervisor.resume(MOWER)
            case "gate":
                (path.gate.set if more else path.gate.clear)()
            case "answer":
                path.answer = ANSWERS[more]
            case "show" | "late":
                self.show(path, ACTIVITIES[more], late_s=more * 20 if what == "late" else 0)
            case "wait":
                self.box.clock.advance(more)

    async def stop(self) -> None:
        box = self.box
        box.clock.advance(0.001)
        up = {path.kind for path in self.paths if self.is_alive(path)}
        before = {path.kind: path.sent.count(EmergencyStop()) for path in self.paths}
        self.given_before_stop |= {e.command.duration_s or 0 for e in self.made if isinstance(e.command, StartMow)}
        self.arrived_before_stop = set(self.arrivals())
        await box.send(EmergencyStop())
        await box.idle_loop()
        reached = {path.kind for path in self.paths if path.sent.count(EmergencyStop()) > before[path.kind]}
        assert up <= reached, "a stop goes over every link that is up"

    def is_alive(self, path: ScriptedPath) -> bool:
        """Up, and not lost just now without anybody having noticed."""
        link = path.link
        return link is not None and link.report is not None and not link.ended.done() and self.box.is_up(path)

    def show(self, path: ScriptedPath, activity: Activity, late_s: int) -> None:
        """A report that says by its `firmware` which it is, and was seen `late_s` ago."""
        self.box.intake.drain()
        if not self.is_alive(path):
            return
        self.reports += 1
        at = self.box.clock.now() - timedelta(seconds=late_s, microseconds=100_000 - self.reports)
        path.show(activity, observed_at=at, firmware=str(self.reports))
        self.box.intake.drain()
        self.told[path.kind] = max(self.told.get(path.kind, (at, 0)), (at, self.reports))
        newest = str(max(self.told.values())[1])
        shown = self.box.states[-1]
        assert shown.firmware == newest, "the newest word counts, whoever came last"
        assert shown.connectivity is Connectivity.ONLINE
        assert shown.signals is not None
        assert shown.signals.active_link is self.box.supervisor.open_links(MOWER)[0].kind

    async def crash(self) -> None:
        await self.box.stop()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
        self.told.clear()
        self.box.states.clear()
        for path in self.paths:
            path.gate.set()
        await self.box.start()
        await self.box.up(*self.paths)
        self.show(self.paths[0], Activity.DOCKED, 0)

    def check(self) -> None:
        arrived = self.arrivals()
        assert len(set(arrived)) == len(arrived), "over one link, once"
        late = set(arrived) & self.given_before_stop - self.arrived_before_stop
        assert not late, "given before a stop and sent after it"
        docks = sum(path.sent.count(ReturnToDock()) for path in self.paths)
        assert docks <= sum(isinstance(envelope.command, ReturnToDock) for envelope in self.made)
        times = [seen.observed_at for seen in self.box.states]
        assert times == sorted(times)


async def play(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with linked_box(Path(folder)) as box:
            box.send_deadline_s = 0.02
            await box.restart()
            paths = [box.path_to(kind, QUICK) for kind in (LinkKind.CLOUD, LinkKind.BLE)]
            world = World(box, paths)
            await box.up(*paths)
            world.show(paths[0], Activity.DOCKED, 0)
            for step in steps:
                await world.act(*step)
                await asyncio.sleep(0)
                world.check()
            for path in paths:
                path.gate.set()
            await asyncio.gather(*world.tasks)
            async with asyncio.timeout(5):
                while box.commander._tickets:
                    await asyncio.sleep(0.001)
            world.check()
            for envelope in world.made:
                entry = await box.store.command_ledger.entry(envelope.command_id)
                assert entry is None or entry.status in FINAL


@example([("drop", 0, 0), ("start", 0, 0), ("dock", 0, 0), ("dock", 0, 0), ("stop", 0, 0)])
@example([("gate", 1, 0), ("start", 0, 0), ("idle", 0, 0), ("drop", 1, 0), ("idle", 0, 0), ("repeat", 0, 0)])
@example([("answer", 1, 2), ("start", 0, 1), ("idle", 0, 0), ("crash", 0, 0), ("repeat", 0, 0), ("repeat", 0, 1)])
@example([("gate", 1, 0), ("start", 0, 1), ("idle", 0, 0), ("stop", 0, 0), ("gate", 1, 1), ("drop", 1, 0)])
@given(st.lists(STEPS, min_size=3, max_size=20))
@settings(max_examples=50, deadline=None)
def test_histories(steps: list[tuple[str, int, int]]) -> None:
    asyncio.run(play(steps))
