"""Drives config flows: starts them, checks what people type, bounds how many there are, and turns their ends into
entries. Whatever a plugin's step does wrong ends that flow and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

import structlog

from core.domain.clock import Clock
from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError, NotFoundError
from core.domain.ids import EntryId, FlowId, make_id
from core.domain.limits import CLOSE_DEADLINE_S, FLOW_TTL_S, FLOWS_DISCOVERED, FLOWS_OPEN, STEP_DEADLINE_S
from core.platform.bluetooth import BluetoothPort
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryRecord, EntrySource
from core.platform.entry_life import Http
from core.platform.fields import suggest
from core.platform.flow import (
    AbortFlowError,
    AbortResult,
    CreateEntryResult,
    ExternalResult,
    FlowContext,
    FlowResult,
    FlowSource,
    FormResult,
    MenuResult,
    ProgressResult,
)
from core.platform.flow_step import StepRunner
from core.platform.flow_view import FlowView
from core.platform.integration import Entry
from core.platform.loader import Loader
from core.platform.open_flow import OpenFlow
from core.platform.owned_tasks import OwnedTasks
from core.platform.plugin_log import PluginLog
from core.platform.plugin_tasks import PluginTasks

log = structlog.get_logger(__name__)

WITH_ENTRY: frozenset[FlowSource] = frozenset({"reauth", "reconfigure"})
UNASKED: frozenset[FlowSource] = frozenset({"discovery", "reauth"})
"""Sources that no person starts."""
ENDS = (CreateEntryResult, AbortResult)


ENDED_KEPT = 32
"""Ends of flows that whoever polls for the progress may still ask for."""


class FlowDirector:
    """`async with FlowDirector(...) as flows:`. A flow that has ended is answered once and then gone."""

    def __init__(
        self,
        *,
        entries: ConfigEntries,
        loader: Loader,
        clock: Clock,
        http: Http,
        bluetooth: BluetoothPort | None = None,
        step_deadline_s: float = STEP_DEADLINE_S,
        close_deadline_s: float = CLOSE_DEADLINE_S,
    ) -> None:
        self._entries = entries
        self._loader = loader
        self._clock = clock
        self._http = http
        self._bluetooth = bluetooth
        self._step_deadline_s = step_deadline_s
        self._close_deadline_s = close_deadline_s
        self._open: dict[FlowId, OpenFlow] = {}
        self._ended: dict[FlowId, FlowView] = {}
        self._tasks = OwnedTasks()
        entries.on_auth_failed(self.start_reauth)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._tasks.cancel_all()
            for opened in tuple(self._open.values()):
                await opened.tasks.close()
            self._open.clear()
        finally:
            await self._tasks.__aexit__(kind, err, trace)

    async def start(
        self, domain: str, source: FlowSource = "user", context: Mapping[str, Any] | None = None
    ) -> FlowView:
        """Begins a flow and takes its first step. `context` holds what discovery found; for reauth and reconfigure its
        `entry_id`. NotFoundError, IntegrationErrors of loading, ConflictError (no flow; one open already),
        LimitExceededError."""
        details = dict(context or {})
        record = self._entries.record(EntryId(str(details.get("entry_id")))) if source in WITH_ENTRY else None
        if record is not None and record.domain != domain:
            raise InvalidInputError.of("entry_id", f"is no entry of {domain}")
        if record is not None and self._find_for_entry(record.entry_id, source) is not None:
            raise ConflictError(f"a {source} of this entry is open already")
        self._make_room(source)
        loaded = await self._loader.load(domain)
        if loaded.flow_class is None:
            raise ConflictError(f"{domain} has no config flow")
        flow_id = FlowId(make_id(self._clock.now()))
        tasks = PluginTasks(
            f"{domain} flow {flow_id}", on_fault=lambda _: None, redact=_keep, deadline_s=self._close_deadline_s
        )
        steps = StepRunner(tasks, deadline_s=self._step_deadline_s, close_deadline_s=self._close_deadline_s)
        flow_context = FlowContext(
            flow_id=flow_id,
            domain=domain,
            source=source,
            details=details,
            entry=record.entry() if record is not None else None,
            clock=self._clock,
            log=PluginLog(domain, flow_id, _keep),
            http=self._http,
            port=self,
            bluetooth=self._bluetooth,
            secrets=self._entries.secrets.for_entry(record.entry_id) if record is not None else None,
        )
        flow = await steps.make(loaded.flow_class, flow_context)
        waiting = AbortResult(reason="not_started")
        self._make_room(source)  # loading has taken time
        self._open[flow_id] = opened = OpenFlow(
            flow=flow, steps=steps, tasks=tasks, loaded=loaded, result=waiting, touched_at=self._clock.monotonic()
        )
        async with opened.lock:
            first = None if source != "import" else details
            return await self._go(flow_id, opened, source, first)

    def _make_room(self, source: FlowSource) -> None:
        self._expire()
        unasked = sum(opened.flow.source in UNASKED for opened in self._open.values())
        if len(self._open) >= FLOWS_OPEN or (source in UNASKED and unasked >= FLOWS_DISCOVERED):
            raise LimitExceededError("too many flows are open; finish or cancel one")

    def _expire(self) -> None:
        oldest = self._clock.monotonic() - FLOW_TTL_S
        for flow_id in [key for key, opened in self._open.items() if opened.touched_at < oldest]:
            log.info("flow expired", flow_id=flow_id, domain=self._open[flow_id].flow.context.domain)
            self._drop(flow_id)

    def _drop(self, flow_id: FlowId) -> None:
        """Forgets a flow and ends what it left running."""
        opened = self._open.pop(flow_id, None)
        if opened is not None:
            self._tasks.spawn(partial(_close, opened.tasks), f"close flow {flow_id}")

    async def start_reauth(self, record: EntryRecord) -> None:
        """Asks for new credentials, unless that is being done already or the integration has no flow for it."""
        if self._find_for_entry(record.entry_id, "reauth") is not None:
            return
        loaded = await self._loader.load(record.domain)
        if loaded.flow_class is None or not hasattr(loaded.flow_class, "step_reauth"):
            log.warning("credentials refused, and the integration has no reauth", entry_id=record.entry_id)
            return
        await self.start(record.domain, "reauth", {"entry_id": record.entry_id})

    def _find_for_entry(self, entry_id: EntryId, source: FlowSource) -> OpenFlow | None:
        for opened in self._open.values():
            entry = opened.flow.context.entry
            if entry is not None and entry.entry_id == entry_id and opened.flow.source == source:
                return opened
        return None

    def list(self) -> Sequence[FlowView]:
        """All open flows, oldest first."""
        self._expire()
        return tuple(self._view(flow_id, opened) for flow_id, opened in self._open.items())

    def get(self, flow_id: FlowId) -> FlowView:
        """An open flow where it stands, or how one ended whose last step was work that nobody waited for (those are
        kept for a while); NotFoundError for any other."""
        ended = self._ended.get(flow_id)
        return ended if ended is not None else self._view(flow_id, self._find(flow_id))

    def cancel(self, flow_id: FlowId) -> None:
        """Ends a flow without a result; NotFoundError."""
        self._find(flow_id)
        self._drop(flow_id)

    async def ignore(self, flow_id: FlowId) -> None:
        """Ends a discovered flow, and its device is never offered again. ConflictError when it names no device."""
        flow = self._find(flow_id).flow
        if flow.source != "discovery" or flow.unique_id is None:
            raise ConflictError("only a discovered device can be ignored")
        title = str(flow.context.details.get("name") or flow.unique_id)
        await self._entries.ignored.add(flow.context.domain, flow.unique_id, title)
        self._drop(flow_id)

    def _find(self, flow_id: FlowId) -> OpenFlow:
        self._expire()
        opened = self._open.get(flow_id)
        if opened is None:
            raise NotFoundError(f"there is no open flow {flow_id!r}")
        return opened

    def _view(self, flow_id: FlowId, opened: OpenFlow) -> FlowView:
        context = opened.flow.context
        left_s = opened.touched_at + FLOW_TTL_S - self._clock.monotonic()
        return FlowView(
            flow_id=flow_id,
            domain=context.domain,
            source=context.source,
            entry_id=context.entry.entry_id if context.entry is not None else None,
            result=opened.result,
            expires_at=self._clock.now() + timedelta(seconds=left_s),
        )

    async def advance(self, flow_id: FlowId, user_input: Mapping[str, Any] | None = None) -> FlowView:
        """Gives a person's input to the step that waits for it. What the schema refuses comes back as the same form
        with errors. ConflictError while the flow is busy."""
        opened = self._find(flow_id)
        if opened.lock.locked():
            raise ConflictError("the flow is busy with its last step")
        async with opened.lock:
            opened.touched_at = self._clock.monotonic()
            match opened.result:
                case FormResult(step_id=step_id):
                    return await self._answer_form(flow_id, opened, step_id, dict(user_input or {}))
                case MenuResult(options=options):
                    chosen = (user_input or {}).get("next_step_id")
                    if chosen not in options:
                        raise InvalidInputError.of("next_step_id", f"must be one of {', '.join(options)}")
                    opened.was_answered = True
                    return await self._go(flow_id, opened, chosen, None)
                case ExternalResult(step_id=step_id):
                    opened.was_answered = True
                    return await self._go(flow_id, opened, step_id, dict(user_input or {}))
                case _:
                    return self._view(flow_id, opened)  # work goes on by itself

    async def _answer_form(self, flow_id: FlowId, opened: OpenFlow, step_id: str, given: dict[str, Any]) -> FlowView:
        form = cast("FormResult", opened.result)
        accepted, errors = await opened.steps.validate(opened.flow, given)
        if errors:
            opened.result = FormResult(
                step_id=step_id,
                fields=suggest(form.fields, given),
                errors=errors,
                placeholders=form.placeholders,
            )
            return self._view(flow_id, opened)
        opened.was_answered = True
        return await self._go(flow_id, opened, step_id, accepted, given)

    async def _go(
        self,
        flow_id: FlowId,
        opened: OpenFlow,
        step: str,
        user_input: dict[str, Any] | None,
        given: dict[str, Any] | None = None,
    ) -> FlowView:
        """One step of the plugin behind the fire door, and what follows from its answer."""
        opened.flow.work = None
        result = await opened.steps.take(opened.flow, step, user_input)
        if isinstance(result, FormResult) and result.errors and given:
            result = FormResult(
                step_id=result.step_id,
                fields=suggest(result.fields, given),
                errors=result.errors,
                placeholders=result.placeholders,
            )
        if isinstance(result, CreateEntryResult):
            result = await self._create(opened, result)
        if isinstance(result, ProgressResult):
            self._begin_work(flow_id, opened)
        opened.result = result
        if isinstance(result, ENDS):
            self._drop(flow_id)
        return self._view(flow_id, opened)

    async def _create(self, opened: OpenFlow, result: CreateEntryResult) -> FlowResult:
        flow = opened.flow
        if flow.source in WITH_ENTRY:
            log.error("flow would make a second entry", domain=flow.context.domain, source=flow.source)
            return AbortResult(reason="unknown")
        if flow.source == "discovery" and not opened.was_answered:
            log.error("discovery would make an entry by itself", domain=flow.context.domain)
            return AbortResult(reason="confirmation_required")
        try:
            record = await self._entries.add(
                domain=flow.context.domain,
                title=result.title,
                source=cast("EntrySource", flow.source),
                unique_id=flow.unique_id,
                data=result.data,
                options=result.options,
                secrets=result.secrets,
                version=opened.loaded.entry_version,
            )
        except ConflictError:
            return AbortResult(reason="already_configured")
        return CreateEntryResult(title=record.title, entry_id=record.entry_id)

    def _begin_work(self, flow_id: FlowId, opened: OpenFlow) -> None:
        """Runs the flow's `progress` work, then its next step."""
        if opened.flow.work is None:
            return
        work, then = opened.flow.work
        flow = opened.flow

        async def run() -> None:
            await opened.steps.work(flow, work)
            if self._open.get(flow_id) is not opened:
                return  # cancelled or expired meanwhile
            async with opened.lock:
                opened.touched_at = self._clock.monotonic()
                view = await self._go(flow_id, opened, then, None)
            if isinstance(view.result, ENDS):
                self._ended[flow_id] = view
                while len(self._ended) > ENDED_KEPT:
                    self._ended.pop(next(iter(self._ended)))

        self._tasks.spawn(run, f"progress of flow {flow_id}")

    # The port that flows see

    async def claim_unique_id(
        self,
        flow_id: FlowId,
        unique_id: str,
        *,
        updates: Mapping[str, Any] | None,
        raise_on_progress: bool,
        same: Mapping[str, Any] | None = None,
    ) -> None:
        """See ConfigFlow.set_unique_id."""
        own = self._open[flow_id].flow if flow_id in self._open else None
        if own is None:
            raise AbortFlowError("expired")
        domain = own.context.domain
        if raise_on_progress and any(
            opened.flow is not own and opened.flow.context.domain == domain and opened.flow.unique_id == unique_id
            for opened in self._open.values()
        ):
            raise AbortFlowError("already_in_progress")
        known = self._entries.find(domain, unique_id, same)
        if known is not None:
            data = {**known.data, **(updates or {})}
            if (data, unique_id) != (known.data, known.unique_id):
                await self._entries.update(known.entry_id, data=data, unique_id=unique_id)
                self._tasks.spawn(lambda: self._entries.reload(known.entry_id), f"reload {known.entry_id}")
            else:
                self._entries.nudge(domain, unique_id)
            raise AbortFlowError("already_configured")
        if own.source == "discovery" and self._entries.ignored.holds(domain, unique_id):
            raise AbortFlowError("ignored")

    async def update_entry(
        self,
        entry: Entry,
        *,
        title: str | None,
        data: Mapping[str, Any] | None,
        options: Mapping[str, Any] | None,
        secrets: Mapping[str, str],
        unique_id: str | None = None,
    ) -> None:
        """See ConfigFlow.update_entry."""
        entry_id = entry.entry_id
        is_renewed = self._find_for_entry(entry_id, "reauth") is not None
        try:
            await self._entries.update(
                entry_id,
                title=title,
                data=data,
                options=options,
                secrets=secrets,
                needs_pairing=False if is_renewed else None,
                unique_id=unique_id,
            )
        except ConflictError as err:
            raise AbortFlowError("already_configured") from err
        if not self._entries.record(entry_id).is_disabled:
            self._tasks.spawn(lambda: self._entries.reload(entry_id), f"reload {entry_id}")


async def _close(tasks: PluginTasks) -> None:
    await tasks.close()


def _keep(text: str) -> str:
    return text
