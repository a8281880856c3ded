"""Boxes as far as handing over needs them: the plugin platform on real files, a registry, and a desk."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from core.domain.ids import EntryId
from core.platform.budget import BudgetStore
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryState
from core.platform.entry_store import EntryStore
from core.platform.handover.recipient import encode_key
from core.platform.loader import Loader
from core.platform.registry import MowerRegistry
from core.platform.secret_store import SecretStore
from edge_agent.handover.handover_desk import HandoverDesk
from tests.core.platform.conftest import Naps, no_http
from tests.fakes.clock import ManualClock
from tests.fakes.misbehaving_folder import install_misbehaving

PIN = "4711-the-pin"
Look = Callable[[], None]


class WatchedStore(EntryStore):
    """Calls `on_step` around each of its writes."""

    on_step: Look = staticmethod(lambda: None)

    async def _save(self) -> None:
        self.on_step()
        await super()._save()
        self.on_step()


class WatchedSecrets(SecretStore):
    """The same."""

    on_step: Look = staticmethod(lambda: None)

    async def flush(self) -> None:
        self.on_step()
        await super().flush()
        self.on_step()


@dataclass(kw_only=True)
class World:
    """One box. `settled` waits for an entry."""

    folder: Path
    entries: ConfigEntries
    registry: MowerRegistry
    desk: HandoverDesk
    store: WatchedStore
    secrets: WatchedSecrets
    naps: Naps
    bonds: set[str] = field(default_factory=set)
    is_clock_right: bool = True

    async def key(self) -> str:
        return encode_key(await self.desk.public_key())

    async def add(self, serial: str, **fields: Any) -> EntryId:
        """An entry with a secret and a mower that the registry knows."""
        data = {"serial": serial, **fields.pop("data", {})}
        record = await self.entries.add(
            domain="misbehaving",
            title=f"Mower {serial}",
            source="user",
            unique_id=serial,
            data=data,
            secrets={"pin": PIN},
            **fields,
        )
        await self.settled(record.entry_id)
        await self.adopt(record.entry_id)
        return record.entry_id

    async def adopt(self, entry_id: EntryId) -> None:
        """As the box's keeper does."""
        names = self.entries.record(entry_id).mower_names
        for mower in self.entries.view(entry_id).mowers:
            await self.registry.adopt(mower, entry_id, given_name=names.get(f"{mower.vendor}:{mower.serial}"))

    async def settled(self, entry_id: EntryId) -> EntryState:
        import asyncio

        async with asyncio.timeout(5):
            while self.entries.view(entry_id).state in (EntryState.SETUP, EntryState.NOT_LOADED):
                await asyncio.sleep(0)
        return self.entries.view(entry_id).state

    def pack(self, *entry_ids: EntryId, key: str, days: float = 14) -> str:
        return self.desk.export(entry_ids, recipient=key, keeps=timedelta(days=days))[1]

    def copy_to(self, folder: Path) -> None:
        """The files as a power cut would leave them now."""
        folder.mkdir()
        for file in self.folder.iterdir():
            if file.is_file() and not file.name.startswith("."):
                shutil.copy2(file, folder)


@asynccontextmanager
async def open_world(folder: Path, clock: ManualClock, *, domains: bool = True) -> AsyncIterator[World]:
    """A box on the files of `folder`; `domains=False`: it has no integration."""
    for name in ("builtin", "custom"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if domains and not (folder / "custom" / "misbehaving").exists():
        install_misbehaving(folder / "custom")
    naps = Naps()
    store = WatchedStore(folder / "entries.json", clock)
    secrets = WatchedSecrets(folder, clock, machine_id=folder / "machine-id")
    loader = Loader(builtin=folder / "builtin", custom=folder / "custom")
    entries = ConfigEntries(
        store=store,
        secrets=secrets,
        budgets=BudgetStore(folder / "budgets.json", clock, naps),
        loader=loader,
        clock=clock,
        http=no_http,
        random=lambda: 0.0,
        sleep=naps,
        setup_deadline_s=2.0,
        close_deadline_s=0.5,
    )
    registry = MowerRegistry(folder / "mowers.json", clock)
    registry.load()
    async with entries:
        desk = HandoverDesk(
            entries=entries,
            registry=registry,
            loader=loader,
            clock=clock,
            is_clock_right=lambda: world.is_clock_right,
            has_bond=lambda address: address in world.bonds,
            box_name=folder.name,
        )
        world = World(
            folder=folder, entries=entries, registry=registry, desk=desk, store=store, secrets=secrets, naps=naps
        )
        yield world
