"""A household's mowers on real files: registry, entries, people and telemetry, with a misbehaving integration."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from core.domain.clock import SystemClock
from core.domain.ids import AccountId, EntryId, MowerId
from core.storage.sqlite_store import SqliteTelemetryStore
from core.storage.telemetry_store import DirectoryEntry
from core.sync.messages import Registration, Registrations
from edge_agent.household.link_views import LinkBoard
from edge_agent.household.mower_keeper import MowerKeeper
from edge_agent.household.registrations import FleetRegistrations
from edge_agent.household.roster import Roster
from edge_agent.people import People, open_people
from edge_agent.plugins import Plugins, open_plugins
from edge_agent.runtime.intake import Intake
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.supervisor import Supervisor
from tests.edge_agent.whole_box import PASSWORD, settings_for
from tests.fakes.misbehaving_folder import install_misbehaving

FLEET = AccountId("fleet")


class FakeCommander:
    """Only remembers whose commands were dropped."""

    def __init__(self) -> None:
        self.forgotten: list[MowerId] = []

    def forget(self, mower_id: MowerId) -> None:
        self.forgotten.append(mower_id)


class FlakyStore(SqliteTelemetryStore):
    """The real one, whose directory fails as often as `failures` holds errors."""

    failures: list[Exception]

    async def put_directory(self, entries: Any) -> None:
        if self.failures:
            raise self.failures.pop(0)
        await super().put_directory(entries)

    async def entry_of(self, mower_id: MowerId) -> DirectoryEntry | None:
        return next((e for e in await self.directory() if e.mower_id == mower_id), None)


class Household:
    """One life of the parts. `told` counts how often the relay's side heard of a changed inventory."""

    def __init__(self, people: People, plugins: Plugins, store: FlakyStore) -> None:
        clock = SystemClock()
        self.people, self.plugins, self.store = people, plugins, store
        self.registry, self.entries = plugins.registry, plugins.entries
        self.live = LiveStates(account_id=people.account.require)
        self.intake = Intake(clock=clock, state_sinks=(self.live.put,))
        self.supervisor = Supervisor(
            intake=self.intake,
            clock=clock,
            rng=random.Random(1),
            on_change=lambda status: self.keeper.note_door(status),
            close_deadline_s=0.3,
        )
        self.commander = FakeCommander()
        self.told = 0
        self.keeper = MowerKeeper(
            entries=self.entries,
            registry=self.registry,
            supervisor=self.supervisor,
            intake=self.intake,
            live=self.live,
            commander=self.commander,  # type: ignore[arg-type]
            store=store,
            account=people.account,
            on_inventory=self._tell,
            retry_s=0.05,
        )
        self.fleet = FleetRegistrations(
            registry=self.registry, entries=self.entries, loader=plugins.loader, keeper=self.keeper, clock=clock
        )
        self.roster = Roster(self.registry, self.entries, people.account, LinkBoard(self.supervisor))

    def _tell(self) -> None:
        self.told += 1

    async def register(self) -> AccountId:
        await self.people.identity.accounts.register(
            username="anna", password=PASSWORD, account_name="Home", email=None, address="127.0.0.1"
        )
        await self.people.account.load()
        return self.people.account.require()

    async def add(self, serial: str, fault: str = ":", source: Any = "user", **data: Any) -> EntryId:
        """An entry of the misbehaving integration, set up as far as it gets."""
        record = await self.entries.add(
            domain="misbehaving", title=serial, source=source, data={"serial": serial, "fault": fault, **data}
        )
        await until(lambda: self.entries.view(record.entry_id).state not in {"not_loaded", "setup"})
        return record.entry_id

    def id_of(self, serial: str) -> MowerId | None:
        return next((m.mower_id for m in self.registry.mowers() if m.key == f"misbehaving:{serial}"), None)

    async def online(self, serial: str) -> MowerId:
        """The mower's id, once its link is up and its abilities are known."""

        def is_so() -> bool:
            mower_id = self.id_of(serial)
            if mower_id is None or not self.supervisor.open_links(mower_id):
                return False
            return self.registry.get(mower_id).capabilities is not None

        await until(is_so)
        mower_id = self.id_of(serial)
        assert mower_id is not None
        return mower_id

    def phases(self) -> dict[MowerId, str]:
        return {door.mower_id: door.phase.value for door in self.supervisor.statuses()}


@asynccontextmanager
async def household(folder: Path, *, is_registered: bool = True) -> AsyncIterator[Household]:
    """The parts on the files of `folder`, running; ended in the box's order."""
    settings = settings_for(folder)
    if not (folder / "integrations").exists():
        install_misbehaving(folder / "integrations")
    clock = SystemClock()
    store = FlakyStore(settings.telemetry_path, clock=clock, is_journal=True)
    store.failures = []
    await store.open()
    try:
        async with open_people(settings, clock) as people, open_plugins(settings, clock) as plugins:
            home = Household(people, plugins, store)
            if is_registered and people.account.account_id is None:
                await home.register()
            async with asyncio.TaskGroup() as group:
                parts = (home.intake.run(), home.supervisor.run(), home.keeper.run())
                tasks = [group.create_task(part) for part in parts]
                plugins.entries.start()
                yield home
                for record in home.entries.records():
                    await home.entries.unload(record.entry_id)
                for task in tasks:
                    task.cancel()
    finally:
        await store.close()


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.005)


def wanted(mower_id: str, name: str = "Front", domain: str | None = "misbehaving", **connection: Any) -> Registration:
    """The fleet wants this mower."""
    return Registration(
        mower_id=MowerId(mower_id), account_id=FLEET, name=name, domain=domain, connection=connection or None
    )


def registrations(*mowers: Registration, removed: tuple[str, ...] = ()) -> Registrations:
    return Registrations(
        version=1,
        account_id=FLEET,
        sent_at=SystemClock().now(),
        mowers=mowers,
        removed=tuple(MowerId(m) for m in removed),
    )
