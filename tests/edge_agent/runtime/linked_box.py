"""A mower with several links: the real supervisor, intake, commander and store over scripted paths to one machine."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.domain.capabilities import Capabilities
from core.domain.mower import Activity, Area, LinkKind, MowerState
from edge_agent.runtime.admission import Admission
from edge_agent.runtime.commander import Commander
from edge_agent.runtime.intake import Intake
from edge_agent.runtime.supervisor import Supervisor
from tests.edge_agent.runtime.box import MOWER, CommandBox
from tests.edge_agent.runtime.plugin import CAPABILITIES
from tests.fakes.scripted_path import ScriptedPath


class LinkedBox(CommandBox):
    """Its paths outlive it, as the machine does. A link that was lost stays so until it is `raised` again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.paths: list[ScriptedPath] = []
        self.states: list[MowerState] = []
        self.send_deadline_s = 0.3
        self.areas: tuple[Area, ...] = ()
        """As people see them."""

    def path_to(self, kind: LinkKind, capabilities: Capabilities = CAPABILITIES, **fields: object) -> ScriptedPath:
        """A further path, tried as soon as the box runs."""
        made = ScriptedPath(kind, capabilities, self.clock, **fields)  # type: ignore[arg-type]
        self.paths.append(made)
        if self._task is not None:
            self._add(made)
        return made

    def _add(self, path: ScriptedPath) -> None:
        self.supervisor.add(MOWER, path.entry_id, path.description, path, (path.kind,))

    def _make_commander(self) -> Commander:
        self.intake = Intake(clock=self.keeper, state_sinks=(self.live.put, self._see))
        self.supervisor = Supervisor(
            intake=self.intake,
            clock=self.keeper,
            rng=random.Random(1),
            on_change=lambda _: self.changed.set(),
            pause=_for_ever,
            close_deadline_s=0.2,
        )
        self.intake.add(MOWER)
        for path in self.paths:
            path.running.clear()
            self._add(path)
        return Commander(
            ledger=self.safe,
            admission=Admission(
                clock=self.keeper,
                account_of=lambda mower_id, _: self.account if mower_id == MOWER else None,
                capabilities=self.supervisor.capabilities,
            ),
            clock=self.keeper,
            live=self.live,
            find_links=self.supervisor.open_links,
            areas=lambda _: self.areas,
            on_result=self._take,
            send_deadline_s=self.send_deadline_s,
            drive_wait=self.wait,
        )

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for work in (self.intake.run(), self.supervisor.run(), self.commander.run()):
                group.create_task(work)

    def _see(self, _: object, state: MowerState) -> None:
        self.states.append(state)
        self.changed.set()

    def is_up(self, path: ScriptedPath) -> bool:
        return any(found.link is path.link for found in self.supervisor.open_links(MOWER))

    async def up(self, *paths: ScriptedPath) -> None:
        """Until the links of these paths run."""
        async with asyncio.timeout(5):
            for path in paths:
                await path.running.wait()

    async def lose(self, path: ScriptedPath, error: Exception | None = None) -> None:
        """The link of the path is lost, and the supervisor has seen it."""
        path.drop(error)
        await self.until(lambda: not self.is_up(path))

    async def raised(self, path: ScriptedPath) -> None:
        """The link of the path is up again."""
        self.supervisor.resume(MOWER)
        await self.up(path)

    async def seen(self, path: ScriptedPath, activity: Activity, **fields: object) -> MowerState:
        """The machine shows this over the path, and the box has taken it; what the box makes of it."""
        count = len(self.states)
        path.show(activity, **fields)
        await self.until(lambda: len(self.states) > count)
        return self.states[-1]


async def _for_ever(_: float) -> None:
    await asyncio.Event().wait()


@asynccontextmanager
async def linked_box(folder: Path) -> AsyncIterator[LinkedBox]:
    box = LinkedBox(folder / "telemetry.db")
    try:
        await box.start()
        yield box
    finally:
        await box.stop()
