"""What the fleet's API takes and gives."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from core.domain.ids import EdgeId, GroupId, SiteId

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=120, pattern=r"\S")]
Address = Annotated[str, msgspec.Meta(max_length=400)]
TimeZone = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Domain = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Root of request bodies: a field that is not known is a mistake, not a wish that is ignored."""


class SiteView(msgspec.Struct, frozen=True, kw_only=True):
    """A site. `time_zone` is an IANA name."""

    site_id: SiteId
    name: str
    address: str
    time_zone: str
    is_default: bool
    created_at: datetime


class SiteList(msgspec.Struct, frozen=True, kw_only=True):
    """Sites, by name."""

    items: tuple[SiteView, ...]


class SitesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The default site is hidden unless it is asked for."""

    include_default: bool = False


class NewSite(_Body, frozen=True, kw_only=True):
    """A site to make. `time_zone` is an IANA name."""

    name: Name
    address: Address = ""
    time_zone: TimeZone = "UTC"


class SiteChange(_Body, frozen=True, kw_only=True):
    """Only what is given changes. The default site keeps its name."""

    name: Name | UnsetType = UNSET
    address: Address | UnsetType = UNSET
    time_zone: TimeZone | UnsetType = UNSET


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A group; without a site it reaches over all sites of the account."""

    group_id: GroupId
    name: str
    site_id: SiteId | None
    created_at: datetime


class GroupList(msgspec.Struct, frozen=True, kw_only=True):
    """Groups, by name."""

    items: tuple[GroupView, ...]


class NewGroup(_Body, frozen=True, kw_only=True):
    """A group to make: of a site, or over all sites."""

    name: Name
    site_id: SiteId | None = None


class GroupChange(_Body, frozen=True, kw_only=True):
    """A group's new name."""

    name: Name


class NewMower(_Body, frozen=True, kw_only=True):
    """A mower that a box is to set up: the integration's `domain` and its `connection` options (no secrets)."""

    name: Name
    edge_id: EdgeId
    domain: Domain
    connection: dict[str, Any] = {}
    site_id: SiteId | None = None
    group_ids: tuple[GroupId, ...] = ()


class MowerChange(_Body, frozen=True, kw_only=True):
    """Only what is given changes; `site_id` moves the mower."""

    name: Name | UnsetType = UNSET
    site_id: SiteId | UnsetType = UNSET
    connection: dict[str, Any] | UnsetType = UNSET


class MowerGroups(_Body, frozen=True, kw_only=True):
    """All groups that the mower is in afterwards."""

    group_ids: tuple[GroupId, ...]
