"""Keeps the runtime in step with the config entries: an entry that is loaded has its mowers supervised, one that is
not has none. Nothing here sends a command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from core.domain.errors import ConflictError, MowdeckError
from core.domain.ids import EntryId, MowerId
from core.domain.mower import MowerDescription
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryRecord, EntryState
from core.platform.integration import Integration
from core.platform.registry import MowerRegistry
from core.storage.telemetry_store import DirectoryEntry, TelemetryStore
from edge_agent.household.account import HouseholdAccount
from edge_agent.runtime.commander import Commander
from edge_agent.runtime.door import DoorStatus
from edge_agent.runtime.intake import Intake
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.supervisor import Supervisor

_log = structlog.get_logger(__name__)

PENDING = 1_024
"""Changes waiting to be carried out; each entry and mower has at most a few, so this is never reached."""


class MowerKeeper:
    """`run` carries changes out one by one; the callbacks only note them."""

    def __init__(
        self,
        *,
        entries: ConfigEntries,
        registry: MowerRegistry,
        supervisor: Supervisor,
        intake: Intake,
        live: LiveStates,
        commander: Commander,
        store: TelemetryStore,
        account: HouseholdAccount,
        on_inventory: Callable[[], None],
    ) -> None:
        self._entries = entries
        self._registry = registry
        self._supervisor = supervisor
        self._intake = intake
        self._live = live
        self._commander = commander
        self._store = store
        self._account = account
        self._on_inventory = on_inventory
        self._served: dict[MowerId, EntryId] = {}
        self._changes: asyncio.Queue[EntryId | MowerId] = asyncio.Queue(PENDING)
        self._gate = asyncio.Lock()
        entries.observe(self._note_entry)
        entries.before_unload(self.release)
        entries.on_removed(lambda record: self._changes.put_nowait(record.entry_id))

    # -- what is noted

    def _note_entry(self, record: EntryRecord, state: EntryState, _: Integration | None) -> None:
        if state is EntryState.LOADED:
            self._changes.put_nowait(record.entry_id)
        self._on_inventory()

    def note_door(self, status: DoorStatus) -> None:
        """A door has changed: its link may have said what the mower can do."""
        self._changes.put_nowait(status.mower_id)

    # -- carrying it out

    async def run(self) -> None:
        """Until cancelled. Waits for the household's account: before it there is nobody whose mowers they are."""
        await self._account.wait()
        while True:
            changed = await self._changes.get()
            try:
                async with self._gate:
                    await self._carry_out(changed)
            except MowdeckError as err:
                _log.error("a change of the mowers could not be carried out", changed=changed, detail=err.detail)
            self._on_inventory()

    async def _carry_out(self, changed: str) -> None:
        if changed in self._served:
            able = self._supervisor.capabilities(MowerId(changed))
            if able is not None:
                await self._registry.note_capabilities(MowerId(changed), able)
            return
        entry_id = EntryId(changed)
        if all(record.entry_id != entry_id for record in self._entries.records()):
            await self._registry.detach(entry_id)
            return
        integration = self._entries.integration(entry_id)
        if integration is not None:
            for description in self._entries.view(entry_id).mowers:
                await self._serve(entry_id, description, integration)

    async def _serve(self, entry_id: EntryId, description: MowerDescription, integration: Integration) -> None:
        mower_id = await self._registry.adopt(description, entry_id)
        if mower_id in self._served:
            if self._served[mower_id] != entry_id:
                _log.warning("two entries reach one mower; the first keeps it", mower_id=mower_id, entry_id=entry_id)
            return
        account_id = self._account.require()
        name = self._registry.get(mower_id).name
        entry = DirectoryEntry(mower_id=mower_id, account_id=account_id, edge_id=None, name=name)
        await self._store.put_directory([entry])
        await self._account.place(mower_id)
        if self._intake.last(mower_id) is None:
            latest = await self._store.latest(account_id, mower_id)
            self._intake.add(mower_id, None if latest is None else latest.state)
        self._supervisor.add(mower_id, description, integration, description.links)
        self._served[mower_id] = entry_id

    async def release(self, entry_id: EntryId) -> None:
        """Ends the links of an entry that is about to be unloaded; its mowers stay known, and offline."""
        async with self._gate:
            for mower_id in [m for m, e in self._served.items() if e == entry_id]:
                await self._supervisor.remove(mower_id)
                self._served.pop(mower_id, None)

    async def remove(self, mower_id: MowerId) -> None:
        """Forgets a mower and every row of it. ConflictError while an entry reaches it."""
        async with self._gate:
            mower = self._registry.get(mower_id)
            if mower.links:
                raise ConflictError(
                    f"{mower.name} is reached by an integration", hint="Remove the integration's entry first."
                )
            self._commander.forget(mower_id)
            self._intake.forget(mower_id)
            self._live.forget(mower_id)
            await self._account.displace(mower_id)
            await self._registry.remove(mower_id)
            await self._store.purge_mower(mower_id)
        self._on_inventory()
