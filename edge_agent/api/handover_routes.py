"""Routes of handing config entries over to another box. The owner's only: an export carries the secrets of entries,
sealed for whichever key the caller names.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from core.domain.access import Relation
from core.domain.errors import (
    ConflictError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    StorageError,
    UnavailableError,
)
from core.domain.ids import EntryId
from core.domain.secretive import hidden_repr
from core.platform.entry import EntryView
from core.platform.handover.recipient import encode_key, fingerprint_of
from core.web.route import OnAccount, Request, Route
from edge_agent.handover.handover_desk import HandoverDesk, Look

ViewOf = Callable[[EntryId], EntryView]
OWNER = OnAccount(relation=Relation.CAN_MANAGE_USERS)
TAG = "handover"
DAYS = 14.0
DAYS_MAX = 90.0


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """The box's public key, and its fingerprint to compare."""

    public_key: str
    fingerprint: str


class ExportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which entries, for the box that showed which key, and for how long the bundle is good."""

    entry_ids: Annotated[tuple[EntryId, ...], msgspec.Meta(min_length=1, max_length=128)]
    recipient: Annotated[str, msgspec.Meta(max_length=200)]
    days: Annotated[float, msgspec.Meta(gt=0, le=DAYS_MAX)] = DAYS


class ExportView(msgspec.Struct, frozen=True, kw_only=True):
    """The bundle. `recipient` is the fingerprint of the box that can open it."""

    bundle_id: str
    recipient: str
    expires_at: datetime
    bundle: str

    __repr__ = hidden_repr


class ImportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bundle as it stands in its file."""

    bundle: str
    even_if_missing: bool = False
    """Also entries whose integration is not there yet; they wait and say so."""

    __repr__ = hidden_repr


class HandedView(msgspec.Struct, frozen=True, kw_only=True):
    """An entry in a bundle, without its data and secrets."""

    domain: str
    title: str
    mowers: tuple[str, ...]
    needs_pairing: bool


class MissingView(msgspec.Struct, frozen=True, kw_only=True):
    """An integration that the box lacks, and what to do."""

    domain: str
    reason: str
    remedy: str


class BundleView(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a bundle. `from_box` is what its maker calls itself: anybody could have."""

    bundle_id: str
    from_box: str
    created_at: datetime
    expires_at: datetime
    entries: tuple[HandedView, ...]
    missing: tuple[MissingView, ...]


class ImportView(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. The entries are being set up."""

    bundle: BundleView
    entries: tuple[EntryView, ...]


def handover_routes(desk: HandoverDesk, view_of: ViewOf) -> list[Route]:
    """The table."""

    async def show_key(_: Request) -> KeyView:
        key = await desk.public_key()
        return KeyView(public_key=encode_key(key), fingerprint=fingerprint_of(key))

    async def export(request: Request) -> ExportView:
        body: ExportBody = request.body
        header, text = desk.export(body.entry_ids, recipient=body.recipient, keeps=timedelta(days=body.days))
        return ExportView(
            bundle_id=header.bundle_id, recipient=header.recipient, expires_at=header.expires_at, bundle=text
        )

    async def check(request: Request) -> BundleView:
        return _bundle(await desk.look(request.body.bundle))

    async def take(request: Request) -> ImportView:
        look, entry_ids = await desk.take(request.body.bundle, even_if_missing=request.body.even_if_missing)
        return ImportView(bundle=_bundle(look), entries=tuple(view_of(entry_id) for entry_id in entry_ids))

    refusals = (InvalidInputError, ConflictError, UnavailableError, StorageError)
    return [
        Route(
            method="GET",
            path="/box/handover/key",
            guard=OWNER,
            handler=show_key,
            summary="The key that bundles for this box are sealed with",
            tag=TAG,
            answer=KeyView,
            errors=(StorageError,),
        ),
        Route(
            method="POST",
            path="/box/handover/exports",
            guard=OWNER,
            handler=export,
            summary="Pack config entries with their secrets for another box",
            tag=TAG,
            body=ExportBody,
            answer=ExportView,
            status=201,
            errors=(NotFoundError, InvalidInputError, ConflictError, LimitExceededError, UnavailableError),
        ),
        Route(
            method="POST",
            path="/box/handover/checks",
            guard=OWNER,
            handler=check,
            summary="What is in a bundle; nothing is imported",
            tag=TAG,
            body=ImportBody,
            answer=BundleView,
            errors=refusals,
        ),
        Route(
            method="POST",
            path="/box/handover/imports",
            guard=OWNER,
            handler=take,
            summary="Import a bundle, once, all of it or nothing",
            tag=TAG,
            body=ImportBody,
            answer=ImportView,
            status=201,
            errors=(*refusals, LimitExceededError),
        ),
    ]


def _bundle(look: Look) -> BundleView:
    header, content = look.header, look.content
    return BundleView(
        bundle_id=header.bundle_id,
        from_box=content.from_box,
        created_at=header.created_at,
        expires_at=header.expires_at,
        entries=tuple(
            HandedView(
                domain=entry.domain,
                title=entry.title,
                mowers=tuple(mower.name for mower in entry.mowers),
                needs_pairing=entry.is_bonded,
            )
            for entry in content.entries
        ),
        missing=tuple(MissingView(domain=m.domain, reason=m.reason, remedy=m.remedy) for m in look.missing),
    )
