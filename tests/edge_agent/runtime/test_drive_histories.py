"""Random histories of a drive: frames in and out of order, passing time, stops, rivals, lost links and crashes. The mower
never moves but by a fresh frame of the open session.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.domain.capabilities import Drive
from core.domain.commands import FINAL, Command, EmergencyStop, ManualDrive, PauseMow, StartMow
from core.domain.drive import DriveEnd, DriveFrame, find_frame_mistakes
from core.domain.errors import ForbiddenError
from core.domain.ids import CommandId
from core.domain.mower import Activity, Connectivity
from core.platform.integration import Outcome
from tests.edge_agent.runtime.box import MOWER, CommandBox, command_box
from tests.edge_agent.runtime.plugin import DRIVABLE, DrivableFakeLink

TTL_S = 0.5
QUICK = msgspec.structs.replace(
    DRIVABLE, manual_drive=Drive(max_speed_mps=0.5, motor_timeout_s=1.0, confirm_timeout_s=0.5)
)
"""Nobody waits long for a mower that never shows manual mode."""
STEPS = st.one_of(
    st.tuples(st.just("sit"), st.integers(0, 0)),
    st.tuples(st.just("frame"), st.integers(-1, 3)),
    st.tuples(st.just("frame"), st.integers(1, 2)),
    st.tuples(st.just("wrong frame"), st.integers(0, 2)),
    st.tuples(st.just("time"), st.sampled_from([1, 3, 4, 5, 6, 299, 310])),
    st.tuples(st.just("stop"), st.integers(0, 0)),
    st.tuples(st.just("rival"), st.integers(0, 1)),
    st.tuples(st.just("pause"), st.integers(0, 0)),
    st.tuples(st.just("end"), st.integers(0, 0)),
    st.tuples(st.just("show"), st.integers(0, 3)),
    st.tuples(st.just("link"), st.integers(0, 2)),
    st.tuples(st.just("gate"), st.integers(0, 1)),
    st.tuples(st.just("crash"), st.integers(0, 0)),
)


class WatchedLink(DrivableFakeLink):
    """Notes when it is told to move."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    async def drive(self, frame: DriveFrame) -> None:
        self._world.hear(frame)
        await super().drive(frame)

    async def send(self, command: Command) -> Outcome:
        self._world.obey(command)
        return await super().send(command)


@dataclass
class World:
    """A box, and what a driver, a rival and the world do to it."""

    box: CommandBox
    session_id: CommandId | None = None
    """Of the session that is open as far as the driver knows."""
    sequence: int = -1
    moves_until: float = 0.0
    """Until when the newest frame of the driver holds."""
    told_to_move_until: float = 0.0
    """Until when the mower has been told to move."""
    faults: list[str] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.box.clock.monotonic()

    def new_link(self) -> WatchedLink:
        link = WatchedLink(self)
        self.box.link = link
        return link

    def hear(self, frame: DriveFrame) -> None:
        if frame.linear == 0.0 and frame.angular == 0.0:
            self.told_to_move_until = 0.0
            return
        if self.session_id is None:
            self.faults.append("moved without a session")
        self.told_to_move_until = self.now + frame.ttl_ms / 1000
        if self.told_to_move_until > self.moves_until + 0.002:
            self.faults.append("moved longer than the driver's newest frame holds")

    def obey(self, command: Command) -> None:
        if isinstance(command, StartMow) and self.box.commander.seats.session(MOWER) is not None:
            self.faults.append("a rival's command reached the mower during a drive")

    def close(self) -> None:
        self.session_id, self.moves_until = None, 0.0

    async def act(self, what: str, number: int) -> None:
        box = self.box
        match what:
            case "sit":
                await self.sit_down()
            case "frame" if self.session_id is not None:
                self.push(self.sequence + number, 0.5)
            case "wrong frame" if self.session_id is not None:
                self.push(self.sequence + 1, (1.5, float("nan"), -2.0)[number])
            case "time":
                await box.wait.advance(number / 10)
            case "stop":
                self.close()
                await box.send(EmergencyStop(), subject="rival")
            case "rival" if self.session_id is not None:
                await box.send((StartMow(), ManualDrive())[number], subject="rival")
            case "pause":
                self.close()
                await box.send(PauseMow(), subject="rival")
            case "end" if self.session_id is not None:
                box.commander.seats.end(MOWER, DriveEnd.PERSON)
                self.close()
            case "crash":
                await self.crash()
            case _:
                self.change(what, number)
        await box.idle()

    async def sit_down(self) -> None:
        link = self.box.link
        if not isinstance(link, WatchedLink):
            return
        link.drive_gate.set()
        self.close()
        self.box.show(Activity.IDLE)
        await self.box.idle()
        await self.box.wait.advance(1.0)  # a lead of a stop before has passed
        await self.box.idle()
        envelope = await self.box.send(ManualDrive(), ttl_s=5.0)
        await self.box.idle()
        self.box.show(Activity.MANUAL)
        await self.box.idle()
        session = self.box.commander.seats.session(MOWER)
        if session is not None and session.session_id == envelope.command_id:
            self.session_id, self.sequence = envelope.command_id, -1

    def push(self, sequence: int, linear: float) -> None:
        assert self.session_id is not None
        frame = DriveFrame(sequence=sequence, linear=linear, angular=0.0)
        is_good = sequence > self.sequence and not find_frame_mistakes(frame)
        try:
            self.box.commander.seats.steer(MOWER, self.session_id, frame, source="relay")
        except ForbiddenError:
            self.close()
            return
        self.moves_until = self.now + TTL_S if is_good else 0.0
        if is_good:
            self.sequence = sequence

    def change(self, what: str, number: int) -> None:
        link = self.box.link
        match what:
            case "show":
                activity = (Activity.MANUAL, Activity.MANUAL, Activity.IDLE, Activity.ERROR)[number]
                connectivity = Connectivity.OFFLINE if number == 1 else Connectivity.ONLINE
                if number > 0:
                    self.close()
                self.box.show(activity, connectivity=connectivity)
            case "link":
                if number < 2:
                    self.close()
                    if isinstance(link, WatchedLink):
                        link.drive_gate.set()  # what hung on a lost link ends with it
                if number == 0:
                    self.box.link = None
                elif number == 1 or link is None:
                    self.new_link()
            case "gate" if isinstance(link, WatchedLink):
                (link.drive_gate.set if number else link.drive_gate.clear)()

    async def crash(self) -> None:
        self.close()
        await self.box.restart()
        self.told_to_move_until = 0.0  # nobody is there to tell it: its own dead man does
        self.new_link()
        self.box.show(Activity.IDLE)

    def check(self) -> None:
        """Everything has been told by now, unless the link hangs: then the mower's own dead man has the word."""
        if self.told_to_move_until > self.now and self.session_id is None:
            link = self.box.link
            hangs = isinstance(link, WatchedLink) and not link.drive_gate.is_set()
            waits = self.box.wait.is_waiting  # a stop has the link to itself for a moment
            if not hangs and not waits and link is not None:
                self.faults.append("still told to move without a session")


async def play(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with command_box(Path(folder)) as box:
            world = World(box)
            world.new_link()
            box.capabilities = QUICK
            box.show(Activity.IDLE)
            await world.sit_down()
            for what, number in steps:
                await world.act(what, number)
                world.check()
            if isinstance(box.link, WatchedLink):
                box.link.drive_gate.set()
            box.show(Activity.IDLE)
            await box.idle()
            for _ in range(3):
                await box.wait.advance(700.0)
                await box.idle()
            assert world.faults == []
            async with asyncio.timeout(20):
                while box.commander._tickets:
                    await box.wait.advance(10.0)
                    await asyncio.sleep(0.001)
            for result in box.results:
                entry = await box.store.command_ledger.entry(result.command_id)
                assert entry is not None
                assert entry.status in FINAL
            assert box.commander.seats.session(MOWER) is None


@example([("frame", 1), ("stop", 0), ("frame", 1), ("time", 3)])
@example([("frame", 1), ("gate", 0), ("frame", 1), ("time", 6), ("gate", 1)])
@example([("frame", 1), ("crash", 0), ("frame", 1)])
@example([("frame", 1), ("rival", 0), ("frame", 1), ("rival", 1), ("frame", 0)])
@given(st.lists(STEPS, min_size=3, max_size=25))
@settings(max_examples=60, deadline=None)
def test_histories(steps: list[tuple[str, int]]) -> None:
    asyncio.run(play(steps))
