"""Reading mowers."""

from __future__ import annotations

from core.domain.access import Grant
from core.domain.ids import AccountId
from core.web.route import mower_ref
from tests.core.web.world import OWNER, STRANGER, VIEWER, World


async def names(world: World, who: object) -> list[str]:
    response = await world.get("/fleet/mowers", who)  # type: ignore[arg-type]
    return [mower["name"] for mower in (await response.json())["items"]]


async def test_the_list_holds_what_one_may_view_by_name(world: World) -> None:
    assert await names(world, OWNER) == ["Back", "Front"]
    assert await names(world, VIEWER) == ["Front"]
    assert await names(world, STRANGER) == ["Other"]


async def test_a_right_on_a_mower_of_another_account_shows_nothing(world: World) -> None:
    world.authorizer.allow(OWNER, mower_ref("other"), Grant.VIEW)
    assert await names(world, OWNER) == ["Back", "Front"]
    assert (await world.get("/fleet/mowers/other")).status == 404


async def test_one_mower_with_what_it_can_do(world: World) -> None:
    response = await world.get("/fleet/mowers/front", VIEWER)
    found = await response.json()
    assert (found["mower_id"], found["name"], found["capabilities"]["start_mow"]) == ("front", "Front", None)
    assert (await world.get("/fleet/mowers/back", VIEWER)).status == 404


async def test_an_account_id_in_the_query_is_refused(world: World) -> None:
    assert (await world.get("/fleet/mowers", STRANGER, params={"account_id": AccountId("acc-a")})).status == 422
