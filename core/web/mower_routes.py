"""Reading mowers: the half of `/fleet/mowers` that box and relay share."""

from __future__ import annotations

import msgspec

from core.access.authorizer import Authorizer
from core.domain.access import ObjectType, Relation
from core.domain.errors import NotFoundError
from core.domain.ids import MowerId
from core.web.ports import MowerCatalog, MowerView
from core.web.route import Decided, OnObject, Request, Route


class MowerList(msgspec.Struct, frozen=True, kw_only=True):
    """The mowers that the caller may view, by name."""

    items: tuple[MowerView, ...]


def mower_routes(catalog: MowerCatalog, authorizer: Authorizer) -> tuple[Route, ...]:
    """The routes over a host's catalog."""
    handlers = _MowerHandlers(catalog, authorizer)
    return (
        Route(
            method="GET",
            path="/fleet/mowers",
            guard=Decided(relations=(Relation.CAN_VIEW,), reason="lists only what the caller may view"),
            handler=handlers.list_mowers,
            summary="All mowers that you may see",
            tag="fleet",
            answer=MowerList,
        ),
        Route(
            method="GET",
            path="/fleet/mowers/{mower_id}",
            guard=OnObject(relation=Relation.CAN_VIEW, type=ObjectType.MOWER, parameter="mower_id"),
            handler=handlers.show_mower,
            summary="One mower: who it is and what it can do",
            tag="fleet",
            answer=MowerView,
            errors=(NotFoundError,),
        ),
    )


class _MowerHandlers:
    def __init__(self, catalog: MowerCatalog, authorizer: Authorizer) -> None:
        self._catalog = catalog
        self._authorizer = authorizer

    async def list_mowers(self, request: Request) -> MowerList:
        who = request.who
        visible = await self._authorizer.list_objects(who, Relation.CAN_VIEW, ObjectType.MOWER)
        mowers = [m for m in await self._catalog.mowers(who.account_id) if m.mower_id in visible]
        return MowerList(items=tuple(sorted(mowers, key=lambda m: (m.name.casefold(), m.mower_id))))

    async def show_mower(self, request: Request) -> MowerView:
        return await self._catalog.mower(request.who.account_id, MowerId(request.path["mower_id"]))
