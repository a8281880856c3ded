"""Random histories of commands, crashes, lost links and passing time: what must never happen does not."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.domain.capabilities import Capabilities, Simple, Start
from core.domain.commands import FINAL, Command, EmergencyStop, StartMow
from core.domain.errors import LinkLostError
from core.domain.mower import Activity
from core.platform.integration import ACCEPTED, Outcome
from core.sync.messages import CommandEnvelope
from tests.edge_agent.runtime.box import CommandBox, command_box
from tests.edge_agent.runtime.plugin import FakeLink

QUICK = Capabilities(
    start_mow=Start(confirm_timeout_s=0.002, max_duration_s=1_000_000), emergency_stop=Simple(confirm_timeout_s=0.002)
)

STEPS = st.one_of(
    st.tuples(st.just("start"), st.integers(0, 2)),
    st.tuples(st.just("delay"), st.integers(0, 0)),
    st.tuples(st.just("deliver"), st.integers(0, 5)),
    st.tuples(st.just("repeat"), st.integers(0, 5)),
    st.tuples(st.just("stop"), st.integers(0, 0)),
    st.tuples(st.just("wait"), st.integers(1, 20)),
    st.tuples(st.just("link"), st.integers(0, 1)),
    st.tuples(st.just("gate"), st.integers(0, 1)),
    st.tuples(st.just("answer"), st.integers(0, 2)),
    st.tuples(st.just("show"), st.integers(0, 2)),
    st.tuples(st.just("crash"), st.integers(0, 0)),
    st.tuples(st.just("idle"), st.integers(0, 0)),
)
ANSWERS: tuple[Outcome | Exception, ...] = (ACCEPTED, Outcome(kind="refused"), LinkLostError("gone"))
ACTIVITIES = (Activity.DOCKED, Activity.MOWING, Activity.PAUSED)


class WatchedLink(FakeLink):
    """Writes down when each command reached the mower."""

    def __init__(self, world: World) -> None:
        super().__init__(QUICK)
        self._world = world

    async def send(self, command: Command) -> Outcome:
        self._world.arrive(command)
        return await super().send(command)


@dataclass
class World:
    """The box, every command ever made (marked by its duration), and what reached the mower in which order."""

    box: CommandBox
    link: WatchedLink = field(init=False)
    made: list[CommandEnvelope] = field(default_factory=list)
    held: list[CommandEnvelope] = field(default_factory=list)
    newest_stop: float = 0.0
    given_at: dict[int, float] = field(default_factory=dict)
    arrived: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    tasks: list[asyncio.Task[object]] = field(default_factory=list)

    def arrive(self, command: Command) -> None:
        if not isinstance(command, StartMow):
            return
        mark = command.duration_s or 0
        envelope = next(made for made in self.made if made.command == command)
        if mark in self.arrived:
            self.faults.append(f"{mark} twice")
        if self.box.clock.now() >= envelope.expires_at:
            self.faults.append(f"{mark} late")
        if self.given_at[mark] <= self.newest_stop:
            self.faults.append(f"{mark} after a stop")
        self.arrived.append(mark)

    def make(self) -> CommandEnvelope:
        mark = 60 + len(self.made)
        self.box.clock.advance(0.001)
        envelope = self.box.envelope(StartMow(duration_s=mark), ttl_s=10)
        self.made.append(envelope)
        self.given_at[mark] = self.box.clock.monotonic()
        return envelope

    def submit(self, envelope: CommandEnvelope) -> None:
        self.tasks.append(asyncio.create_task(self.box.submit(envelope)))

    async def act(self, what: str, number: int) -> None:
        box = self.box
        match what:
            case "start":
                for _ in range(number + 1):
                    self.submit(self.make())
            case "delay":
                self.held.append(self.make())
            case "deliver" if self.held:
                self.submit(self.held.pop(number % len(self.held)))
            case "repeat" if self.made:
                self.submit(self.made[number % len(self.made)])
            case "stop":
                box.clock.advance(0.001)
                self.newest_stop = box.clock.monotonic()
                await box.send(EmergencyStop())
            case "crash":
                await self.crash()
            case "idle":
                await box.idle()
            case _:
                self.change(what, number)

    def change(self, what: str, number: int) -> None:
        """Something in the world that is no command."""
        box = self.box
        match what:
            case "wait":
                box.clock.advance(number)
            case "link":
                box.link = self.link if number else None
            case "gate":
                (self.link.gate.set if number else self.link.gate.clear)()
            case "answer":
                self.link.answer = ANSWERS[number]
            case "show":
                box.show(ACTIVITIES[number], observed_at=box.clock.now())

    async def crash(self) -> None:
        await self.box.stop()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
        self.link.gate.set()
        await self.box.start()
        self.box.show(Activity.DOCKED)


async def play(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with command_box(Path(folder)) as box:
            world = World(box)
            world.link = WatchedLink(world)
            box.link, box.capabilities = world.link, QUICK
            box.show(Activity.DOCKED)
            for what, number in steps:
                await world.act(what, number)
                await asyncio.sleep(0)
            world.link.gate.set()
            await asyncio.gather(*world.tasks)
            async with asyncio.timeout(5):
                while box.commander._tickets:
                    await asyncio.sleep(0.001)
            assert world.faults == []
            submitted = [made for made in world.made if made not in world.held]
            for envelope in submitted:
                entry = await box.store.command_ledger.entry(envelope.command_id)
                assert entry is None or entry.status in FINAL
                finals = [result for result in box.results if result.command_id == envelope.command_id]
                assert len([result for result in finals if result.status in FINAL]) <= 1


@example([("delay", 0), ("stop", 0), ("deliver", 0)])
@example([("gate", 0), ("start", 2), ("idle", 0), ("stop", 0), ("gate", 1)])
@example([("start", 2), ("stop", 0), ("repeat", 0), ("repeat", 1)])
@example([("start", 2), ("idle", 0), ("crash", 0), ("repeat", 0), ("repeat", 1)])
@given(st.lists(STEPS, min_size=3, max_size=25))
@settings(max_examples=80, deadline=None)
def test_histories(steps: list[tuple[str, int]]) -> None:
    asyncio.run(play(steps))
