"""Routes of boxes: linking (`/edges/link...`) and the linked ones (`/fleet/edges`)."""

from __future__ import annotations

from msgspec import UNSET

from cloud_relay.edges.links import Links
from cloud_relay.edges.registry import EdgeRegistry
from cloud_relay.edges.views import EdgeChange, EdgeList, EdgeView, LinkConfirmation, LinkPreview
from cloud_relay.fleet.hierarchy import account_ref, site_ref
from cloud_relay.fleet.rights import Rights
from core.domain.access import ObjectType, Relation
from core.domain.errors import (
    ConflictError,
    LimitExceededError,
    NotFoundError,
    RateLimitedError,
    UnauthenticatedError,
    UnavailableError,
)
from core.domain.ids import EdgeId
from core.sync.linking import LinkEnd, LinkGrant, LinkOffer, LinkPending, LinkPoll, LinkRequest
from core.web.route import Answer, Decided, Public, Request, Route

MANAGE = Relation.CAN_MANAGE_MOWERS
_LIST = Decided(relations=(MANAGE,), reason="boxes are shown per site: those of the sites that the caller manages")
_ONE = Decided(relations=(MANAGE,), reason="asked of the site where the box stands")
_CODE = Decided(relations=(MANAGE,), reason="the site is chosen while confirming; managing any will do to look")


class EdgeRoutes:
    """Handlers of both sides of a link."""

    def __init__(self, *, links: Links, registry: EdgeRegistry, rights: Rights) -> None:
        self._links = links
        self._registry = registry
        self._rights = rights

    def routes(self) -> tuple[Route, ...]:
        return (*self._box_routes(), *self._person_routes(), *self._fleet_routes())

    def _box_routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="POST",
                path="/edges/link",
                guard=Public(reason="a box has no account yet; nothing happens until a person confirms its code"),
                handler=self._request,
                summary="A box asks to be linked",
                tag="linking",
                body=LinkRequest,
                answer=LinkOffer,
                errors=(ConflictError, RateLimitedError, LimitExceededError),
            ),
            Route(
                method="POST",
                path="/edges/link/token",
                guard=Public(reason="the device code, 256 random bits, is the proof"),
                handler=self._poll,
                summary="A box asks whether somebody has confirmed (400 with a LinkPending until then)",
                tag="linking",
                body=LinkPoll,
                answer=LinkGrant,
                other_answers={400: LinkPending},
                errors=(UnavailableError,),
            ),
            Route(
                method="DELETE",
                path="/edges/link",
                guard=Public(reason="the box's credential, 256 random bits, is the proof"),
                handler=self._end_by_box,
                summary="A box ends its link",
                tag="linking",
                body=LinkEnd,
                status=204,
                errors=(UnauthenticatedError,),
            ),
        )

    def _person_routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/edges/link/{user_code}",
                guard=_CODE,
                handler=self._preview,
                summary="The box that waits under a code",
                tag="linking",
                answer=LinkPreview,
                errors=(NotFoundError, RateLimitedError),
            ),
            Route(
                method="POST",
                path="/edges/link/{user_code}/confirm",
                guard=Decided(relations=(MANAGE,), reason="asked of the site that the body names, or of the account"),
                handler=self._confirm,
                summary="Links the box to the caller's account",
                tag="linking",
                body=LinkConfirmation,
                answer=EdgeView,
                status=201,
                errors=(NotFoundError, ConflictError, RateLimitedError, LimitExceededError),
            ),
            Route(
                method="POST",
                path="/edges/link/{user_code}/deny",
                guard=_CODE,
                handler=self._deny,
                summary="Refuses the box",
                tag="linking",
                status=204,
                errors=(NotFoundError, RateLimitedError),
            ),
        )

    def _fleet_routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/fleet/edges",
                guard=_LIST,
                handler=self._list,
                summary="Linked boxes",
                tag="fleet",
                answer=EdgeList,
            ),
            Route(
                method="GET",
                path="/fleet/edges/{edge_id}",
                guard=_ONE,
                handler=self._get,
                summary="A linked box and how it is doing",
                tag="fleet",
                answer=EdgeView,
                errors=(NotFoundError,),
            ),
            Route(
                method="PATCH",
                path="/fleet/edges/{edge_id}",
                guard=_ONE,
                handler=self._change,
                summary="Renames or moves a box",
                tag="fleet",
                body=EdgeChange,
                answer=EdgeView,
                errors=(NotFoundError,),
            ),
            Route(
                method="DELETE",
                path="/fleet/edges/{edge_id}",
                guard=_ONE,
                handler=self._end,
                summary="Ends the link of a box; its mowers stay with their history",
                tag="fleet",
                status=204,
                errors=(NotFoundError, UnavailableError),
            ),
        )

    async def _request(self, request: Request) -> LinkOffer:
        return await self._links.request(request.body, request.remote)

    async def _poll(self, request: Request) -> LinkGrant | Answer:
        answer = await self._links.poll(request.body.device_code)
        return Answer(value=answer, status=400) if isinstance(answer, LinkPending) else answer

    async def _end_by_box(self, request: Request) -> None:
        await self._registry.end_by_box(request.body)

    async def _preview(self, request: Request) -> LinkPreview:
        await self._rights.require_somewhere(request.who, MANAGE)
        return await self._links.preview(request.who, request.path["user_code"])

    async def _confirm(self, request: Request) -> EdgeView:
        who, wish = request.who, request.body
        where = account_ref(who.account_id) if wish.site_id is None else site_ref(wish.site_id)
        await self._rights.require(who, MANAGE, [where])
        edge_id = await self._links.confirm(who, request.path["user_code"], wish)
        return await self._registry.view(who.account_id, edge_id)

    async def _deny(self, request: Request) -> None:
        await self._rights.require_somewhere(request.who, MANAGE)
        await self._links.deny(request.who, request.path["user_code"])

    async def _list(self, request: Request) -> EdgeList:
        await self._rights.require_somewhere(request.who, MANAGE)
        site_ids = await self._rights.visible(request.who, MANAGE, ObjectType.SITE)
        return EdgeList(items=await self._registry.views(request.who.account_id, site_ids))

    async def _get(self, request: Request) -> EdgeView:
        edge_id = await self._allowed(request)
        return await self._registry.view(request.who.account_id, edge_id)

    async def _change(self, request: Request) -> EdgeView:
        edge_id = await self._allowed(request)
        if request.body.site_id is not UNSET:
            await self._rights.require(request.who, MANAGE, [site_ref(request.body.site_id)])
        await self._registry.change(request.who.account_id, edge_id, request.body)
        return await self._registry.view(request.who.account_id, edge_id)

    async def _end(self, request: Request) -> None:
        await self._registry.end(request.who.account_id, await self._allowed(request))

    async def _allowed(self, request: Request) -> EdgeId:
        """The box of the path, when the caller manages its site."""
        edge_id = EdgeId(request.path["edge_id"])
        site_id = await self._registry.site_of(request.who.account_id, edge_id)
        try:
            await self._rights.require(request.who, MANAGE, [site_ref(site_id)])
        except NotFoundError:
            raise NotFoundError("no such box") from None  # the same words whether it exists or not
        return edge_id
