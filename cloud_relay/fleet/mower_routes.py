"""Routes that change mowers of the fleet (the reading ones are shared with the box, `core.web`)."""

from __future__ import annotations

from msgspec import UNSET

from cloud_relay.fleet.hierarchy import group_ref, site_ref
from cloud_relay.fleet.mowers import Mowers
from cloud_relay.fleet.rights import Rights
from cloud_relay.fleet.views import MowerChange, MowerGroups, NewMower
from core.domain.access import ObjectType, Relation
from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError, NotFoundError
from core.domain.ids import MowerId, SiteId
from core.identity.principal import Principal
from core.web.ports import MowerCatalog, MowerView
from core.web.route import Answer, Decided, OnObject, Request, Route

MANAGE = Relation.CAN_MANAGE_MOWERS
_MOWER = OnObject(relation=MANAGE, type=ObjectType.MOWER, parameter="mower_id")


class MowerChangeRoutes:
    """Handlers of the writing half of `/fleet/mowers`."""

    def __init__(self, *, mowers: Mowers, catalog: MowerCatalog, rights: Rights) -> None:
        self._mowers = mowers
        self._catalog = catalog
        self._rights = rights

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="POST",
                path="/fleet/mowers",
                guard=Decided(relations=(MANAGE,), reason="asked of the box's site, the site and the groups named"),
                handler=self._create,
                summary="Registers a mower that a box sets up",
                tag="fleet",
                body=NewMower,
                answer=MowerView,
                status=201,
                errors=(NotFoundError, InvalidInputError, LimitExceededError),
            ),
            Route(
                method="PATCH",
                path="/fleet/mowers/{mower_id}",
                guard=_MOWER,
                handler=self._change,
                summary="Renames, moves or reconnects a mower",
                tag="fleet",
                body=MowerChange,
                answer=MowerView,
                errors=(NotFoundError, InvalidInputError, ConflictError),
            ),
            Route(
                method="DELETE",
                path="/fleet/mowers/{mower_id}",
                guard=_MOWER,
                handler=self._delete,
                summary="Removes a mower with its telemetry",
                tag="fleet",
                status=204,
                errors=(NotFoundError,),
            ),
            Route(
                method="PUT",
                path="/fleet/mowers/{mower_id}/groups",
                guard=_MOWER,
                handler=self._set_groups,
                summary="Puts a mower into exactly these groups",
                tag="fleet",
                body=MowerGroups,
                answer=MowerView,
                errors=(NotFoundError, InvalidInputError),
            ),
        )

    async def _create(self, request: Request) -> Answer:
        who, new = request.who, request.body
        edge_site = await self._mowers.edge_site(who.account_id, new.edge_id)
        await self._require_box(who, edge_site)
        site_id = edge_site if new.site_id is None else new.site_id
        groups = [group_ref(group_id) for group_id in new.group_ids]
        await self._rights.require(who, MANAGE, [site_ref(site_id), *groups])
        mower_id = await self._mowers.create(who.account_id, new, site_id)
        view = await self._catalog.mower(who.account_id, mower_id)
        return Answer(value=view, status=201, headers={"Location": f"/api/v1/fleet/mowers/{mower_id}"})

    async def _require_box(self, who: Principal, edge_site: SiteId) -> None:
        try:
            await self._rights.require(who, MANAGE, [site_ref(edge_site)])
        except NotFoundError:
            raise NotFoundError("no such box") from None  # the same words whether it exists or not

    async def _change(self, request: Request) -> MowerView:
        who, mower_id, change = request.who, MowerId(request.path["mower_id"]), request.body
        if change.site_id is not UNSET:
            site_id, _ = await self._mowers.placement(who.account_id, mower_id)
            await self._rights.require(who, MANAGE, [site_ref(change.site_id)])
            await self._rights.require_around(who, MANAGE, [site_ref(site_id)])
        await self._mowers.change(who.account_id, mower_id, change)
        return await self._catalog.mower(who.account_id, mower_id)

    async def _delete(self, request: Request) -> None:
        who, mower_id = request.who, MowerId(request.path["mower_id"])
        site_id, _ = await self._mowers.placement(who.account_id, mower_id)
        await self._rights.require_around(who, MANAGE, [site_ref(site_id)])
        await self._mowers.delete(who.account_id, mower_id)

    async def _set_groups(self, request: Request) -> MowerView:
        who, mower_id = request.who, MowerId(request.path["mower_id"])
        site_id, present = await self._mowers.placement(who.account_id, mower_id)
        wanted = frozenset(request.body.group_ids)
        await self._rights.require(who, MANAGE, [group_ref(group_id) for group_id in sorted(wanted - present)])
        left = [group_ref(group_id) for group_id in sorted(present - wanted)]
        await self._rights.require_around(who, MANAGE, [site_ref(site_id), *left])
        await self._mowers.set_groups(who.account_id, mower_id, request.body.group_ids)
        return await self._catalog.mower(who.account_id, mower_id)
