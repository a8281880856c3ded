"""One config entry on its way: set-up, retry, unload. One lock, one state, one group of plugin tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import aiohttp
import msgspec
import structlog

from core.domain.clock import Clock
from core.domain.errors import (
    AuthFailedError,
    ConflictError,
    IntegrationError,
    MowdeckError,
    NeedsPairingError,
    NotReadyError,
    RateLimitedError,
)
from core.domain.ids import EntryId
from core.domain.limits import RETRY_FIRST_S, RETRY_MAX_S
from core.domain.mower import MowerDescription
from core.platform.bluetooth import EntryPort, MakePort
from core.platform.budget import BudgetStore
from core.platform.entry import EntryRecord, EntryState, EntryView, plain
from core.platform.entry_store import EntryStore
from core.platform.fire_door import call, call_now
from core.platform.guarded import GuardedIntegration
from core.platform.integration import Entry, Integration, IntegrationContext
from core.platform.loader import LoadedIntegration, Loader
from core.platform.manifest import RequestLimit
from core.platform.plugin_log import PluginLog, Redactor
from core.platform.plugin_tasks import PluginTasks
from core.platform.secret_store import SecretStore

log = structlog.get_logger(__name__)

DEFAULT_LIMIT = RequestLimit(burst=120, per_day=86_400)
"""For an integration whose manifest names no `request_limit`."""
RETRY_AFTER_MAX_S = 86_400.0
JITTER = 0.2
"""A wait is lengthened by up to this part of it, so that boxes do not come back in step."""

Http = Callable[[], Awaitable[aiohttp.ClientSession]]
OnChange = Callable[[EntryRecord, EntryState, Integration | None], None]


class MigrationFailedError(IntegrationError):
    """The entry's data is of another version and could not be brought up to date."""

    code = "entry-migration"
    hint = "Install the version of the integration that wrote this entry, or remove it and add it again."


def retry_delay_s(tries: int, retry_after_s: float | None, noise: float) -> float:
    """Wait after `tries` (1 or more) failed set-ups: min(2^n x 5 s, 600 s), or `retry_after_s` if that is longer (at
    most a day); `noise` (0 to 1) adds up to a fifth."""
    wait_s = RETRY_MAX_S if tries > 16 else min(RETRY_FIRST_S * 2 ** (tries - 1), RETRY_MAX_S)
    if retry_after_s is not None and retry_after_s > wait_s:  # NaN compares false
        wait_s = min(retry_after_s, RETRY_AFTER_MAX_S)
    return wait_s * (1 + JITTER * noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every entry's life needs of the box."""

    store: EntryStore
    secrets: SecretStore
    budgets: BudgetStore
    loader: Loader
    clock: Clock
    http: Http
    make_bluetooth: MakePort | None
    random: Callable[[], float]
    setup_deadline_s: float
    close_deadline_s: float
    on_change: OnChange
    before_unload: Callable[[EntryId], Awaitable[None]]
    """Returns when nothing uses the integration any more; has a deadline of its own."""
    retry_in: Callable[[EntryId, float], None]
    fail: Callable[[EntryId, MowdeckError, PluginTasks], None]
    ask_reauth: Callable[[EntryRecord], None]


class EntryLife:
    """The state machine of one entry. `setup` and `unload` never raise for what a plugin does."""

    def __init__(self, record: EntryRecord, around: Surroundings) -> None:
        self.record = record
        self.state = EntryState.NOT_LOADED
        self.integration: GuardedIntegration | None = None
        self.is_removed = False
        self._around = around
        self._lock = asyncio.Lock()
        self._tasks: PluginTasks | None = None
        self._leftovers: list[PluginTasks] = []
        self._bluetooth: EntryPort | None = None
        self._mowers: tuple[MowerDescription, ...] = ()
        self._error: MowdeckError | None = None
        self._tries = 0
        self._next_try_s: float | None = None

    def view(self) -> EntryView:
        """For the API."""
        record, clock = self.record, self._around.clock
        wait_s = None if self._next_try_s is None else max(0.0, self._next_try_s - clock.monotonic())
        return EntryView(
            entry_id=record.entry_id,
            domain=record.domain,
            title=record.title,
            unique_id=record.unique_id,
            source=record.source,
            is_disabled=record.is_disabled,
            created_at=record.created_at,
            state=self.state,
            reason_code=self._error.code if self._error else None,
            reason=self._error.detail if self._error else None,
            hint=self._error.advice if self._error else None,
            tries=self._tries,
            next_try_at=None if wait_s is None else clock.now() + timedelta(seconds=wait_s),
            mowers=self._mowers,
        )

    def _enter(self, state: EntryState, error: MowdeckError | None = None) -> None:
        before, self.state, self._error = self.state, state, error
        if before is not state:
            fields = {} if error is None else {"code": error.code, "detail": error.detail}
            log.info("entry", entry_id=self.record.entry_id, domain=self.record.domain, state=state.value, **fields)
        integration = self.integration if state is EntryState.LOADED else None
        self._around.on_change(self.record, state, integration)

    async def setup(self) -> None:
        """Brings the entry up if it is not. ConflictError: disabled, or old tasks of the plugin still run."""
        async with self._lock:
            if self.state is EntryState.LOADED:
                return
            if self.record.is_disabled or self.is_removed:
                raise ConflictError(f"the entry is {'removed' if self.is_removed else 'disabled'}")
            if any(not tasks.is_empty for tasks in self._leftovers):
                raise ConflictError("tasks of the last set-up still run; restart the agent")
            self._leftovers.clear()
            self._next_try_s = None
            self._enter(EntryState.SETUP)
            try:
                self._mowers = tuple(await self._bring_up())
            except asyncio.CancelledError:
                await self._tear_down()
                self._enter(EntryState.NOT_LOADED)
                raise
            except MowdeckError as err:
                await self._fail(err)
            except Exception as err:  # fire door: one entry never disturbs another
                log.exception("entry cannot be set up", entry_id=self.record.entry_id)
                await self._fail(IntegrationError(f"unexpected {type(err).__name__}"))
            else:
                self._tries = 0
                self._enter(EntryState.LOADED)

    async def retry(self) -> None:
        """A set-up by itself: later again when old tasks of the plugin still run."""
        if any(not tasks.is_empty for tasks in self._leftovers):
            self._around.retry_in(self.record.entry_id, RETRY_MAX_S)
            return
        await self.setup()

    async def _bring_up(self) -> tuple[MowerDescription, ...]:
        around, domain = self._around, self.record.domain
        loaded = await around.loader.load(domain)
        await self._migrate(loaded)
        record = self.record
        if record.needs_pairing:
            raise NeedsPairingError(f"{record.title} came from another box and has not been paired with this one")
        name = f"{domain} {record.entry_id}"
        redact = Redactor(lambda: around.secrets.read(record.entry_id).values())
        self._tasks = tasks = PluginTasks(
            name,
            redact=redact,
            on_fault=lambda err: around.fail(record.entry_id, err, tasks),
            deadline_s=around.close_deadline_s,
        )
        context = IntegrationContext(
            clock=around.clock,
            log=PluginLog(domain, record.entry_id, redact),
            secrets=around.secrets.for_entry(record.entry_id),
            budget=around.budgets.for_key(
                f"{domain}:{record.unique_id or record.entry_id}", loaded.manifest.request_limit or DEFAULT_LIMIT
            ),
            spawn=tasks.spawn,
            http=around.http,
            bluetooth=self._open_bluetooth(),
        )
        plugin = call_now(
            lambda: loaded.create(context, record.entry()), where=f"{name} create", context=tasks.context()
        )
        self.integration = GuardedIntegration(
            plugin, name, tasks, deadline_s=around.setup_deadline_s, close_deadline_s=around.close_deadline_s
        )
        return tuple(await self.integration.mowers())

    async def _migrate(self, loaded: LoadedIntegration) -> None:
        """Brings the stored data to the plugin's version, on the disk too, before the plugin sees it."""
        record, wanted = self.record, loaded.entry_version
        if record.version == wanted:
            return
        migrate = loaded.migrate
        if record.version > wanted or migrate is None:
            raise MigrationFailedError(f"the entry has version {record.version}, the integration {wanted}")
        try:
            fresh: object = await call(
                lambda: migrate(record.entry()),
                where=f"{record.domain} migrate",
                deadline_s=self._around.setup_deadline_s,
                close_deadline_s=self._around.close_deadline_s,
            )
        except MowdeckError as err:
            raise MigrationFailedError(f"migration from version {record.version}: {err.detail}") from err
        if not isinstance(fresh, Entry) or fresh.version != wanted:
            raise MigrationFailedError(f"migration from version {record.version} did not lead to version {wanted}")
        changed = msgspec.structs.replace(
            record,
            title=fresh.title,
            unique_id=fresh.unique_id,
            data=plain(fresh.data, "data"),
            options=plain(fresh.options, "options"),
            version=fresh.version,
        )
        await self._around.store.put(changed)
        self.record = changed

    async def _fail(self, err: MowdeckError) -> None:
        """Takes down what there is and waits, asks or parks, as the error says."""
        ended = await self._tear_down()
        self._mowers = ()
        if not ended:
            self._enter(EntryState.UNLOAD_FAILED, err)
            if err.retryable:
                self._around.retry_in(self.record.entry_id, RETRY_MAX_S)
        elif isinstance(err, MigrationFailedError):
            self._enter(EntryState.MIGRATION_ERROR, err)
        elif isinstance(err, AuthFailedError):
            self._enter(EntryState.AUTH_FAILED, err)
            self._around.ask_reauth(self.record)
        elif err.retryable:
            self._tries += 1
            retry_after_s = err.retry_after_s if isinstance(err, NotReadyError | RateLimitedError) else None
            wait_s = retry_delay_s(self._tries, retry_after_s, self._around.random())
            self._next_try_s = self._around.clock.monotonic() + wait_s
            self._enter(EntryState.RETRY, err)
            self._around.retry_in(self.record.entry_id, wait_s)
        else:
            self._enter(EntryState.ERROR, err)

    async def collapse(self, err: MowdeckError, tasks: PluginTasks | None = None) -> None:
        """A loaded entry turns out to be broken (a task of the plugin died, a link was refused). `tasks` names the
        set-up that is meant; a later one is left alone."""
        async with self._lock:
            if self.state is not EntryState.LOADED or (tasks is not None and tasks is not self._tasks):
                return
            self._enter(EntryState.NOT_LOADED, err)
            await self._around.before_unload(self.record.entry_id)
            await self._fail(err)

    async def unload(self) -> None:
        """Takes the entry down; afterwards it is not_loaded, or unload_failed when tasks of the plugin live on."""
        async with self._lock:
            self._tries, self._next_try_s = 0, None
            if self.state is EntryState.LOADED:
                self._enter(EntryState.NOT_LOADED)
                await self._around.before_unload(self.record.entry_id)
            ended = await self._tear_down()
            self._mowers = ()
            if not ended or any(not tasks.is_empty for tasks in self._leftovers):
                self._enter(EntryState.UNLOAD_FAILED, IntegrationError("tasks of the integration do not end"))
            elif self.state is not EntryState.NOT_LOADED:
                self._enter(EntryState.NOT_LOADED)

    async def _tear_down(self) -> bool:
        """Closes the integration and its tasks; whether all of them ended."""
        integration, self.integration = self.integration, None
        tasks, self._tasks = self._tasks, None
        if integration is not None:
            try:
                await integration.close()
            except MowdeckError as err:
                log.warning("integration did not close in peace", entry_id=self.record.entry_id, detail=err.detail)
        has_ended = tasks is None or not await tasks.close()
        if tasks is not None and not has_ended:
            self._leftovers.append(tasks)
        if self._bluetooth is not None:
            self._bluetooth.close()
            self._bluetooth = None
        return has_ended

    def _open_bluetooth(self) -> EntryPort | None:
        make = self._around.make_bluetooth
        self._bluetooth = None if make is None else make()
        return self._bluetooth
