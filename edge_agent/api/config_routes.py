"""Routes of the plugin platform: integrations, config entries, and the flows that make entries.

Neither data nor secrets of an entry ever come out; a form never shows a password that was typed into it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from core.domain.access import Relation
from core.domain.errors import (
    ConflictError,
    InvalidInputError,
    LimitExceededError,
    ManifestError,
    NotFoundError,
    RequirementMissingError,
)
from core.domain.ids import EntryId, FlowId
from core.domain.mower import LinkKind
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryView, IgnoredDevice
from core.platform.flow_view import FlowView
from core.platform.flows import FlowDirector
from core.platform.ignored_devices import IgnoredDevices
from core.platform.loader import Loader
from core.web.route import Answer, OnAccount, Request, Route

MANAGE = OnAccount(relation=Relation.CAN_MANAGE_MOWERS)
TAG = "config"
RELOAD_WAIT_S = 20.0
"""How long an answer waits for a reload."""
Title = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class IntegrationView(msgspec.Struct, frozen=True, kw_only=True):
    """An integration that the box has. `problem` says why its folder cannot be used (then only `domain` is sure)."""

    domain: str
    name: str
    version: str | None = None
    links: tuple[LinkKind, ...] = ()
    has_config_flow: bool = False
    iot_class: str | None = None
    documentation: str | None = None
    licence: str | None = None
    problem: str | None = None
    texts: dict[str, Any] = {}
    """Language -> texts of its forms."""


class IntegrationList(msgspec.Struct, frozen=True, kw_only=True):
    """All integrations, usable or not."""

    items: tuple[IntegrationView, ...]


class EntryList(msgspec.Struct, frozen=True, kw_only=True):
    """All config entries, oldest first."""

    items: tuple[EntryView, ...]


class FlowList(msgspec.Struct, frozen=True, kw_only=True):
    """All open flows."""

    items: tuple[FlowView, ...]


class IgnoredList(msgspec.Struct, frozen=True, kw_only=True):
    """Discovered devices that are not offered."""

    items: tuple[IgnoredDevice, ...]


class EntryPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not given stays."""

    title: Title | None = None
    is_disabled: bool | None = None


class FlowStart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Begin to set up an integration, or to change an entry (`reauth`, `reconfigure`; then with `entry_id`)."""

    domain: str
    source: Literal["user", "reauth", "reconfigure"] = "user"
    entry_id: EntryId | None = None


class FlowInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the person typed or chose; nothing for a plain confirmation."""

    user_input: dict[str, Any] = {}


class FlowEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a flow is given up."""

    ignore: bool = False
    """The discovered device shall not be offered again."""


def config_routes(entries: ConfigEntries, flows: FlowDirector, loader: Loader) -> list[Route]:
    """The table."""
    return [
        *_integration_routes(loader),
        *_entry_routes(entries),
        *_flow_routes(flows),
        *_ignored_routes(entries.ignored),
    ]


def _integration_routes(loader: Loader) -> list[Route]:
    async def list_integrations(_: Request) -> IntegrationList:
        texts = loader.translations()
        found = [
            IntegrationView(
                domain=manifest.domain,
                name=manifest.name,
                version=manifest.version,
                links=manifest.links,
                has_config_flow=manifest.config_flow,
                iot_class=manifest.iot_class,
                documentation=manifest.documentation,
                licence=manifest.licence,
                texts=dict(texts.get(manifest.domain, {})),
            )
            for manifest in loader.manifests().values()
        ]
        broken = [
            IntegrationView(domain=folder, name=folder, problem=err.detail) for folder, err in loader.problems().items()
        ]
        return IntegrationList(
            items=tuple(sorted([*found, *broken], key=lambda view: (view.name.casefold(), view.domain)))
        )

    return [
        Route(
            method="GET",
            path="/config/integrations",
            guard=MANAGE,
            handler=list_integrations,
            summary="Integrations that the box has",
            tag=TAG,
            answer=IntegrationList,
        )
    ]


def _entry_routes(entries: ConfigEntries) -> list[Route]:
    async def list_entries(_: Request) -> EntryList:
        return EntryList(items=tuple(entries.views()))

    async def change_entry(request: Request) -> EntryView:
        entry_id = _entry_id(request.path)
        patch: EntryPatch = request.body
        await entries.update(entry_id, title=patch.title, is_disabled=patch.is_disabled)
        return entries.view(entry_id)

    async def remove_entry(request: Request) -> Answer:
        await entries.remove(_entry_id(request.path))
        return Answer(status=204)

    async def reload_entry(request: Request) -> EntryView:
        entry_id = _entry_id(request.path)
        with contextlib.suppress(TimeoutError):  # it goes on, and the answer shows how far it is
            async with asyncio.timeout(RELOAD_WAIT_S):
                await entries.reload(entry_id)
        return entries.view(entry_id)

    path = "/config/entries/{entry_id}"
    return [
        Route(
            method="GET",
            path="/config/entries",
            guard=MANAGE,
            handler=list_entries,
            summary="Config entries and their states",
            tag=TAG,
            answer=EntryList,
        ),
        Route(
            method="PATCH",
            path=path,
            guard=MANAGE,
            handler=change_entry,
            summary="Rename, disable or enable a config entry",
            tag=TAG,
            body=EntryPatch,
            answer=EntryView,
            errors=(NotFoundError, InvalidInputError),
        ),
        Route(
            method="DELETE",
            path=path,
            guard=MANAGE,
            handler=remove_entry,
            summary="Remove a config entry with its secrets",
            tag=TAG,
            status=204,
            errors=(NotFoundError,),
        ),
        Route(
            method="POST",
            path=f"{path}/reload",
            guard=MANAGE,
            handler=reload_entry,
            summary="Take a config entry down and set it up anew",
            tag=TAG,
            answer=EntryView,
            errors=(NotFoundError, ConflictError),
        ),
    ]


def _flow_routes(flows: FlowDirector) -> list[Route]:
    async def list_flows(_: Request) -> FlowList:
        return FlowList(items=tuple(flows.list()))

    async def start_flow(request: Request) -> FlowView:
        start: FlowStart = request.body
        if (start.source == "user") != (start.entry_id is None):
            raise InvalidInputError.of("entry_id", "belongs to reauth and reconfigure, and only to them")
        context = {} if start.entry_id is None else {"entry_id": start.entry_id}
        return await flows.start(start.domain, start.source, context)

    async def show_flow(request: Request) -> FlowView:
        return flows.get(_flow_id(request.path))

    async def advance_flow(request: Request) -> FlowView:
        return await flows.advance(_flow_id(request.path), request.body.user_input)

    async def end_flow(request: Request) -> Answer:
        flow_id = _flow_id(request.path)
        if request.query.ignore:
            await flows.ignore(flow_id)
        else:
            flows.cancel(flow_id)
        return Answer(status=204)

    path = "/config/flows/{flow_id}"
    return [
        Route(
            method="GET",
            path="/config/flows",
            guard=MANAGE,
            handler=list_flows,
            summary="Open config flows, discovered ones included",
            tag=TAG,
            answer=FlowList,
        ),
        Route(
            method="POST",
            path="/config/flows",
            guard=MANAGE,
            handler=start_flow,
            summary="Begin to set up an integration or to change an entry",
            tag=TAG,
            body=FlowStart,
            answer=FlowView,
            status=201,
            errors=(
                NotFoundError,
                InvalidInputError,
                ConflictError,
                LimitExceededError,
                ManifestError,
                RequirementMissingError,
            ),
        ),
        Route(
            method="GET",
            path=path,
            guard=MANAGE,
            handler=show_flow,
            summary="Where a config flow stands",
            tag=TAG,
            answer=FlowView,
            errors=(NotFoundError,),
        ),
        Route(
            method="POST",
            path=path,
            guard=MANAGE,
            handler=advance_flow,
            summary="Give a person's input to the step that waits for it",
            tag=TAG,
            body=FlowInput,
            answer=FlowView,
            errors=(NotFoundError, InvalidInputError, ConflictError),
        ),
        Route(
            method="DELETE",
            path=path,
            guard=MANAGE,
            handler=end_flow,
            summary="Give up a config flow, or ignore its device for good",
            tag=TAG,
            query=FlowEnd,
            status=204,
            errors=(NotFoundError, ConflictError),
        ),
    ]


def _ignored_routes(ignored: IgnoredDevices) -> list[Route]:
    async def list_ignored(_: Request) -> IgnoredList:
        return IgnoredList(items=tuple(ignored.list()))

    async def unignore(request: Request) -> Answer:
        await ignored.remove(request.path["domain"], request.path["device"])
        return Answer(status=204)

    return [
        Route(
            method="GET",
            path="/config/ignored",
            guard=MANAGE,
            handler=list_ignored,
            summary="Discovered devices that are not offered",
            tag=TAG,
            answer=IgnoredList,
        ),
        Route(
            method="DELETE",
            path="/config/ignored/{domain}/{device}",
            guard=MANAGE,
            handler=unignore,
            summary="Offer an ignored device again",
            tag=TAG,
            status=204,
            errors=(NotFoundError,),
        ),
    ]


def _entry_id(path: Mapping[str, str]) -> EntryId:
    return EntryId(path["entry_id"])


def _flow_id(path: Mapping[str, str]) -> FlowId:
    return FlowId(path["flow_id"])
