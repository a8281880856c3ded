"""All config entries of the box: adding, changing and removing them, and keeping each one up.

    async with ConfigEntries(store=..., ...) as entries:
        entries.observe(on_change)
        entries.start()
        ...

Leaving the block unloads all of them. Entries never disturb each other, whatever their plugins do.
"""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

import msgspec
import structlog

from core.domain.clock import Clock
from core.domain.errors import (
    ConflictError,
    LimitExceededError,
    MowdeckError,
    NotFoundError,
    StorageError,
)
from core.domain.ids import EntryId, make_id
from core.domain.limits import CLOSE_DEADLINE_S, ENTRIES, SETUP_DEADLINE_S
from core.platform.bluetooth import MakePort
from core.platform.budget import BudgetStore, Sleep
from core.platform.containment import containing_tasks
from core.platform.entry import EntryRecord, EntrySource, EntryState, EntryView, find_record, plain
from core.platform.entry_import import Arrivals, require_importable, write_import
from core.platform.entry_life import EntryLife, Http, OnChange, Surroundings
from core.platform.entry_store import EntryStore
from core.platform.ignored_devices import IgnoredDevices
from core.platform.integration import Integration
from core.platform.loader import Loader
from core.platform.owned_tasks import OwnedTasks
from core.platform.plugin_tasks import PluginTasks
from core.platform.secret_store import SecretStore

log = structlog.get_logger(__name__)

BeforeUnload = Callable[[EntryId], Awaitable[None]]


class ConfigEntries:
    """Owns every entry's tasks. `store`, `secrets` and `budgets` are loaded on entering and written on leaving."""

    def __init__(
        self,
        *,
        store: EntryStore,
        secrets: SecretStore,
        budgets: BudgetStore,
        loader: Loader,
        clock: Clock,
        http: Http,
        make_bluetooth: MakePort | None = None,
        random: Callable[[], float] = random_module.random,
        sleep: Sleep = asyncio.sleep,
        setup_deadline_s: float = SETUP_DEADLINE_S,
        close_deadline_s: float = CLOSE_DEADLINE_S,
    ) -> None:
        self.store = store
        self.ignored = IgnoredDevices(store, clock)
        self.secrets = secrets
        self._budgets = budgets
        self._clock = clock
        self._sleep = sleep
        self._close_deadline_s = close_deadline_s
        self._lives: dict[EntryId, EntryLife] = {}
        self._observers: list[OnChange] = []
        self._before_unload: list[BeforeUnload] = []
        self._on_auth_failed: list[Callable[[EntryRecord], Awaitable[None]]] = []
        self._on_removed: list[Callable[[EntryRecord], None]] = []
        self.on_seen: Callable[[EntryId], None] | None = None
        self._tasks = OwnedTasks()
        self._containment = ExitStack()
        self._retries: dict[EntryId, asyncio.Task[None]] = {}
        self._around = Surroundings(
            store=store,
            secrets=secrets,
            budgets=budgets,
            loader=loader,
            clock=clock,
            http=http,
            make_bluetooth=make_bluetooth,
            random=random,
            setup_deadline_s=setup_deadline_s,
            close_deadline_s=close_deadline_s,
            on_change=self._notify,
            before_unload=self._await_users,
            retry_in=self._retry_in,
            fail=self._fail_soon,
            ask_reauth=self._ask_reauth,
        )

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._load)
        self._lives = {record.entry_id: EntryLife(record, self._around) for record in self.store.entries()}
        self._containment.enter_context(containing_tasks(asyncio.get_running_loop()))
        await self._tasks.__aenter__()
        return self

    def _load(self) -> None:
        self.store.load()
        self.secrets.load()
        for entry_id in self.store.unfinished():
            self.secrets.remove(entry_id)  # of an import that was cut off
        self._budgets.load()

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._close()
        finally:
            with self._containment:
                await self._tasks.__aexit__(kind, err, trace)

    async def _close(self) -> None:
        await self._tasks.cancel_all()
        await asyncio.gather(*(self._tasks.own(life.unload, f"unload {key}") for key, life in self._lives.items()))
        try:
            await self.secrets.flush()
            await self._budgets.close()
        except StorageError as err:
            log.error("not all is on the disk", detail=err.detail)
        await asyncio.to_thread(self.secrets.close)

    # Who wants to know

    def observe(self, on_change: OnChange) -> None:
        """Calls `on_change(record, state, integration)` at every change; the integration is given while the entry is
        loaded. NOT_LOADED comes before the integration is closed."""
        self._observers.append(on_change)

    def before_unload(self, wait: BeforeUnload) -> None:
        """Awaits `wait(entry_id)` after NOT_LOADED was announced and before the integration is closed, so that links
        can end first; it has twice the close deadline."""
        self._before_unload.append(wait)

    def on_removed(self, callback: Callable[[EntryRecord], None]) -> None:
        """Calls back once an entry is gone for good."""
        self._on_removed.append(callback)

    def on_auth_failed(self, start_reauth: Callable[[EntryRecord], Awaitable[None]]) -> None:
        """Awaits `start_reauth(record)` in a task of ours when credentials were refused."""
        self._on_auth_failed.append(start_reauth)

    def _notify(self, record: EntryRecord, state: EntryState, integration: Integration | None) -> None:
        for observer in self._observers:
            observer(record, state, integration)

    async def _await_users(self, entry_id: EntryId) -> None:
        for wait in self._before_unload:
            try:
                async with asyncio.timeout(2 * self._close_deadline_s):
                    await wait(entry_id)
            except TimeoutError:
                log.error("links did not end before their integration", entry_id=entry_id)

    def _ask_reauth(self, record: EntryRecord) -> None:
        for start in self._on_auth_failed:
            self._tasks.spawn(partial(start, record), f"reauth {record.entry_id}")

    # What there is

    def views(self) -> Sequence[EntryView]:
        """All entries, oldest first."""
        return tuple(life.view() for _, life in sorted(self._lives.items()))

    def view(self, entry_id: EntryId) -> EntryView:
        """One entry; NotFoundError."""
        return self._life(entry_id).view()

    def record(self, entry_id: EntryId) -> EntryRecord:
        """One entry as stored; NotFoundError."""
        return self._life(entry_id).record

    def records(self, domain: str | None = None) -> Sequence[EntryRecord]:
        """All entries as stored, or those of one domain."""
        return tuple(life.record for life in self._lives.values() if domain in (None, life.record.domain))

    def find(self, domain: str, unique_id: str, same: Mapping[str, Any] | None = None) -> EntryRecord | None:
        """The entry of a device or account: the one with this unique id, else one whose data hold all of `same`."""
        return find_record(self.records(domain), unique_id, same or {})

    def integration(self, entry_id: EntryId) -> Integration | None:
        """The set-up integration while the entry is loaded."""
        life = self._life(entry_id)
        return life.integration if life.state is EntryState.LOADED else None

    def _life(self, entry_id: EntryId) -> EntryLife:
        life = self._lives.get(entry_id)
        if life is None:
            raise NotFoundError(f"there is no entry {entry_id!r}")
        return life

    # Changing them

    async def add(
        self,
        *,
        domain: str,
        title: str,
        source: EntrySource,
        unique_id: str | None = None,
        data: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        version: int = 1,
        entry_id: EntryId | None = None,
    ) -> EntryRecord:
        """Stores a new entry and begins to set it up. ConflictError when its unique id (or `entry_id`) is taken."""
        if unique_id is not None and self.find(domain, unique_id) is not None:
            raise ConflictError(f"{domain} has an entry for {unique_id!r} already")
        if len(self._lives) >= ENTRIES:
            raise LimitExceededError(f"at most {ENTRIES} entries")
        now = self._clock.now()
        record = EntryRecord(
            entry_id=entry_id or EntryId(make_id(now)),
            domain=domain,
            title=title,
            source=source,
            created_at=now,
            unique_id=unique_id,
            data=plain(data or {}, "data"),
            options=plain(options or {}, "options"),
            version=version,
        )
        if record.entry_id in self._lives:
            raise ConflictError(f"there is an entry {record.entry_id!r} already")
        self._lives[record.entry_id] = life = EntryLife(record, self._around)
        try:
            if secrets:
                self.secrets.change(record.entry_id, secrets)
                await self.secrets.flush()
            await self.store.put(record)
        except BaseException:
            del self._lives[record.entry_id]
            self.secrets.remove(record.entry_id)
            raise
        self._tasks.spawn(life.setup, f"set up {record.entry_id}")
        return record

    async def add_imported(self, arrivals: Arrivals) -> None:
        """Stores all entries of a handed-over bundle in one step, and begins to set them up; when it fails or the box
        dies, none. Goes on when the caller is cancelled. ConflictError: imported before, or an entry is there already."""
        await self._tasks.own(partial(self._import, arrivals), f"import {arrivals.bundle.bundle_id}")

    async def _import(self, arrivals: Arrivals) -> None:
        require_importable(arrivals, self.store, known=self.records())
        lives = {record.entry_id: EntryLife(record, self._around) for record in arrivals.records}
        self._lives.update(lives)
        try:
            await write_import(arrivals, self.store, self.secrets)
        except BaseException:
            self._lives = {key: life for key, life in self._lives.items() if key not in lives}
            raise
        for entry_id, life in lives.items():
            if not life.record.is_disabled:
                self._tasks.spawn(life.setup, f"set up {entry_id}")

    async def update(
        self,
        entry_id: EntryId,
        *,
        title: str | None = None,
        data: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        is_disabled: bool | None = None,
        needs_pairing: bool | None = None,
        unique_id: str | None = None,
    ) -> EntryRecord:
        """Stores changes; what is None stays. Only `is_disabled` acts at once; for the rest `reload` follows.
        ConflictError when another entry has `unique_id`."""
        life = self._life(entry_id)
        holder = None if unique_id is None else self.find(life.record.domain, unique_id)
        if holder is not None and holder.entry_id != entry_id:
            raise ConflictError(f"{holder.domain} has an entry for {unique_id!r} already")
        changed = msgspec.structs.replace(
            life.record,
            title=life.record.title if title is None else title,
            data=life.record.data if data is None else plain(data, "data"),
            options=life.record.options if options is None else plain(options, "options"),
            is_disabled=life.record.is_disabled if is_disabled is None else is_disabled,
            needs_pairing=life.record.needs_pairing if needs_pairing is None else needs_pairing,
            unique_id=life.record.unique_id if unique_id is None else unique_id,
        )
        if secrets:
            self.secrets.change(entry_id, secrets)
            await self.secrets.flush()
        before, life.record = life.record, changed
        if changed != before:
            try:
                await self.store.put(changed)
            except BaseException:
                life.record = before
                raise
        if changed.is_disabled and not before.is_disabled:
            await self.unload(entry_id)
        elif before.is_disabled and not changed.is_disabled:
            self._tasks.spawn(life.setup, f"set up {entry_id}")
        return life.record

    async def remove(self, entry_id: EntryId) -> None:
        """Unloads and forgets an entry with its secrets, even when its plugin does not let go."""
        life = self._life(entry_id)
        life.is_removed = True  # a set-up that is on its way comes to nothing
        try:
            await self.unload(entry_id)
            await self.store.remove(entry_id)
        except BaseException:
            life.is_removed = False
            raise
        if self._lives.pop(entry_id, None) is None:
            return  # somebody else has removed it meanwhile
        self.secrets.remove(entry_id)
        await self.secrets.flush()
        for callback in self._on_removed:
            callback(life.record)

    # Bringing them up and down

    def start(self) -> None:
        """Begins to set up every entry that is not disabled."""
        for entry_id, life in self._lives.items():
            if not life.record.is_disabled:
                self._tasks.spawn(life.setup, f"set up {entry_id}")

    async def setup(self, entry_id: EntryId) -> None:
        """Sets an entry up; what became of it is in its state. ConflictError: disabled, or its old tasks still run.
        Goes on when the caller is cancelled."""
        life = self._life(entry_id)
        self._cancel_retry(entry_id)
        await self._tasks.own(life.setup, f"set up {entry_id}")

    async def unload(self, entry_id: EntryId) -> None:
        """Takes an entry down and leaves it so. Goes on when the caller is cancelled."""
        life = self._life(entry_id)
        self._cancel_retry(entry_id)
        await self._tasks.own(life.unload, f"unload {entry_id}")

    async def reload(self, entry_id: EntryId) -> None:
        """Takes an entry down and sets it up anew. Goes on when the caller is cancelled."""
        life = self._life(entry_id)

        async def work() -> None:
            await life.unload()
            await life.setup()

        self._cancel_retry(entry_id)
        await self._tasks.own(work, f"reload {entry_id}")

    async def fail(self, entry_id: EntryId, err: MowdeckError) -> None:
        """What a link of a loaded entry has shown to be true for all of it (above all AuthFailedError): the entry
        leaves LOADED as if its set-up had failed so."""
        life = self._life(entry_id)
        await self._tasks.own(lambda: life.collapse(err), f"fail {entry_id}")

    def nudge(self, domain: str, unique_id: str) -> None:
        """The device has just been seen: an entry that waits for its next try is set up now, and `on_seen` is told."""
        record = self.find(domain, unique_id)
        if record is not None and self.on_seen is not None:
            self.on_seen(record.entry_id)
        if record is not None and self._lives[record.entry_id].state is EntryState.RETRY:
            self._cancel_retry(record.entry_id)
            self._tasks.spawn(self._lives[record.entry_id].setup, f"set up {record.entry_id}")

    def _fail_soon(self, entry_id: EntryId, err: MowdeckError, tasks: PluginTasks) -> None:
        life = self._lives.get(entry_id)
        if life is not None:
            self._tasks.spawn(lambda: life.collapse(err, tasks), f"fail {entry_id}")

    def _retry_in(self, entry_id: EntryId, wait_s: float) -> None:
        async def retry() -> None:
            await self._sleep(wait_s)
            self._retries.pop(entry_id, None)  # from here on it is a set-up like any other
            life = self._lives.get(entry_id)
            if life is not None:
                await life.retry()

        self._cancel_retry(entry_id)
        task = self._tasks.spawn(retry, f"retry {entry_id}")
        if task is not None:
            self._retries[entry_id] = task

    def _cancel_retry(self, entry_id: EntryId) -> None:
        retry = self._retries.pop(entry_id, None)
        if retry is not None:
            retry.cancel()
