"""Sites and groups: the default site, what keeps a site from going, and the rights that follow a place."""

from __future__ import annotations

import asyncio

import pytest

from cloud_relay.fleet.hierarchy import group_ref, mower_ref, site_ref
from cloud_relay.fleet.views import GroupChange, MowerChange, NewGroup, NewMower, NewSite, SiteChange
from core.domain.access import Grant, Relation
from core.domain.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError

MANAGE = Relation.CAN_MANAGE_MOWERS


async def default_site(parts, account_id):
    async with parts.database.write() as connection:
        return await parts.sites.default(connection, account_id)


async def test_one_default_site_however_many_ask(parts):
    made = await asyncio.gather(*(default_site(parts, "acc-a") for _ in range(5)))
    assert len(set(made)) == 1
    assert await default_site(parts, "acc-b") not in made
    assert [s.is_default for s in await parts.sites.all("acc-a")] == [True]


async def test_default_site_keeps_name_and_life(parts):
    site_id = await default_site(parts, "acc-a")
    with pytest.raises(ConflictError):
        await parts.sites.change("acc-a", site_id, SiteChange(name="Other"))
    with pytest.raises(ConflictError):
        await parts.sites.delete("acc-a", site_id)
    changed = await parts.sites.change("acc-a", site_id, SiteChange(time_zone="Europe/Berlin"))
    assert (changed.name, changed.time_zone) == ("Home", "Europe/Berlin")


async def test_site_of_another_account_is_not_there(parts):
    site = await parts.sites.create("acc-a", NewSite(name="Park"))
    for attempt in (
        parts.sites.get("acc-b", site.site_id),
        parts.sites.change("acc-b", site.site_id, SiteChange(name="Mine")),
        parts.sites.delete("acc-b", site.site_id),
        parts.groups.create("acc-b", NewGroup(name="g", site_id=site.site_id)),
    ):
        with pytest.raises(NotFoundError):
            await attempt
    assert (await parts.sites.get("acc-a", site.site_id)).name == "Park"
    assert await parts.groups.all("acc-b") == ()


async def test_unknown_time_zone(parts):
    with pytest.raises(InvalidInputError) as caught:
        await parts.sites.create("acc-a", NewSite(name="Park", time_zone="../etc/passwd"))
    assert caught.value.mistakes[0].field == "time_zone"


async def test_site_in_use_stays(parts):
    site = await parts.sites.create("acc-a", NewSite(name="Park"))
    group = await parts.groups.create("acc-a", NewGroup(name="g", site_id=site.site_id))
    with pytest.raises(ConflictError):
        await parts.sites.delete("acc-a", site.site_id)
    await parts.groups.delete("acc-a", group.group_id)
    await parts.sites.delete("acc-a", site.site_id)
    with pytest.raises(NotFoundError):
        await parts.sites.get("acc-a", site.site_id)


async def test_rights_flow_down_and_end_with_the_place(parts):
    park = await parts.sites.create("acc-a", NewSite(name="Park"))
    yard = await parts.sites.create("acc-a", NewSite(name="Yard"))
    group = await parts.groups.create("acc-a", NewGroup(name="g", site_id=park.site_id))
    keeper = await parts.person("acc-a", frozenset({Grant.VIEW, Grant.MANAGE}), site_ref(park.site_id))
    owner = await parts.person("acc-a")
    box = await parts.link(owner)
    mower_id = await parts.mowers.create(
        "acc-a",
        NewMower(name="m", edge_id=box.edge_id, domain="simulator", group_ids=(group.group_id,)),
        park.site_id,
    )
    await parts.rights.require(keeper, MANAGE, [mower_ref(mower_id), group_ref(group.group_id)])
    with pytest.raises(NotFoundError):
        await parts.rights.require(keeper, MANAGE, [site_ref(yard.site_id)])
    with pytest.raises(ConflictError):  # the group of the park would go on giving rights on it
        await parts.mowers.change("acc-a", mower_id, MowerChange(site_id=yard.site_id))
    await parts.mowers.set_groups("acc-a", mower_id, ())
    await parts.mowers.change("acc-a", mower_id, MowerChange(site_id=yard.site_id))
    with pytest.raises(NotFoundError):
        await parts.rights.require(keeper, Relation.CAN_VIEW, [mower_ref(mower_id)])
    assert await parts.rights.is_allowed(owner, MANAGE, mower_ref(mower_id))


async def test_seeing_without_managing_is_forbidden(parts):
    park = await parts.sites.create("acc-a", NewSite(name="Park"))
    viewer = await parts.person("acc-a", frozenset({Grant.VIEW}))
    with pytest.raises(ForbiddenError):
        await parts.rights.require(viewer, MANAGE, [site_ref(park.site_id)])
    with pytest.raises(ForbiddenError):
        await parts.rights.require_somewhere(viewer, MANAGE)


async def test_group_with_mowers_stays_and_takes_only_its_sites_mowers(parts):
    park = await parts.sites.create("acc-a", NewSite(name="Park"))
    of_park = await parts.groups.create("acc-a", NewGroup(name="park", site_id=park.site_id))
    over_all = await parts.groups.create("acc-a", NewGroup(name="all"))
    box = await parts.link(await parts.person("acc-a"))
    mower_id = await parts.mowers.create(
        "acc-a", NewMower(name="m", edge_id=box.edge_id, domain="simulator"), await default_site(parts, "acc-a")
    )
    with pytest.raises(InvalidInputError):
        await parts.mowers.set_groups("acc-a", mower_id, (of_park.group_id,))
    await parts.mowers.set_groups("acc-a", mower_id, (over_all.group_id, over_all.group_id))
    assert (await parts.catalog.mower("acc-a", mower_id)).group_ids == (over_all.group_id,)
    with pytest.raises(ConflictError):
        await parts.groups.delete("acc-a", over_all.group_id)
    renamed = await parts.groups.change("acc-a", over_all.group_id, GroupChange(name=" every "))
    assert renamed.name == "every"
