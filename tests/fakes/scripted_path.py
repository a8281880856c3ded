"""One of several ways to the same machine, as an integration whose every step is in the hands of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from core.domain.capabilities import Capabilities
from core.domain.clock import Clock
from core.domain.commands import Command
from core.domain.drive import DriveFrame
from core.domain.errors import LinkLostError
from core.domain.ids import EntryId
from core.domain.mower import Activity, Area, LinkKind, MowerDescription, MowerState
from core.platform.integration import ACCEPTED, MowerKey, MowerLink, Outcome, Report

VENDOR, SERIAL = "scripted", "1"


class ScriptedLink:
    """One connection of a path."""

    def __init__(self, path: ScriptedPath) -> None:
        self.capabilities = path.capabilities
        self.report: Report | None = None
        self._path = path
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, report: Report) -> None:
        self.report = report
        self._path.running.set()
        await self.ended

    async def send(self, command: Command) -> Outcome:
        return await self._path.take(command)


class ScriptedDrivableLink(ScriptedLink):
    """It can be driven by hand, too."""

    async def drive(self, frame: DriveFrame) -> None:
        self._path.frames.append(frame)


class ScriptedPath:
    """An integration with one mower, the same one for every path: one vendor, one serial. `sent` is what has reached
    the machine over this path, whatever was answered; it is answered when `gate` is set."""

    def __init__(
        self, kind: LinkKind, capabilities: Capabilities, clock: Clock, *, areas: tuple[Area, ...] = ()
    ) -> None:
        self.kind = kind
        self.entry_id = EntryId(f"entry-{kind}")
        self.capabilities = capabilities
        self.areas = areas
        self.sent: list[Command] = []
        self.frames: list[DriveFrame] = []
        self.answer: Outcome | Exception = ACCEPTED
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self.running = asyncio.Event()
        self.link: ScriptedLink | None = None
        self.fault: Exception | None = None
        """Why it cannot be opened now."""
        self._clock = clock

    @property
    def description(self) -> MowerDescription:
        name = f"Mower over {self.kind}"
        return MowerDescription(vendor=VENDOR, serial=SERIAL, name=name, links=(self.kind,), areas=self.areas)

    async def mowers(self) -> Sequence[MowerDescription]:
        return [self.description]

    async def open(self, mower: MowerKey, link: LinkKind) -> MowerLink:
        if self.fault is not None:
            raise self.fault
        is_drivable = self.capabilities.manual_drive is not None
        self.link = ScriptedDrivableLink(self) if is_drivable else ScriptedLink(self)
        return self.link

    async def close(self) -> None:
        pass

    async def take(self, command: Command) -> Outcome:
        self.sent.append(command)
        self.arrived.set()
        await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def show(self, activity: Activity, **fields: object) -> None:
        """Reports a state, as seen now unless `observed_at` says otherwise; nothing while it is down."""
        state = MowerState(observed_at=self._clock.now(), activity=activity)
        if self.link is not None and self.link.report is not None and not self.link.ended.done():
            self.link.report(msgspec.structs.replace(state, **fields))

    def drop(self, error: Exception | None = None) -> None:
        """The connection is lost."""
        if self.link is not None and not self.link.ended.done():
            self.link.ended.set_exception(error or LinkLostError("gone"))
        self.running.clear()
