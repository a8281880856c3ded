"""Config entries: states, retries, and that no plugin disturbs another."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.commands import StartMow
from core.domain.errors import AuthFailedError, ConflictError, InvalidInputError, LinkLostError, NotFoundError
from core.domain.mower import Activity, LinkKind, MowerState
from core.platform.entry import EntryState
from core.platform.entry_life import retry_delay_s
from core.platform.integration import ACCEPTED, key_of
from tests.core.platform.conftest import Platform, running_platform
from tests.fakes.clock import ManualClock

PARKED = [
    "raise",
    "unprintable",
    "exit",
    "interrupt",
    "generator_exit",
    "stop_iteration",
    "cancelled",
    "odd",
    "memory",
    "recursion",
]
RETRIED = ["hang", "connection", "timeout", "not_ready", "link_lost", "link_timeout", "rate_limited"]


async def works(platform: Platform, entry_id) -> None:
    """A mower of the entry still docks, mows and obeys."""
    integration = platform.integrations[entry_id]
    (mower,) = platform.entries.view(entry_id).mowers
    link = await integration.open(key_of(mower), LinkKind.SIM)
    states: asyncio.Queue[MowerState] = asyncio.Queue()
    running = asyncio.create_task(link.run(states.put_nowait))
    assert (await states.get()).activity is Activity.DOCKED
    assert await link.send(StartMow()) == ACCEPTED
    assert (await states.get()).activity is Activity.MOWING
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.parametrize("how", [*PARKED, "entry_error", "rubbish", "rubbish_items"])
async def test_a_bug_parks_its_entry_and_no_other(platform: Platform, how: str):
    good = await platform.add()
    bad = await platform.add(f"mowers:{how}")
    assert platform.state(bad) is EntryState.ERROR
    assert platform.entries.view(bad).reason
    assert "hunter2" not in (platform.entries.view(bad).reason or "")
    assert platform.naps.naps == []
    await works(platform, good)


@pytest.mark.parametrize("how", [*PARKED, "entry_error", "rubbish"])
async def test_create_may_do_anything(platform: Platform, how: str):
    good = await platform.add()
    assert platform.state(await platform.add(f"create:{how}")) is EntryState.ERROR
    await works(platform, good)


async def test_a_cancelled_error_of_a_plugin_cancels_nobody(platform: Platform):
    assert platform.state(await platform.add("create:cancelled")) is EntryState.ERROR
    assert platform.state(await platform.add("mowers:cancelled")) is EntryState.ERROR
    assert platform.state(await platform.add("close:cancelled")) is EntryState.LOADED


@pytest.mark.parametrize("how", RETRIED)
async def test_what_may_pass_is_tried_again(platform: Platform, how: str):
    bad = await platform.add(f"mowers:{how}", times=1)
    assert platform.state(bad) is EntryState.RETRY
    assert platform.entries.view(bad).tries == 1
    assert await platform.naps.asked(1) == (30.0 if how == "rate_limited" else 5.0)
    platform.naps.wake()
    await platform.until(lambda: platform.state(bad) is EntryState.RETRY and platform.entries.view(bad).tries == 2)
    # every set-up makes a new plugin object, so it faults again: the waits double
    assert await platform.naps.asked(2) == (30.0 if how == "rate_limited" else 10.0)


async def test_it_comes_up_when_the_trouble_has_passed(platform: Platform):
    bad = await platform.add("mowers:not_ready")
    await platform.entries.update(bad, data={"fault": ":"})
    await platform.naps.asked(1)
    platform.naps.wake()
    await platform.until(lambda: platform.state(bad) is EntryState.LOADED)
    assert platform.entries.view(bad).tries == 0


async def test_a_longer_retry_after_is_respected(platform: Platform):
    await platform.add("mowers:not_ready_long")
    assert await platform.naps.asked(1) == 3000.0


async def test_seeing_the_device_ends_the_wait(platform: Platform):
    record = await platform.entries.add(
        domain="misbehaving", title="t", source="user", unique_id="one", data={"fault": "mowers:not_ready"}
    )
    await platform.settled(record.entry_id)
    await platform.entries.update(record.entry_id, data={"fault": ":"})
    platform.entries.nudge("misbehaving", "one")
    await platform.until(lambda: platform.state(record.entry_id) is EntryState.LOADED)


@given(tries=st.integers(1, 10_000), after=st.none() | st.floats(), noise=st.floats(0, 1))
def test_waits_are_bounded_and_retry_after_only_lengthens(tries: int, after: float | None, noise: float):
    wait_s = retry_delay_s(tries, after, noise)
    plain_s = retry_delay_s(tries, None, noise)
    assert 5.0 <= plain_s <= 720.0
    assert plain_s <= wait_s <= 86_400 * 1.2


@pytest.mark.parametrize("how", ["auth_failed", "group"])
async def test_refused_credentials_ask_a_person_once(platform: Platform, how: str):
    bad = await platform.add(f"mowers:{how}")
    assert platform.state(bad) is EntryState.AUTH_FAILED
    await platform.until(lambda: platform.flows.list())
    await platform.entries.reload(bad)
    await platform.until(lambda: platform.state(bad) is EntryState.AUTH_FAILED)
    for _ in range(20):
        await asyncio.sleep(0)
    (flow,) = platform.flows.list()
    assert (flow.source, flow.entry_id) == ("reauth", bad)
    await platform.flows.advance(flow.flow_id, {"pin": "1234"})
    await platform.until(lambda: platform.state(bad) is EntryState.LOADED)
    assert platform.entries.secrets.for_entry(bad).get("pin") == "1234"


async def test_a_link_can_fail_its_entry(platform: Platform):
    entry = await platform.add()
    await platform.entries.fail(entry, AuthFailedError("wrong pin"))
    assert platform.state(entry) is EntryState.AUTH_FAILED
    assert (entry, EntryState.NOT_LOADED) in platform.seen


async def test_links_end_before_their_integration(platform: Platform):
    entry = await platform.add()
    order: list[str] = []

    async def stop_links(entry_id):
        assert entry_id == entry
        assert platform.seen[-1] == (entry, EntryState.NOT_LOADED)
        order.append("links")

    platform.entries.before_unload(stop_links)
    await platform.entries.unload(entry)
    assert order == ["links"]


async def test_links_that_do_not_end_hold_up_nothing(platform: Platform):
    entry = await platform.add()

    async def never(entry_id):
        await asyncio.Event().wait()

    platform.entries.before_unload(never)
    await platform.entries.unload(entry)
    assert platform.state(entry) is EntryState.NOT_LOADED


@pytest.mark.parametrize("how", ["leak", "leak_raw", "leak_exit"])
@pytest.mark.parametrize("where", ["create", "mowers"])
async def test_leaked_tasks_end_with_their_entry(platform: Platform, where: str, how: str):
    before = asyncio.all_tasks()
    bad = await platform.add(f"{where}:{how}")
    assert platform.state(bad) is EntryState.LOADED
    await platform.entries.unload(bad)
    assert platform.state(bad) is EntryState.NOT_LOADED
    await platform.until(lambda: asyncio.all_tasks() == before)


async def test_tasks_that_a_link_leaks_end_with_the_entry(platform: Platform):
    before = asyncio.all_tasks()
    bad = await platform.add("run:leak_raw")
    await works(platform, bad)
    assert any("leak_raw" in task.get_name() for task in asyncio.all_tasks())
    await platform.entries.unload(bad)
    await platform.until(lambda: asyncio.all_tasks() == before)


async def test_a_task_that_dies_takes_only_its_own_entry_down(platform: Platform):
    good = await platform.add()
    bad = await platform.add("mowers:leak_raise")
    await platform.until(lambda: platform.state(bad) is EntryState.ERROR)
    await works(platform, good)


@pytest.mark.parametrize("fault", ["mowers:leak_stubborn", "create:leak_stubborn"])
async def test_a_task_that_will_not_end_is_abandoned_and_named(platform: Platform, fault: str):
    good = await platform.add()
    bad = await platform.add(fault)
    await platform.entries.unload(bad)
    assert platform.state(bad) is EntryState.UNLOAD_FAILED
    with pytest.raises(ConflictError):
        await platform.entries.setup(bad)  # two lives of one plugin must not reach for one mower
    await works(platform, good)
    await platform.until(lambda: not any("stubborn" in task.get_name() for task in asyncio.all_tasks()))
    await platform.entries.setup(bad)
    assert platform.state(bad) is EntryState.LOADED
    await platform.entries.remove(bad)


async def test_a_stubborn_setup_is_cut_and_tried_again_once_it_has_ended(platform: Platform):
    bad = await platform.add("mowers:stubborn")
    assert platform.state(bad) is EntryState.UNLOAD_FAILED
    assert await platform.naps.asked(1) == 600.0
    platform.naps.wake()
    assert await platform.naps.asked(2) == 600.0  # still running: later again
    await platform.until(lambda: not any("mowers" in task.get_name() for task in asyncio.all_tasks()))
    await platform.entries.update(bad, data={"fault": ":"})
    platform.naps.wake()
    await platform.until(lambda: platform.state(bad) is EntryState.LOADED)


@pytest.mark.parametrize("how", ["raise", "hang", "exit", "cancelled", "odd"])
async def test_close_may_do_anything(platform: Platform, how: str):
    bad = await platform.add(f"close:{how}")
    await platform.entries.unload(bad)
    assert platform.state(bad) is EntryState.NOT_LOADED


@pytest.mark.parametrize("how", ["raise", "hang", "rubbish", "exit", "cancelled"])
async def test_open_raises_only_what_the_box_knows(platform: Platform, how: str):
    from core.domain.errors import MowdeckError

    bad = await platform.add(f"open:{how}")
    (mower,) = platform.entries.view(bad).mowers
    with pytest.raises(MowdeckError):
        await platform.integrations[bad].open(key_of(mower), LinkKind.SIM)


async def test_a_caller_that_goes_away_leaves_no_half_done_reload(platform: Platform):
    entry = await platform.add()
    reload = asyncio.create_task(platform.entries.reload(entry))
    await platform.until(lambda: platform.state(entry) is not EntryState.LOADED)
    reload.cancel()
    await asyncio.wait({reload})
    await platform.until(lambda: platform.state(entry) is EntryState.LOADED)


async def test_disabling_unloads_and_enabling_sets_up(platform: Platform):
    entry = await platform.add()
    await platform.entries.update(entry, is_disabled=True)
    assert platform.state(entry) is EntryState.NOT_LOADED
    with pytest.raises(ConflictError):
        await platform.entries.setup(entry)
    await platform.entries.update(entry, is_disabled=False)
    await platform.until(lambda: platform.state(entry) is EntryState.LOADED)


async def test_one_entry_per_unique_id(platform: Platform):
    await platform.entries.add(domain="misbehaving", title="a", source="user", unique_id="one")
    with pytest.raises(ConflictError):
        await platform.entries.add(domain="misbehaving", title="b", source="relay", unique_id="one")
    assert len(platform.entries.views()) == 1


async def test_removing_forgets_the_secrets(platform: Platform, tmp_path: Path):
    record = await platform.entries.add(
        domain="misbehaving", title="a", source="user", secrets={"password": "correct horse"}
    )
    removed = []
    platform.entries.on_removed(removed.append)
    await platform.entries.remove(record.entry_id)
    assert [gone.entry_id for gone in removed] == [record.entry_id]
    with pytest.raises(NotFoundError):
        platform.entries.view(record.entry_id)
    assert json.loads((tmp_path / "secrets.json").read_text())["body"] == {}


async def test_an_unknown_integration_is_an_error_state(platform: Platform):
    record = await platform.entries.add(domain="nobody_has_it", title="a", source="user")
    assert await platform.settled(record.entry_id) is EntryState.ERROR
    assert platform.entries.view(record.entry_id).reason_code == "not-found"


async def test_data_of_a_newer_integration_is_left_alone(platform: Platform):
    record = await platform.entries.add(domain="misbehaving", title="a", source="user", version=7)
    assert await platform.settled(record.entry_id) is EntryState.MIGRATION_ERROR
    assert platform.entries.record(record.entry_id).version == 7


async def test_entries_survive_a_restart(tmp_path: Path, custom: Path, clock: ManualClock):
    (tmp_path / "builtin").mkdir()
    async with running_platform(tmp_path, custom, clock) as first:
        good = await first.add(serial="s1")
        off = await first.add()
        await first.entries.update(off, is_disabled=True, title="Off", secrets={"pin": "0000"})
    async with running_platform(tmp_path, custom, clock) as second:
        assert second.state(good) is EntryState.NOT_LOADED
        second.entries.start()
        assert await second.settled(good) is EntryState.LOADED
        assert [mower.serial for mower in second.entries.view(good).mowers] == ["s1"]
        assert second.state(off) is EntryState.NOT_LOADED
        assert second.entries.view(off).title == "Off"
        assert second.entries.secrets.for_entry(off).get("pin") == "0000"


async def test_stopping_during_setup_leaves_nothing(tmp_path: Path, custom: Path, clock: ManualClock):
    (tmp_path / "builtin").mkdir()
    before = asyncio.all_tasks()
    async with running_platform(tmp_path, custom, clock) as running:
        for how in ("hang", "not_ready", "leak_raw"):
            await running.entries.add(domain="misbehaving", title="t", source="user", data={"fault": f"mowers:{how}"})
    assert asyncio.all_tasks() == before
    assert asyncio.get_running_loop().get_task_factory() is None


async def test_a_view_shows_neither_data_nor_secrets(platform: Platform):
    record = await platform.entries.add(
        domain="misbehaving", title="a", source="user", data={"host": "hidden-host"}, secrets={"pin": "hidden-pin"}
    )
    await platform.settled(record.entry_id)
    shown = msgspec.json.encode(platform.entries.views()).decode() + repr(platform.entries.secrets)
    assert "hidden" not in shown
    assert "hidden" not in repr(platform.entries.secrets.for_entry(record.entry_id))


async def test_a_lost_link_error_of_the_entry_is_tried_again(platform: Platform):
    entry = await platform.add()
    await platform.entries.fail(entry, LinkLostError("broker gone"))
    assert platform.state(entry) is EntryState.RETRY
    platform.naps.wake()
    await platform.until(lambda: platform.state(entry) is EntryState.LOADED)


@pytest.mark.parametrize("data", [{"x": object()}, {"x": float}, {"x": "y" * 70_000}])
async def test_data_that_cannot_be_stored_is_refused(platform: Platform, data):
    with pytest.raises(InvalidInputError):
        await platform.entries.add(domain="misbehaving", title="a", source="user", data=data)
    entry = await platform.add()
    with pytest.raises(InvalidInputError):
        await platform.entries.update(entry, data=data, secrets={"pin": "unchanged"})
    assert platform.entries.secrets.for_entry(entry).get("pin") is None
    assert len(platform.entries.views()) == 1


async def test_data_is_the_same_before_and_after_a_restart(platform: Platform):
    record = await platform.entries.add(domain="misbehaving", title="a", source="user", data={"pair": (1, 2)})
    assert record.data == {"pair": [1, 2]}
