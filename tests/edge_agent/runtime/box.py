"""A commander over a real SQLite ledger, a fake link and a clock in the hands of a test. Restart it at will."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from core.domain.capabilities import Capabilities
from core.domain.clock import EPOCH
from core.domain.commands import Command, CommandResult, CommandStatus, IssuedBy, StartMow, priority_of
from core.domain.ids import AccountId, CommandId, EdgeId, EntryId, MowerId, make_id
from core.domain.mower import Activity, Connectivity, LinkKind, MowerState
from core.storage.sqlite_store import SqliteTelemetryStore
from core.sync.messages import CommandEnvelope
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.clock.kernel import ClockQuality
from edge_agent.runtime.admission import Admission
from edge_agent.runtime.carrier import OpenLink
from edge_agent.runtime.commander import Commander
from edge_agent.runtime.ledger import Ledger, SafeLedger
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.ticket import Source, Submission
from tests.edge_agent.runtime.plugin import CAPABILITIES, FakeLink, state
from tests.fakes.clock import ManualClock
from tests.fakes.waiting import ManualWait

MOWER, OTHER = MowerId("m"), MowerId("n")
OURS = AccountId("ours")
EDGE = EdgeId("edge")
ENTRY = EntryId("entry")


class CommandBox:
    """One life after another of the same box: its file and its mower stay, all else is new after `restart`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.quality = ClockQuality.SYNCHRONISED
        self.capabilities: Capabilities | None = CAPABILITIES
        self.account: AccountId | None = OURS
        """Whose mowers they are for every source; None: no link any more."""
        self.results: list[CommandResult] = []
        self._listeners: list[Callable[[CommandResult], None]] = []
        self.changed = asyncio.Event()
        self.link: FakeLink | None = None
        self.wrap: Callable[[Ledger], Ledger] = lambda ledger: ledger
        self.wait = ManualWait(self.clock)
        """In which drive sessions let time pass."""
        self._count = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.store = SqliteTelemetryStore(self.path, clock=self.clock, is_journal=True)
        await self.store.open()
        self.keeper = ClockKeeper(self.clock, read_quality=lambda: self.quality)
        self.live = LiveStates(account_id=lambda: OURS)
        self.safe = SafeLedger(self.wrap(self.store.command_ledger))
        self.commander = self._make_commander()
        self._task = asyncio.create_task(self._run(), name="box")
        await self.commander.wait_ready()

    def _make_commander(self) -> Commander:
        return Commander(
            ledger=self.safe,
            admission=Admission(
                clock=self.keeper,
                account_of=lambda mower_id, _: self.account if mower_id in {MOWER, OTHER} else None,
                capabilities=lambda _: self.capabilities,
            ),
            clock=self.keeper,
            live=self.live,
            find_links=lambda _: self._open_links(),
            areas=lambda _: (),
            on_result=self._take,
            send_deadline_s=0.5,
            drive_wait=self.wait,
        )

    async def _run(self) -> None:
        await self.commander.run()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
            await self.store.close()

    async def restart(self) -> None:
        """As after a crash: nothing is finished, everything is new but the file."""
        await self.stop()
        await self.start()

    def _open_links(self) -> tuple[OpenLink, ...]:
        link, able = self.link, self.capabilities
        if link is None or able is None:
            return ()
        return (OpenLink(kind=LinkKind.SIM, entry_id=ENTRY, link=link, capabilities=able),)

    def _take(self, result: CommandResult) -> None:
        self.results.append(result)
        self.changed.set()
        for listener in self._listeners:
            listener(result)

    def hear(self, listener: Callable[[CommandResult], None]) -> Callable[[], None]:
        """Results also go to `listener`, until the undo is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def show(self, activity: Activity, **fields: object) -> None:
        seen: MowerState = state(activity, **{"connectivity": Connectivity.ONLINE, **fields})
        self.live.put(MOWER, seen)

    def envelope(
        self, command: Command, *, ttl_s: float = 30.0, mower_id: MowerId = MOWER, subject: str = "u"
    ) -> CommandEnvelope:
        self._count += 1
        now = self.clock.now()
        return CommandEnvelope(
            command_id=CommandId(make_id(now, self._count.to_bytes(10, "big"))),
            account_id=OURS,
            edge_id=EDGE,
            mower_id=mower_id,
            command=command,
            priority=priority_of(command),
            issued_by=IssuedBy(kind="user", subject=subject),
            issued_at=now,
            expires_at=now + timedelta(seconds=ttl_s),
            correlation_id="c",
        )

    async def send(self, command: Command, *, source: Source = "relay", **fields: object) -> CommandEnvelope:
        envelope = self.envelope(command, **fields)  # type: ignore[arg-type]
        await self.submit(envelope, source=source)
        return envelope

    async def submit(self, envelope: CommandEnvelope, *, source: Source = "relay") -> Submission:
        return await self.commander.submit(envelope, source=source)

    def story(self, envelope: CommandEnvelope) -> list[tuple[CommandStatus, str | None]]:
        return [(r.status, r.reason) for r in self.results if r.command_id == envelope.command_id]

    async def until(self, claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not claim():
                self.changed.clear()
                await self.changed.wait()

    async def ended(self, envelope: CommandEnvelope) -> tuple[CommandStatus, str | None]:
        """The final result of a command."""
        await self.until(lambda: len(self.story(envelope)) > 0 and self.story(envelope)[-1][0] not in _OPEN)
        return self.story(envelope)[-1]

    async def idle(self) -> None:
        """Lets everything happen that does not wait for time."""
        for _ in range(3):
            await self.store.command_ledger.prune(EPOCH)
            for _ in range(20):
                await asyncio.sleep(0)

    async def idle_loop(self) -> None:
        """As `idle`, without the disk."""
        for _ in range(20):
            await asyncio.sleep(0)

    def starts(self) -> list[int | None]:
        """Durations of the StartMow commands that reached the mower: their marks in these tests."""
        link = self.link
        return [] if link is None else [c.duration_s for c in link.sent if isinstance(c, StartMow)]


_OPEN = {CommandStatus.PENDING, CommandStatus.ACCEPTED}


@asynccontextmanager
async def command_box(path: Path) -> AsyncIterator[CommandBox]:
    box = CommandBox(path / "telemetry.db")
    try:
        box.link = FakeLink()
        await box.start()
        yield box
    finally:
        await box.stop()
