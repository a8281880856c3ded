"""Routes of sites and groups."""

from __future__ import annotations

from cloud_relay.fleet.groups import Groups
from cloud_relay.fleet.hierarchy import account_ref, site_ref
from cloud_relay.fleet.rights import Rights
from cloud_relay.fleet.sites import Sites
from cloud_relay.fleet.views import (
    GroupChange,
    GroupList,
    GroupView,
    NewGroup,
    NewSite,
    SiteChange,
    SiteList,
    SitesQuery,
    SiteView,
)
from core.domain.access import ObjectRef, ObjectType, Relation
from core.domain.errors import ConflictError, LimitExceededError, NotFoundError
from core.domain.ids import GroupId, SiteId
from core.web.route import Decided, OnAccount, OnObject, Request, Route

VIEW = Relation.CAN_VIEW
MANAGE = Relation.CAN_MANAGE_MOWERS


def _site(relation: Relation) -> OnObject:
    return OnObject(relation=relation, type=ObjectType.SITE, parameter="site_id")


def _group(relation: Relation) -> OnObject:
    return OnObject(relation=relation, type=ObjectType.GROUP, parameter="group_id")


class SiteRoutes:
    """Handlers of `/fleet/sites`."""

    def __init__(self, *, sites: Sites, rights: Rights) -> None:
        self._sites = sites
        self._rights = rights

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/fleet/sites",
                guard=Decided(relations=(VIEW,), reason="lists the sites that the caller may view"),
                handler=self._list,
                summary="Sites",
                tag="fleet",
                query=SitesQuery,
                answer=SiteList,
            ),
            Route(
                method="POST",
                path="/fleet/sites",
                guard=OnAccount(relation=MANAGE),
                handler=self._create,
                summary="Makes a site",
                tag="fleet",
                body=NewSite,
                answer=SiteView,
                status=201,
                errors=(LimitExceededError,),
            ),
            Route(
                method="GET",
                path="/fleet/sites/{site_id}",
                guard=_site(VIEW),
                handler=self._get,
                summary="A site",
                tag="fleet",
                answer=SiteView,
                errors=(NotFoundError,),
            ),
            Route(
                method="PATCH",
                path="/fleet/sites/{site_id}",
                guard=_site(MANAGE),
                handler=self._change,
                summary="Changes a site (the default one keeps its name)",
                tag="fleet",
                body=SiteChange,
                answer=SiteView,
                errors=(NotFoundError, ConflictError),
            ),
            Route(
                method="DELETE",
                path="/fleet/sites/{site_id}",
                guard=_site(MANAGE),
                handler=self._delete,
                summary="Removes an empty site",
                tag="fleet",
                status=204,
                errors=(NotFoundError, ConflictError),
            ),
        )

    async def _list(self, request: Request) -> SiteList:
        visible = await self._rights.visible(request.who, VIEW, ObjectType.SITE)
        sites = await self._sites.all(request.who.account_id)
        shows_default = request.query.include_default
        return SiteList(items=tuple(s for s in sites if s.site_id in visible and (shows_default or not s.is_default)))

    async def _create(self, request: Request) -> SiteView:
        return await self._sites.create(request.who.account_id, request.body)

    async def _get(self, request: Request) -> SiteView:
        return await self._sites.get(request.who.account_id, SiteId(request.path["site_id"]))

    async def _change(self, request: Request) -> SiteView:
        return await self._sites.change(request.who.account_id, SiteId(request.path["site_id"]), request.body)

    async def _delete(self, request: Request) -> None:
        await self._sites.delete(request.who.account_id, SiteId(request.path["site_id"]))


class GroupRoutes:
    """Handlers of `/fleet/groups`."""

    def __init__(self, *, groups: Groups, rights: Rights) -> None:
        self._groups = groups
        self._rights = rights

    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                method="GET",
                path="/fleet/groups",
                guard=Decided(relations=(VIEW,), reason="lists the groups that the caller may view"),
                handler=self._list,
                summary="Groups",
                tag="fleet",
                answer=GroupList,
            ),
            Route(
                method="POST",
                path="/fleet/groups",
                guard=Decided(relations=(MANAGE,), reason="asked of the site that the body names, or of the account"),
                handler=self._create,
                summary="Makes a group, within a site or over all sites",
                tag="fleet",
                body=NewGroup,
                answer=GroupView,
                status=201,
                errors=(NotFoundError, LimitExceededError),
            ),
            Route(
                method="GET",
                path="/fleet/groups/{group_id}",
                guard=_group(VIEW),
                handler=self._get,
                summary="A group",
                tag="fleet",
                answer=GroupView,
                errors=(NotFoundError,),
            ),
            Route(
                method="PATCH",
                path="/fleet/groups/{group_id}",
                guard=_group(MANAGE),
                handler=self._change,
                summary="Renames a group",
                tag="fleet",
                body=GroupChange,
                answer=GroupView,
                errors=(NotFoundError,),
            ),
            Route(
                method="DELETE",
                path="/fleet/groups/{group_id}",
                guard=_group(MANAGE),
                handler=self._delete,
                summary="Removes an empty group",
                tag="fleet",
                status=204,
                errors=(NotFoundError, ConflictError),
            ),
        )

    async def _list(self, request: Request) -> GroupList:
        visible = await self._rights.visible(request.who, VIEW, ObjectType.GROUP)
        groups = await self._groups.all(request.who.account_id)
        return GroupList(items=tuple(group for group in groups if group.group_id in visible))

    async def _create(self, request: Request) -> GroupView:
        await self._rights.require(request.who, MANAGE, [_parent(request, request.body.site_id)])
        return await self._groups.create(request.who.account_id, request.body)

    async def _get(self, request: Request) -> GroupView:
        return await self._groups.get(request.who.account_id, GroupId(request.path["group_id"]))

    async def _change(self, request: Request) -> GroupView:
        group = await self._managed(request)
        return await self._groups.change(request.who.account_id, group.group_id, request.body)

    async def _delete(self, request: Request) -> None:
        group = await self._managed(request)
        await self._groups.delete(request.who.account_id, group.group_id)

    async def _managed(self, request: Request) -> GroupView:
        """The group of the path, when the caller manages what it is below; the guard has asked for the group itself."""
        group = await self._groups.get(request.who.account_id, GroupId(request.path["group_id"]))
        await self._rights.require_around(request.who, MANAGE, [_parent(request, group.site_id)])
        return group


def _parent(request: Request, site_id: SiteId | None) -> ObjectRef:
    return account_ref(request.who.account_id) if site_id is None else site_ref(site_id)
