"""What the fleet asks of the box, carried out once and only once."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.domain.ids import EntryId, MowerId
from core.platform.entry import EntryState
from tests.edge_agent.household.world import Household, household, registrations, until, wanted

pytestmark = pytest.mark.timeout(60)
FRONT, BACK = MowerId("front"), MowerId("back")


def failed(home: Household) -> dict[str, str]:
    return {f.mower_id: f.reason for f in (*home.roster.failed_registrations(), *home.fleet.refused())}


async def test_a_registered_mower_is_added_under_the_fleets_id_and_name(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(wanted("front", serial="a")))
        assert await home.online("a") == FRONT
        mower = home.registry.get(FRONT)
        assert (mower.name, mower.is_from_fleet) == ("Front", True)
        (record,) = home.entries.records()
        assert (record.source, record.data) == ("relay", {"serial": "a"})
        assert [item.mower_id for item in home.roster.inventory()] == [FRONT]
        assert failed(home) == {}


async def test_applying_again_changes_nothing(tmp_path: Path):
    again = registrations(wanted("front", serial="a"), wanted("back", serial="b"))
    async with household(tmp_path) as home:
        await home.fleet.apply(again)
        await home.fleet.apply(again)  # while the entries are on their way
        assert failed(home) == {}
        await home.online("a")
        await home.online("b")
        before = (home.registry.mowers(), home.entries.records())
        await home.fleet.apply(again)
        assert (home.registry.mowers(), home.entries.records()) == before
    async with household(tmp_path) as home:
        await home.fleet.apply(again)
        await home.online("a")
        assert len(home.entries.records()) == 2
        assert {m.mower_id for m in home.registry.mowers()} == {FRONT, BACK}


async def test_a_crash_between_reserving_and_adding_goes_on(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.registry.reserve(FRONT, EntryId("reserved"), "Front")
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(wanted("front", serial="a")))
        assert await home.online("a") == FRONT
        assert [record.entry_id for record in home.entries.records()] == ["reserved"]
        assert home.registry.reservations() == ()


async def test_what_cannot_be_is_reported_and_keeps_no_other_from_it(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.fleet.apply(
            registrations(
                wanted("wrong", serial=7),
                wanted("stray", colour="red"),
                wanted("absent", domain="nobody"),
                wanted("front", serial="a"),
            )
        )
        assert await home.online("a") == FRONT
        found = failed(home)
        assert set(found) == {"wrong", "stray", "absent"}
        assert "serial" in found["wrong"]
        assert "colour" in found["stray"]
        assert "nobody" in found["absent"]
        assert len(home.entries.records()) == 1
        assert home.registry.reservations() == ()
        await home.fleet.apply(registrations(wanted("wrong", serial="b"), wanted("front", serial="a")))
        assert await home.online("b") == "wrong"
        assert failed(home) == {}


async def test_a_set_up_that_fails_is_reported(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.fleet.apply(
            registrations(wanted("front", fault="mowers:entry_error"), wanted("back", serial="b", count=0))
        )
        await until(lambda: {v.state for v in home.entries.views()} == {EntryState.ERROR, EntryState.LOADED})
        assert failed(home) == {"front": "cannot work", "back": "its integration reaches no mower"}


async def test_a_mower_that_the_box_knows_already_is_a_conflict(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.add("a")
        known = await home.online("a")
        await home.fleet.apply(registrations(wanted("front", serial="a")))
        await until(lambda: "front" in failed(home))
        assert known in failed(home)["front"]
        assert [m.mower_id for m in home.registry.mowers()] == [known]
        await home.fleet.apply(registrations(removed=("front",)))
        assert failed(home) == {}
        assert [record.source for record in home.entries.records()] == ["user"]
        assert await home.online("a") == known


async def test_the_fleet_renames(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.add("a")
        mower_id = await home.online("a")
        await home.fleet.apply(registrations(wanted(mower_id, "Bertha", domain=None)))
        assert home.registry.get(mower_id).name == "Bertha"
        (entry_id,) = home.registry.get(mower_id).links
        await home.entries.reload(entry_id)
        await home.online("a")
        assert home.registry.get(mower_id).name == "Bertha"


async def test_a_mower_adopted_here_and_forgotten_is_not_made_again(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(wanted("gone", domain=None)))
        assert home.entries.records() == ()
        assert failed(home) == {}


# -- removal


async def test_what_the_fleet_added_it_may_remove(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(wanted("front", serial="a"), wanted("back", serial="b")))
        await home.online("a")
        await home.online("b")
        await home.fleet.apply(registrations(wanted("back", serial="b"), removed=("front",)))
        assert [m.mower_id for m in home.registry.mowers()] == [BACK]
        assert [e.mower_id for e in await home.store.directory()] == [BACK]
        assert len(home.entries.records()) == 1
        await home.fleet.apply(registrations(wanted("back", serial="b"), removed=("front",)))
        assert [m.mower_id for m in home.registry.mowers()] == [BACK]


async def test_removal_goes_on_after_a_crash_in_the_middle(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(wanted("front", serial="a")))
        await home.online("a")
        (record,) = home.entries.records()
        await home.entries.remove(record.entry_id)
        await until(lambda: home.registry.get(FRONT).links == {})
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(removed=("front",)))
        assert home.registry.mowers() == ()


async def test_a_registration_that_never_came_up_is_removed_with_its_entry(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(wanted("front", fault="mowers:entry_error")))
        await home.fleet.apply(registrations(removed=("front",)))
        assert home.entries.records() == ()
        assert home.registry.reservations() == ()
        assert failed(home) == {}


async def test_what_the_household_set_up_stays(tmp_path: Path):
    async with household(tmp_path) as home:
        entry_id = await home.add("a")
        mower_id = await home.online("a")
        await home.fleet.apply(registrations(removed=(mower_id,)))
        assert await home.online("a") == mower_id
        await home.entries.remove(entry_id)  # its rows stay too, when the household keeps only those
        await until(lambda: home.registry.get(mower_id).links == {})
        await home.fleet.apply(registrations(removed=(mower_id,)))
        assert [m.mower_id for m in home.registry.mowers()] == [mower_id]
        assert [e.mower_id for e in await home.store.directory()] == [mower_id]


async def test_a_mower_that_the_household_reaches_too_stays(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(wanted("front", serial="a")))
        await home.online("a")
        await home.add("a")
        await until(lambda: len(home.registry.get(FRONT).links) == 2)
        await home.fleet.apply(registrations(removed=("front",)))
        assert await home.online("a") == FRONT
        assert len(home.entries.records()) == 2


async def test_an_entry_with_other_mowers_stays_until_all_of_them_go(tmp_path: Path):
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(wanted("front", serial="a", count=2)))
        await home.online("a")
        other = await home.online("a-1")
        await home.fleet.apply(registrations(removed=("front",)))
        assert set(home.phases()) == {FRONT, other}
        await home.fleet.apply(registrations(removed=("front", other)))
        assert home.entries.records() == ()
        assert FRONT not in {m.mower_id for m in home.registry.mowers()}


async def test_the_end_of_a_link_keeps_everything(tmp_path: Path):
    """Unlinked, the box hears no more registrations; an empty list is no removal either."""
    async with household(tmp_path) as home:
        await home.fleet.apply(registrations(wanted("front", serial="a")))
        await home.online("a")
        await home.fleet.apply(registrations())
        assert await home.online("a") == FRONT
