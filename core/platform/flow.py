"""A config flow: the steps in which a person sets up an integration. What a plugin writes, and what a step answers.

    class Flow(ConfigFlow):
        async def step_user(self, user_input):
            errors = {}
            if user_input is not None:
                await self.set_unique_id(user_input["serial"])
                ...
                return self.create_entry(title="...", data=..., secrets=...)
            return self.form(step_id="user", schema=SCHEMA, errors=errors)

The first step is `step_<source>`: user, discovery, reauth, reconfigure, import. A step that needs no input gets None.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import aiohttp
import msgspec
import voluptuous as vol

from core.domain.clock import Clock
from core.domain.ids import FlowId
from core.platform.bluetooth import Advertisement, BluetoothPort
from core.platform.fields import Field, serialize_schema, suggest
from core.platform.integration import Entry, Secrets

FlowSource = Literal["user", "discovery", "relay", "import", "reauth", "reconfigure"]
UserInput = Mapping[str, Any]


class _Result(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Root of what a step answers; `type` is the tag on the wire."""


class FormResult(_Result, frozen=True, kw_only=True, tag="form"):
    """Ask the person. `fields` is the schema as JSON; `errors` field (or `base`) -> translation key."""

    step_id: str
    fields: tuple[Field, ...] = ()
    errors: dict[str, str] = {}
    placeholders: dict[str, str] = {}


class MenuResult(_Result, frozen=True, kw_only=True, tag="menu"):
    """Let the person choose the next step: answered with {"next_step_id": ...}."""

    step_id: str
    options: tuple[str, ...]
    placeholders: dict[str, str] = {}


class ProgressResult(_Result, frozen=True, kw_only=True, tag="progress"):
    """Something takes a while; ask again. `action` is a translation key."""

    step_id: str
    action: str
    placeholders: dict[str, str] = {}


class ExternalResult(_Result, frozen=True, kw_only=True, tag="external"):
    """The person goes to `url`; what comes back is the step's next input."""

    step_id: str
    url: str


class CreateEntryResult(_Result, frozen=True, kw_only=True, tag="create_entry", omit_defaults=True):
    """Done. Only `title` and `entry_id` (set when the entry exists) leave the box."""

    title: str
    data: dict[str, Any] = {}
    options: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    entry_id: str | None = None

    def __repr__(self) -> str:
        return f"CreateEntryResult(title={self.title!r}, entry_id={self.entry_id!r})"


class AbortResult(_Result, frozen=True, kw_only=True, tag="abort"):
    """Done without an entry. `reason` is a translation key."""

    reason: str
    placeholders: dict[str, str] = {}


FlowResult = FormResult | MenuResult | ProgressResult | ExternalResult | CreateEntryResult | AbortResult


class AbortFlowError(Exception):
    """Ends the flow from anywhere within a step."""

    def __init__(self, reason: str, placeholders: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.placeholders = dict(placeholders or {})


class FlowPort(Protocol):
    """What the director does for a flow."""

    async def claim_unique_id(
        self,
        flow_id: FlowId,
        unique_id: str,
        *,
        updates: Mapping[str, Any] | None,
        raise_on_progress: bool,
        same: Mapping[str, Any] | None = None,
    ) -> None:
        """AbortFlowError already_in_progress, already_configured or ignored."""
        ...

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
        """AbortFlowError already_configured when another entry has `unique_id`. Changes the entry and sets it up anew."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowContext:
    """All of the box that a flow can reach."""

    flow_id: FlowId
    domain: str
    source: FlowSource
    details: Mapping[str, Any]
    """What discovery found, or what else the starter of the flow knows."""
    entry: Entry | None
    """The entry that is to be changed (reauth, reconfigure)."""
    clock: Clock
    log: logging.LoggerAdapter[logging.Logger]
    http: Callable[[], Awaitable[aiohttp.ClientSession]]
    port: FlowPort
    bluetooth: BluetoothPort | None = None
    """None on a box without any radio or proxy."""
    secrets: Secrets | None = None
    """Those of `entry`."""


class ConfigFlow:
    """Base of a plugin's flow: exactly one subclass of it stands in the plugin's `config_flow.py`."""

    version: ClassVar[int] = 1
    """Version of the entries' data that this flow writes (see `migrate` in the loader)."""

    def __init__(self, context: FlowContext) -> None:
        self.context = context
        self.unique_id: str | None = context.entry.unique_id if context.entry is not None else None
        self.schema: vol.Schema | None = None
        self.work: tuple[Callable[[], Awaitable[None]], str] | None = None
        self.progress_error: Exception | None = None
        """Why the last `progress` work failed, for the step that follows it."""

    @classmethod
    def shared_texts(cls) -> frozenset[str]:
        """Keys of texts (`step.pin.title`, `error.wrong_pin`) that steps of a base class need of the folder."""
        return frozenset()

    @classmethod
    def says_pairable(cls, heard: Advertisement) -> bool | None:  # noqa: ARG003  (the port names it)
        """Whether a Bluetooth mower says on the air that it pairs now; None when it does not tell."""
        return None

    @property
    def source(self) -> FlowSource:
        return self.context.source

    @property
    def entry(self) -> Entry:
        """The entry of a reauth or reconfigure."""
        if self.context.entry is None:
            raise LookupError(f"a flow from {self.source} has no entry")
        return self.context.entry

    def form(
        self,
        *,
        step_id: str,
        schema: vol.Schema | None = None,
        errors: Mapping[str, str] | None = None,
        placeholders: Mapping[str, str] | None = None,
        suggested: Mapping[str, Any] | None = None,
    ) -> FormResult:
        """Ask for input; `step_<step_id>` gets what the schema has accepted. Without a schema it is a confirmation."""
        self.schema = schema
        fields = () if schema is None else serialize_schema(schema)
        return FormResult(
            step_id=step_id,
            fields=suggest(fields, suggested or {}),
            errors=dict(errors or {}),
            placeholders=dict(placeholders or {}),
        )

    def menu(
        self, *, step_id: str, options: Sequence[str], placeholders: Mapping[str, str] | None = None
    ) -> MenuResult:
        """Let the person choose one of the steps `options`."""
        return MenuResult(step_id=step_id, options=tuple(options), placeholders=dict(placeholders or {}))

    def progress(
        self,
        *,
        step_id: str,
        action: str,
        work: Callable[[], Awaitable[None]],
        then: str,
        placeholders: Mapping[str, str] | None = None,
    ) -> ProgressResult:
        """Runs `work` while the person waits; then `step_<then>(None)` is called. If the work raised, the reason is
        in `self.progress_error`."""
        self.work = (work, then)
        return ProgressResult(step_id=step_id, action=action, placeholders=dict(placeholders or {}))

    def external(self, *, step_id: str, url: str) -> ExternalResult:
        """Send the person to the vendor's page; `step_<step_id>` gets what came back."""
        return ExternalResult(step_id=step_id, url=url)

    def create_entry(
        self,
        *,
        title: str,
        data: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> CreateEntryResult:
        """Done: passwords, PINs and tokens belong into `secrets`, never into `data`."""
        return CreateEntryResult(
            title=title, data=dict(data or {}), options=dict(options or {}), secrets=dict(secrets or {})
        )

    def abort(self, *, reason: str, placeholders: Mapping[str, str] | None = None) -> AbortResult:
        """End without an entry."""
        return AbortResult(reason=reason, placeholders=dict(placeholders or {}))

    async def set_unique_id(
        self,
        unique_id: str,
        *,
        updates: Mapping[str, Any] | None = None,
        raise_on_progress: bool = True,
        same: Mapping[str, Any] | None = None,
    ) -> None:
        """Says which device or account this flow is about, as early as it is known. Ends the flow when another one
        is about the same (already_in_progress), when an entry has it already (already_configured; `updates` go into
        that entry's data, e.g. a new address; with `same` also an entry whose data hold all of it counts as the
        device's, and gets the new unique id: only for what the device itself has proven), or when a person wanted a discovery of it ignored. In a reauth or
        reconfigure it ends the flow when this is not the entry's device (unique_id_mismatch)."""
        if self.context.entry is not None:
            known = self.context.entry.unique_id
            if known is not None and known != unique_id:
                raise AbortFlowError("unique_id_mismatch")
            self.unique_id = unique_id
            return
        await self.context.port.claim_unique_id(
            self.context.flow_id, unique_id, updates=updates, raise_on_progress=raise_on_progress, same=same
        )
        self.unique_id = unique_id

    async def update_entry(
        self,
        *,
        title: str | None = None,
        data: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
        unique_id: str | None = None,
        reason: str | None = None,
    ) -> AbortResult:
        """The end of a reauth or reconfigure: changes the entry, sets it up anew, and ends the flow. What is None
        stays; `secrets` are added to those that are there."""
        await self.context.port.update_entry(
            self.entry, title=title, data=data, options=options, secrets=dict(secrets or {}), unique_id=unique_id
        )
        return self.abort(reason=reason or f"{self.source}_successful")
