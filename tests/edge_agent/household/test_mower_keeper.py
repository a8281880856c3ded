"""The runtime follows the entries."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.domain.errors import ConflictError, NotFoundError, StorageFullError
from core.domain.mower import Connectivity
from core.platform.entry import EntryState
from tests.edge_agent.household.world import household, until

pytestmark = pytest.mark.timeout(60)


async def test_nothing_is_served_before_somebody_has_registered(tmp_path: Path):
    async with household(tmp_path, is_registered=False) as home:
        await home.add("a")
        for _ in range(20):
            await asyncio.sleep(0)
        assert home.registry.mowers() == ()
        assert home.supervisor.statuses() == ()
        account = await home.register()
        mower_id = await home.online("a")
        entry = await home.store.entry_of(mower_id)
        assert entry is not None
        assert (entry.account_id, entry.name) == (account, "Misbehaving 0")


async def test_a_loaded_entry_has_its_mowers_supervised_and_the_relay_told(tmp_path: Path):
    async with household(tmp_path) as home:
        before = home.told
        await home.add("a", count=3)
        mower_id = await home.online("a")
        for serial in ("a-1", "a-2"):
            await home.online(serial)
        assert len(home.phases()) == 3
        assert home.told > before
        able = home.registry.get(mower_id).capabilities
        assert able is not None
        assert able.set_blade_height is not None
        assert home.live.all()[mower_id].connectivity is Connectivity.ONLINE
        assert {item.mower_id for item in home.roster.inventory()} == set(home.phases())


async def test_an_unloaded_entry_leaves_its_mowers_known_and_offline(tmp_path: Path):
    async with household(tmp_path) as home:
        entry_id = await home.add("a")
        mower_id = await home.online("a")
        await home.entries.update(entry_id, is_disabled=True)
        assert home.phases() == {}
        await until(lambda: home.live.all()[mower_id].connectivity is Connectivity.OFFLINE)
        (view,) = await home.roster.mowers(home.people.account.require())
        assert view.setup_error == "its integration is switched off"
        await home.entries.update(entry_id, is_disabled=False)
        assert await home.online("a") == mower_id


async def test_a_restart_serves_the_same_mowers(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.add("a")
        mower_id = await home.online("a")
    async with household(tmp_path) as home:
        assert await home.online("a") == mower_id


async def test_two_entries_are_two_links_of_one_mower(tmp_path: Path):
    async with household(tmp_path) as home:
        first = await home.add("a")
        mower_id = await home.online("a")
        second = await home.add("a")
        await until(lambda: len(home.supervisor.open_links(mower_id)) == 2)
        assert {door.entry_id for door in home.supervisor.statuses()} == {first, second}
        assert [mower.mower_id for mower in home.registry.mowers()] == [mower_id]
        assert [item.mower_id for item in home.roster.inventory()] == [mower_id]
        (keeps,) = [link for link in home.supervisor.open_links(mower_id) if link.entry_id == second]
        await home.entries.update(first, is_disabled=True)
        assert home.supervisor.open_links(mower_id) == (keeps,), "the other link has not noticed"
        assert home.live.all()[mower_id].connectivity is Connectivity.ONLINE
        await home.entries.update(first, is_disabled=False)
        await until(lambda: len(home.supervisor.open_links(mower_id)) == 2)
        await home.entries.remove(first)
        await until(lambda: list(home.registry.get(mower_id).links) == [second])
        assert home.supervisor.open_links(mower_id) == (keeps,)
        with pytest.raises(ConflictError):
            await home.keeper.remove(mower_id)
        await home.entries.remove(second)
        await until(lambda: home.live.all()[mower_id].connectivity is Connectivity.OFFLINE)
        await home.keeper.remove(mower_id)
        assert home.registry.mowers() == ()


async def test_a_link_whose_password_is_wrong_asks_for_its_own_entry_only(tmp_path: Path):
    async with household(tmp_path) as home:
        good = await home.add("a")
        mower_id = await home.online("a")
        link = home.supervisor.open_links(mower_id)
        bad = await home.add("a", "run:auth_failed")
        await until(lambda: home.entries.view(bad).state is EntryState.AUTH_FAILED)
        assert home.entries.view(good).state is EntryState.LOADED
        assert home.supervisor.open_links(mower_id) == link
        up, down = (await home.roster.mower(home.people.account.require(), mower_id)).link_states
        assert (up.entry_id, up.state, up.is_active, up.reason, up.domain) == (good, "up", True, None, "misbehaving")
        assert (down.entry_id, down.state, down.is_active, down.reason) == (bad, "down", False, "wrong password")


async def test_two_links_after_a_restart(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.add("a")
        mower_id = await home.online("a")
        await home.add("a")
        await until(lambda: len(home.supervisor.open_links(mower_id)) == 2)
    async with household(tmp_path) as home:
        assert await home.online("a") == mower_id
        await until(lambda: len(home.supervisor.open_links(mower_id)) == 2)


async def test_a_full_disk_only_delays(tmp_path: Path):
    async with household(tmp_path) as home:
        home.store.failures = [StorageFullError("no room") for _ in range(3)]
        await home.add("a")
        await home.online("a")
        assert home.store.failures == []


async def test_stubborn_links_do_not_keep_the_others_on_a_closed_integration(tmp_path: Path):
    """Each link takes its whole deadline to end; together they must not take longer than one."""
    async with household(tmp_path) as home:
        entry_id = await home.add("a", "run:stubborn", count=8, stubborn_s=1.5)
        await until(lambda: len(home.phases()) == 8 and set(home.phases().values()) == {"online"})
        loop = asyncio.get_running_loop()
        began = loop.time()
        await home.keeper.release(entry_id)
        assert loop.time() - began < 8 * 0.3
        assert home.phases() == {}
        await asyncio.sleep(1.6 - (loop.time() - began))  # the abandoned tasks end by themselves


async def test_changes_that_wait_need_no_room(tmp_path: Path):
    async with household(tmp_path, is_registered=False) as home:
        await home.add("a")
        (record,) = home.entries.records()
        for _ in range(5_000):  # nobody has registered, so nobody carries them out
            home.keeper._note_entry(record, EntryState.LOADED, None)
        await home.register()
        await home.online("a")


# -- forgetting


async def test_a_mower_is_forgotten_only_when_nothing_reaches_it(tmp_path: Path):
    async with household(tmp_path) as home:
        entry_id = await home.add("a")
        mower_id = await home.online("a")
        with pytest.raises(ConflictError):
            await home.keeper.remove(mower_id)
        await home.entries.remove(entry_id)
        await home.keeper.remove(mower_id)  # at once: the entry's end need not be worked off yet
        assert home.commander.forgotten == [mower_id]
        assert home.registry.mowers() == ()
        assert await home.store.directory() == []
        assert home.live.all() == {}
        assert home.intake.last(mower_id) is None
        assert home.phases() == {}
        with pytest.raises(NotFoundError):
            await home.keeper.remove(mower_id)


async def test_a_mower_that_its_entry_has_lost_can_be_forgotten(tmp_path: Path):
    async with household(tmp_path) as home:
        entry_id = await home.add("a")
        mower_id = await home.online("a")
        data = {"serial": "b", "fault": ":"}
        await home.entries.update(entry_id, data=data)
        await home.entries.reload(entry_id)
        await home.online("b")
        await home.keeper.remove(mower_id)
        assert [m.key for m in home.registry.mowers()] == ["misbehaving:b"]


async def test_forgetting_goes_on_after_a_crash_in_the_middle(tmp_path: Path):
    async with household(tmp_path) as home:
        entry_id = await home.add("a")
        mower_id = await home.online("a")
        await home.entries.remove(entry_id)
        await until(lambda: home.registry.get(mower_id).links == {})
        await home.store.purge_mower(mower_id)  # and then the power went
    async with household(tmp_path) as home:
        await home.keeper.remove(mower_id)
        assert home.registry.mowers() == ()
    async with household(tmp_path) as home:
        assert home.registry.mowers() == ()


async def test_rights_on_the_account_reach_a_mower_at_once_and_end_with_it(tmp_path: Path):
    async with household(tmp_path) as home:
        touched: list[object] = []
        home.people.grants_changed.subscribe(touched.append)
        entry_id = await home.add("a")
        mower_id = await home.online("a")
        assert touched == [None]
        await home.entries.remove(entry_id)
        await home.keeper.remove(mower_id)
        assert touched == [None, None]


@pytest.mark.parametrize(("fault", "tries_at_once"), [("out_of_range", True), ("not_ready_long", False)])
async def test_a_mower_that_comes_back_is_not_waited_for_any_longer(tmp_path: Path, fault: str, tries_at_once: bool):
    async with household(tmp_path) as home:
        data = {"serial": "a", "fault": f"open:{fault}"}
        await home.entries.add(domain="misbehaving", title="a", source="user", unique_id="a", data=data)
        await until(lambda: "waiting" in home.phases().values())
        (before,) = home.supervisor.statuses()
        home.entries.nudge("misbehaving", "a")
        home.entries.nudge("misbehaving", "somebody else")
        for _ in range(50):
            await asyncio.sleep(0)
        await until(lambda: "waiting" in home.phases().values())
        (after,) = home.supervisor.statuses()
        assert (after.since > before.since) is tries_at_once
