"""Routes about Bluetooth proxies: which there are and how they are, what the network offers, adding and removing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from core.domain.access import Relation
from core.domain.errors import (
    AdapterOffError,
    ConflictError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    RequirementMissingError,
)
from core.domain.secretive import hidden_repr
from core.web.route import Answer, OnAccount, Request, Route
from edge_agent.proxies.desk import ProxyDesk
from edge_agent.proxies.offers import Offer
from edge_agent.proxies.record import PORT, ProxyState, ProxyStatus

MANAGE = OnAccount(relation=Relation.CAN_MANAGE_MOWERS)
TAG = "bluetooth"


class ProxyView(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy and how it is. `source` is its name as an adapter. `slots` are its connections, None while it has told
    none, and for one that only listens."""

    proxy_id: str
    host: str
    port: int
    is_encrypted: bool
    state: ProxyState
    reason: str | None
    hint: str | None
    name: str | None
    source: str | None
    firmware: str | None
    slots: int | None
    slots_free: int | None


class OfferView(msgspec.Struct, frozen=True, kw_only=True):
    """An ESPHome device in the network that is not added yet. `is_proxy`: it says that it is one; many say nothing."""

    name: str
    host: str
    port: int
    is_encrypted: bool
    is_proxy: bool


class ProxiesView(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    items: tuple[ProxyView, ...]
    offers: tuple[OfferView, ...]


class ProxyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a proxy is. `encryption_key` is the text under `api: encryption: key:` of its ESPHome configuration;
    without one the box speaks to it in the clear."""

    host: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = PORT
    encryption_key: Annotated[str, msgspec.Meta(max_length=64)] | None = None

    __repr__ = hidden_repr


def proxy_routes(desk: ProxyDesk, offers: Callable[[], list[Offer]]) -> list[Route]:
    """The table. `offers` is asked at each request."""

    async def show(_: Request) -> ProxiesView:
        statuses = desk.statuses()
        known = {(status.record.host, status.record.port) for status in statuses}
        return ProxiesView(
            items=tuple(_view(status) for status in statuses),
            offers=tuple(_offer(offer) for offer in offers() if not offer.is_at(known)),
        )

    async def add(request: Request) -> ProxyView:
        body = request.body
        return _view(await desk.add(body.host, body.port, body.encryption_key))

    async def remove(request: Request) -> Answer:
        await desk.remove(request.path["proxy_id"])
        return Answer(status=204)

    return [
        Route(
            method="GET",
            path="/box/bluetooth/proxies",
            guard=MANAGE,
            handler=show,
            summary="Bluetooth proxies with their state, and what the network offers",
            tag=TAG,
            answer=ProxiesView,
        ),
        Route(
            method="POST",
            path="/box/bluetooth/proxies",
            guard=MANAGE,
            handler=add,
            summary="Add a Bluetooth proxy; its state tells what comes of it",
            tag=TAG,
            body=ProxyBody,
            answer=ProxyView,
            status=201,
            errors=(InvalidInputError, ConflictError, LimitExceededError, AdapterOffError, RequirementMissingError),
        ),
        Route(
            method="DELETE",
            path="/box/bluetooth/proxies/{proxy_id}",
            guard=MANAGE,
            handler=remove,
            summary="Let a Bluetooth proxy go, and forget its key",
            tag=TAG,
            status=204,
            errors=(NotFoundError,),
        ),
    ]


def _view(status: ProxyStatus) -> ProxyView:
    return ProxyView(
        proxy_id=status.record.proxy_id,
        host=status.record.host,
        port=status.record.port,
        is_encrypted=status.is_encrypted,
        state=status.state,
        reason=status.reason,
        hint=status.hint,
        name=status.name,
        source=status.source,
        firmware=status.firmware,
        slots=status.slots,
        slots_free=status.slots_free,
    )


def _offer(offer: Offer) -> OfferView:
    return OfferView(
        name=offer.name,
        host=offer.host,
        port=offer.port,
        is_encrypted=offer.is_encrypted,
        is_proxy=offer.is_proxy,
    )
