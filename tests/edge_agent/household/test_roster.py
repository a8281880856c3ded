"""The household's mowers as others ask for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.domain.errors import NotFoundError, UnavailableError
from core.domain.ids import AccountId, MowerId
from edge_agent.household.roster import NO_ENTRY
from tests.edge_agent.household.world import household, until

pytestmark = pytest.mark.timeout(60)
OTHER = AccountId("other")


async def test_only_the_own_account_sees_mowers(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.add("a")
        mower_id = await home.online("a")
        account = home.people.account.require()
        assert [m.mower_id for m in await home.roster.mowers(account)] == [mower_id]
        assert (await home.roster.mower(account, mower_id)).serial == "a"
        assert await home.roster.mowers(OTHER) == []
        with pytest.raises(NotFoundError):
            await home.roster.mower(OTHER, mower_id)
        with pytest.raises(NotFoundError):
            await home.roster.mower(account, MowerId("absent"))


async def test_a_mower_says_what_is_wrong_with_its_entry(tmp_path: Path):
    async with household(tmp_path) as home:
        account = home.people.account.require()
        entry_id = await home.add("a")
        mower_id = await home.online("a")
        assert (await home.roster.mower(account, mower_id)).setup_error is None
        await home.entries.update(entry_id, data={"serial": "a", "fault": "mowers:auth_failed"})
        await home.entries.reload(entry_id)
        assert (await home.roster.mower(account, mower_id)).setup_error == "wrong password"
        second = await home.add("a")
        await home.online("a")
        assert (await home.roster.mower(account, mower_id)).setup_error is None, "another entry reaches it"
        links = (await home.roster.mower(account, mower_id)).link_states
        assert [(link.entry_id, link.state, link.reason) for link in links] == [
            (second, "up", None),
            (entry_id, "down", "wrong password"),
        ]
        for one in (entry_id, second):
            await home.entries.remove(one)
        await until(lambda: home.registry.get(mower_id).links == {})
        view = await home.roster.mower(account, mower_id)
        assert (view.setup_error, view.domain, view.links, view.link_states) == (NO_ENTRY, None, (), ())
        assert view.capabilities.start_mow is not None, "what it could do is remembered"
        assert home.roster.inventory() == ()


async def test_a_mower_without_a_first_link_is_no_inventory_yet(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.add("a", "open:raise")
        await until(lambda: "parked" in home.phases().values())
        assert len(home.registry.mowers()) == 1
        assert home.roster.inventory() == ()
        mower_id = home.registry.mowers()[0].mower_id
        assert home.roster.is_known(mower_id)
        assert home.roster.capabilities(mower_id) is None
        assert home.roster.capabilities(MowerId("absent")) is None
        assert not home.roster.is_known(MowerId("absent"))


async def test_the_account_is_known_with_the_first_registration(tmp_path: Path):
    async with household(tmp_path, is_registered=False) as home:
        account = home.people.account
        assert account.account_id is None
        with pytest.raises(UnavailableError):
            account.require()
        registered = await home.register()
        assert await account.wait() == registered
        await account.load()
        assert account.require() == registered
    async with household(tmp_path, is_registered=False) as home:
        assert home.people.account.require() == registered
