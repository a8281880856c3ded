"""Keeps the runtime in step with the config entries: an entry that is loaded has a link kept to each of its mowers, one
that is not has none. A mower that several entries reach is one mower with several links, which come and go with
their entries. Nothing here sends a command.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import structlog

from core.domain.errors import AuthFailedError, ConflictError, MowdeckError, OutOfRangeError
from core.domain.ids import EntryId, MowerId
from core.domain.mower import MowerDescription
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryRecord, EntryState
from core.platform.integration import Integration, MowerKey, key_of
from core.platform.registry import MowerRegistry
from core.storage.telemetry_store import DirectoryEntry, TelemetryStore
from edge_agent.household.account import HouseholdAccount
from edge_agent.runtime.commander import Commander
from edge_agent.runtime.door import DoorStatus, Phase
from edge_agent.runtime.intake import Intake
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.supervisor import Supervisor

_log = structlog.get_logger(__name__)

_Id = TypeVar("_Id", EntryId, MowerId)

RETRY_S = 10.0
"""A change that could not be carried out (the disk is full, the database is busy) is tried again after this."""


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
        retry_s: float = RETRY_S,
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
        self._retry_s = retry_s
        self._served: set[tuple[MowerId, EntryId]] = set()
        self._changed_entries: dict[EntryId, None] = {}
        self._changed_doors: dict[MowerId, None] = {}
        self._refused: dict[EntryId, str] = {}
        self._noted = asyncio.Event()
        self._gate = asyncio.Lock()
        entries.observe(self._note_entry)
        entries.before_unload(self.release)
        entries.on_seen = self._seen
        entries.on_removed(lambda record: self._note(record.entry_id))

    # -- what is noted: that something changed, not how; so there are never more notes than entries and mowers

    def _note(self, entry_id: EntryId) -> None:
        self._changed_entries[entry_id] = None
        self._noted.set()

    def _note_entry(self, record: EntryRecord, state: EntryState, _: Integration | None) -> None:
        if state is EntryState.LOADED:
            self._note(record.entry_id)
        self._on_inventory()

    def note_door(self, status: DoorStatus) -> None:
        """A door has changed: its link may have said what the mower can do, or that its credentials do not hold."""
        self._changed_doors[status.mower_id] = None
        is_served = (status.mower_id, status.entry_id) in self._served
        if is_served and status.phase is Phase.PARKED and status.code == AuthFailedError.code:
            self._refused[status.entry_id] = status.detail or ""
        self._noted.set()

    def _seen(self, entry_id: EntryId) -> None:
        """A device is there again: whoever waits because it was away does not wait any longer. All other waits stay:
        they are what the mower or its vendor has asked for."""
        for door in self._supervisor.statuses():
            is_away = door.phase is Phase.WAITING and door.code == OutOfRangeError.code
            if is_away and (door.mower_id, entry_id) in self._served:
                self._supervisor.resume(door.mower_id)

    # -- carrying it out

    async def run(self) -> None:
        """Until cancelled. Waits for the household's account: before it there is nobody whose mowers they are."""
        await self._account.wait()
        while True:
            await self._noted.wait()
            self._noted.clear()
            entries, self._changed_entries = self._changed_entries, {}
            doors, self._changed_doors = self._changed_doors, {}
            failed = False
            for entry_id in entries:
                failed |= not await self._carry_out(self._follow, entry_id)
            for mower_id in doors:
                failed |= not await self._carry_out(self._ask_abilities, mower_id)
            await self._fail_refused()
            self._on_inventory()
            if failed:
                self._changed_entries = {**entries, **self._changed_entries}
                self._changed_doors = {**doors, **self._changed_doors}
                await self._pause()

    async def _fail_refused(self) -> None:
        """Credentials that a link found refused are refused for the whole entry: a person is asked for new ones."""
        refused, self._refused = self._refused, {}
        for entry_id, detail in refused.items():
            try:
                await self._entries.fail(entry_id, AuthFailedError(detail))
            except MowdeckError as err:
                _log.warning("an entry could not be failed", entry_id=entry_id, detail=err.detail)

    async def _pause(self) -> None:
        """Until it is worth trying again: after a while, or as soon as something else has changed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._retry_s):
                await self._noted.wait()
        self._noted.set()

    async def _carry_out(self, change: Callable[[_Id], Awaitable[None]], changed: _Id) -> bool:
        try:
            async with self._gate:
                await change(changed)
        except MowdeckError as err:
            _log.error("a change of the mowers could not be carried out yet", changed=changed, detail=err.detail)
            return False
        return True

    async def _ask_abilities(self, mower_id: MowerId) -> None:
        able = self._supervisor.abilities(mower_id)
        if able:
            await self._registry.note_capabilities(mower_id, able)

    async def _follow(self, entry_id: EntryId) -> None:
        """Serves every mower of a loaded entry; detaches those of one that has gone."""
        if self._is_gone(entry_id):
            await self._detach(entry_id)
            return
        integration = self._entries.integration(entry_id)
        if integration is not None:
            names = self._entries.record(entry_id).mower_names
            for description in self._entries.view(entry_id).mowers:
                await self._serve(entry_id, description, integration, names)

    async def _detach(self, entry_id: EntryId) -> None:
        mowers = self._registry.of_entry(entry_id)
        await self._registry.detach(entry_id)
        for mower in mowers:
            self._intake.forget_entry(mower.mower_id, entry_id)

    def _is_gone(self, entry_id: EntryId) -> bool:
        return all(record.entry_id != entry_id for record in self._entries.records())

    async def _serve(
        self,
        entry_id: EntryId,
        description: MowerDescription,
        integration: Integration,
        names: Mapping[MowerKey, str],
    ) -> None:
        given = names.get(key_of(description))
        mower_id = await self._registry.adopt(description, entry_id, given_name=given)
        if (mower_id, entry_id) in self._served:
            return
        account_id = self._account.require()
        name = self._registry.get(mower_id).name
        entry = DirectoryEntry(mower_id=mower_id, account_id=account_id, edge_id=None, name=name)
        await self._store.put_directory([entry])
        await self._account.place(mower_id)
        if self._intake.last(mower_id) is None:
            latest = await self._store.latest(account_id, mower_id)
            self._intake.add(mower_id, None if latest is None else latest.state)
        self._supervisor.add(mower_id, entry_id, description, integration, description.links)
        self._served.add((mower_id, entry_id))

    async def release(self, entry_id: EntryId) -> None:
        """Ends the links of an entry that is about to be unloaded, all at once: a stubborn one must not keep the
        others. Its mowers stay known, and offline unless another entry reaches them."""
        async with self._gate:
            served = {(mower_id, entry) for mower_id, entry in self._served if entry == entry_id}
            self._served -= served
            async with asyncio.TaskGroup() as group:
                for mower_id, _ in served:
                    group.create_task(self._supervisor.remove(mower_id, entry_id), name=f"release {mower_id}")

    # -- forgetting

    async def remove(self, mower_id: MowerId) -> None:
        """Forgets a mower and every row of it. ConflictError while an entry reaches it. Cut off in the middle, it is
        simply asked for again: the registry forgets the mower when its rows are gone."""
        async with self._gate:
            for entry_id in [e for e in self._registry.get(mower_id).links if self._is_gone(e)]:
                await self._detach(entry_id)
            mower = self._registry.get(mower_id)
            if any(self._may_reach(entry_id, mower.key) for entry_id in mower.links):
                raise ConflictError(
                    f"{mower.name} is reached by an integration", hint="Remove the integration's entry first."
                )
            self._commander.forget(mower_id)
            self._intake.forget(mower_id)
            self._live.forget(mower_id)
            await self._store.purge_mower(mower_id)
            await self._registry.remove(mower_id)
            await self._account.displace(mower_id)
        self._on_inventory()

    def _may_reach(self, entry_id: EntryId, key: MowerKey) -> bool:
        """False only for an entry that is up and does not have the mower any more (sold, moved to another vendor
        account)."""
        view = self._entries.view(entry_id)
        return view.state is not EntryState.LOADED or any(key_of(mower) == key for mower in view.mowers)
