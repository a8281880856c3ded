"""A well-behaved mower whose every step is in the hands of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from core.domain.capabilities import Capabilities, Drive, Range, Simple, Start
from core.domain.commands import Command
from core.domain.drive import DriveFrame
from core.domain.mower import Activity, LinkKind, MowerDescription, MowerState
from core.platform.integration import ACCEPTED, MowerKey, MowerLink, Outcome, Report
from tests.fakes.clock import START

CAPABILITIES = Capabilities(
    start_mow=Start(confirm_timeout_s=0.2, max_duration_s=100_000),
    pause_mow=Simple(confirm_timeout_s=0.2),
    resume_mow=Simple(confirm_timeout_s=0.2),
    return_to_dock=Simple(confirm_timeout_s=0.2),
    emergency_stop=Simple(confirm_timeout_s=0.2),
    find_mower=Simple(confirm_timeout_s=0.2),
    set_blade_height=Range(minimum=20, maximum=60, confirm_timeout_s=0.2),
)
DRIVABLE = msgspec.structs.replace(CAPABILITIES, manual_drive=Drive(max_speed_mps=0.5, motor_timeout_s=1.0))


def state(activity: Activity = Activity.DOCKED, **fields: Any) -> MowerState:
    return MowerState(**{"observed_at": START, "activity": activity, "battery_percent": 80, **fields})


class FakeLink:
    """`run` lasts until `end` is called; `sent` is every command that reached the mower."""

    def __init__(self, capabilities: Capabilities = CAPABILITIES) -> None:
        self.capabilities = capabilities
        self.report: Report | None = None
        self.running = asyncio.Event()
        self.sent: list[Command] = []
        self.answer: Outcome | Exception = ACCEPTED
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, report: Report) -> None:
        self.report = report
        self.running.set()
        await self._end

    def end(self, error: BaseException | None = None) -> None:
        if error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(error)

    async def send(self, command: Command) -> Outcome:
        self.sent.append(command)
        self.arrived.set()
        await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class DrivableFakeLink(FakeLink):
    """Can be driven by hand; `frames` is every one that reached the mower, `told` all that did, in order."""

    def __init__(self) -> None:
        super().__init__(DRIVABLE)
        self.frames: list[DriveFrame] = []
        self.told: list[Command | DriveFrame] = []
        self.drive_gate = asyncio.Event()
        self.drive_gate.set()
        self.drive_error: Exception | None = None

    async def send(self, command: Command) -> Outcome:
        self.told.append(command)
        return await super().send(command)

    async def drive(self, frame: DriveFrame) -> None:
        self.frames.append(frame)
        self.told.append(frame)
        await self.drive_gate.wait()
        if self.drive_error is not None:
            raise self.drive_error


class FakeIntegration:
    """Hands out one new FakeLink per opening, or raises what `errors` holds for the kind of link."""

    def __init__(self) -> None:
        self.links: list[FakeLink] = []
        self.opened: asyncio.Queue[FakeLink] = asyncio.Queue()
        self.errors: dict[LinkKind, list[BaseException]] = {}

    async def mowers(self) -> Sequence[MowerDescription]:
        return [description()]

    async def open(self, mower: MowerKey, link: LinkKind) -> MowerLink:
        waiting = self.errors.get(link)
        if waiting:
            raise waiting.pop(0)
        made = FakeLink()
        self.links.append(made)
        self.opened.put_nowait(made)
        return made

    async def close(self) -> None:
        pass


def description(serial: str = "1") -> MowerDescription:
    return MowerDescription(vendor="fake", serial=serial, name="Fake", links=(LinkKind.SIM,))
