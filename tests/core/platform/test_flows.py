"""Config flows: what a person sees, and that a plugin's step disturbs nothing."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError, NotFoundError
from core.domain.limits import FLOW_TTL_S, FLOWS_DISCOVERED, FLOWS_OPEN
from core.platform.entry import EntryState
from core.platform.flow import AbortResult, CreateEntryResult, FormResult
from tests.core.platform.conftest import Platform
from tests.fakes.clock import ManualClock


async def start(platform: Platform) -> str:
    return (await platform.flows.start("misbehaving")).flow_id


async def discover(platform: Platform, serial: str, **details):
    return await platform.flows.start("misbehaving", "discovery", {"serial": serial, **details})


async def test_a_person_sets_up_an_entry(platform: Platform):
    first = await platform.flows.start("misbehaving")
    assert isinstance(first.result, FormResult)
    assert [field["name"] for field in first.result.fields] == ["serial", "fault", "pin"]
    assert first.result.fields[0]["required"] is True
    assert first.result.fields[2]["format"] == "password"
    last = await platform.flows.advance(first.flow_id, {"serial": "abc", "pin": "4711-secret"})
    assert isinstance(last.result, CreateEntryResult)
    assert "4711-secret" not in msgspec.json.encode(last).decode() + repr(last)
    (view,) = platform.entries.views()
    assert (view.entry_id, view.unique_id, view.title) == (last.result.entry_id, "abc", "Misbehaving abc")
    assert await platform.settled(view.entry_id) is EntryState.LOADED
    assert platform.entries.secrets.for_entry(view.entry_id).get("pin") == "4711-secret"
    assert "4711-secret" not in str(platform.entries.record(view.entry_id))
    with pytest.raises(NotFoundError):
        platform.flows.get(first.flow_id)


@pytest.mark.parametrize(
    ("given", "field"),
    [({}, "serial"), ({"serial": ""}, "serial"), ({"serial": 3}, "serial"), ({"serial": "a", "more": 1}, "more")],
)
async def test_what_the_schema_refuses_comes_back_as_the_form(platform: Platform, given, field):
    flow = await start(platform)
    again = await platform.flows.advance(flow, {**given, "pin": "typed"})
    assert isinstance(again.result, FormResult)
    assert set(again.result.errors) == {field}
    shown = {f["name"]: f.get("suggested_value") for f in again.result.fields}
    assert shown["serial"] == given.get("serial")
    assert shown["pin"] is None
    done = await platform.flows.advance(flow, {"serial": "good"})
    assert isinstance(done.result, CreateEntryResult)


async def test_errors_of_the_plugin_keep_what_was_typed(platform: Platform):
    flow = await start(platform)
    again = await platform.flows.advance(flow, {"serial": "abc", "fault": "run:error", "pin": "typed"})
    assert isinstance(again.result, FormResult)
    assert again.result.errors == {"serial": "cannot_connect"}
    assert {f["name"]: f.get("suggested_value") for f in again.result.fields} == {
        "serial": "abc",
        "fault": "run:error",
        "pin": None,
    }


NONSENSE = ["rubbish", "script", "no_work", "wrong_types", "wrong_errors", "huge", "no_json"]


@pytest.mark.parametrize("how", NONSENSE)
async def test_a_step_may_answer_anything(platform: Platform, how: str):
    flow = await start(platform)
    end = await platform.flows.advance(flow, {"serial": "x", "fault": f"flow:{how}"})
    assert end.result == AbortResult(reason="unknown")
    assert platform.entries.views() == ()


@pytest.mark.parametrize(
    "how",
    [
        "raise",
        "unprintable",
        "exit",
        "interrupt",
        "cancelled",
        "odd",
        "hang",
        "stubborn",
        "rubbish",
        "not_ready",
        "generator_exit",
    ],
)
async def test_a_step_may_do_anything(platform: Platform, how: str):
    other = await start(platform)
    flow = await start(platform)
    end = await platform.flows.advance(flow, {"serial": "x", "fault": f"flow:{how}"})
    assert end.result == AbortResult(reason="unknown")
    done = await platform.flows.advance(other, {"serial": "y"})
    assert isinstance(done.result, CreateEntryResult)
    await platform.until(lambda: not any("flow" in task.get_name() for task in asyncio.all_tasks()))


async def test_one_flow_and_one_entry_per_device(platform: Platform):
    first, second = await discover(platform, "one"), await discover(platform, "one")
    assert second.result == AbortResult(reason="already_in_progress")
    await platform.flows.advance(first.flow_id)
    third = await discover(platform, "one")
    assert third.result == AbortResult(reason="already_configured")
    (view,) = platform.entries.views()
    await platform.until(lambda: platform.entries.record(view.entry_id).data.get("address") == "new")


async def test_discovery_makes_no_entry_without_a_person(platform: Platform):
    pushy = await discover(platform, "one", pushy=True)
    assert pushy.result == AbortResult(reason="confirmation_required")
    assert platform.entries.views() == ()


async def test_what_is_ignored_is_never_offered_again(platform: Platform):
    found = await discover(platform, "one", name="Noisy")
    await platform.flows.ignore(found.flow_id)
    assert (await discover(platform, "one")).result == AbortResult(reason="ignored")
    assert isinstance((await discover(platform, "two")).result, FormResult)
    flow = await start(platform)
    by_hand = await platform.flows.advance(flow, {"serial": "one"})
    assert isinstance(by_hand.result, CreateEntryResult)  # a person may still add it


async def test_only_a_discovery_can_be_ignored(platform: Platform):
    with pytest.raises(ConflictError):
        await platform.flows.ignore(await start(platform))


async def test_flows_expire(platform: Platform, clock: ManualClock):
    flow = await start(platform)
    clock.advance(FLOW_TTL_S / 2)
    await platform.flows.advance(flow, {})
    clock.advance(FLOW_TTL_S / 2 + 1)
    assert platform.flows.get(flow).flow_id == flow
    clock.advance(FLOW_TTL_S)
    with pytest.raises(NotFoundError):
        platform.flows.get(flow)


async def test_flows_are_bounded_and_discovery_leaves_room(platform: Platform):
    for number in range(FLOWS_DISCOVERED):
        await discover(platform, str(number))
    with pytest.raises(LimitExceededError):
        await discover(platform, "one more")
    for _ in range(FLOWS_OPEN - FLOWS_DISCOVERED):
        last = await start(platform)
    with pytest.raises(LimitExceededError):
        await start(platform)
    platform.flows.cancel(last)
    await start(platform)


async def test_a_flow_of_an_entry_needs_one_of_its_domain(platform: Platform):
    with pytest.raises(NotFoundError):
        await platform.flows.start("misbehaving", "reauth", {"entry_id": "nobody"})
    entry = await platform.add()
    with pytest.raises(InvalidInputError):
        await platform.flows.start("other", "reauth", {"entry_id": entry})
    await platform.flows.start("misbehaving", "reauth", {"entry_id": entry})
    with pytest.raises(ConflictError):
        await platform.flows.start("misbehaving", "reauth", {"entry_id": entry})


async def test_a_source_without_a_step_is_refused(platform: Platform):
    entry = await platform.add()
    end = await platform.flows.start("misbehaving", "reconfigure", {"entry_id": entry})
    assert end.result == AbortResult(reason="not_supported")


async def test_a_busy_flow_says_so(platform: Platform):
    flow = await start(platform)
    busy = asyncio.create_task(platform.flows.advance(flow, {"serial": "x", "fault": "flow:hang"}))
    await platform.until(lambda: any("step user" in task.get_name() for task in asyncio.all_tasks()))
    with pytest.raises(ConflictError):
        await platform.flows.advance(flow, {"serial": "x"})
    assert (await busy).result == AbortResult(reason="unknown")


async def test_unknown_integrations_have_no_flow(platform: Platform):
    with pytest.raises(NotFoundError):
        await platform.flows.start("nobody_has_it")


async def test_menu_progress_and_external(platform: Platform):
    view = await platform.flows.start("misbehaving", "import", {"kind": "tour"})
    assert view.result.step_id == "tour"
    with pytest.raises(InvalidInputError):
        await platform.flows.advance(view.flow_id, {"next_step_id": "create"})
    waiting = await platform.flows.advance(view.flow_id, {"next_step_id": "pair"})
    assert (waiting.result.step_id, waiting.result.action) == ("pair", "pairing")
    await platform.until(lambda: type(platform.flows.get(view.flow_id).result).__name__ == "ExternalResult")
    done = await platform.flows.advance(view.flow_id, {"code": "abc"})
    assert isinstance(done.result, CreateEntryResult)
    assert platform.entries.records()[0].data == {"code": "abc", "failed": "TimeoutError"}


async def test_whoever_polls_for_progress_sees_how_it_ended(platform: Platform):
    view = await platform.flows.start("misbehaving", "import", {"kind": "tour"})
    waiting = await platform.flows.advance(view.flow_id, {"next_step_id": "bond"})
    assert waiting.result.action == "pairing"
    await platform.until(lambda: isinstance(platform.flows.get(view.flow_id).result, CreateEntryResult))
    assert platform.flows.get(view.flow_id).result.title == "Bonded"
    assert platform.flows.list() == ()
    with pytest.raises(NotFoundError):
        await platform.flows.advance(view.flow_id)
