"""What the link does when things go wrong, against the emulated mower, bytes in memory."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from core.domain import commands
from core.domain.errors import AuthFailedError, EntryError, LinkLostError, NotReadyError
from core.domain.mower import Activity, ErrorClass, LinkKind, MowerState
from core.platform.integration import key_of
from integrations.husqvarna_ble.conversation import KEEP_ALIVE_S, MowerBlockedError
from integrations.husqvarna_ble.integration import HusqvarnaBle
from integrations.husqvarna_ble.link import HusqvarnaLink
from integrations.husqvarna_ble.wire import Operation, Result
from tests.contract.integration_contract import obeyed, open_context
from tests.integrations.husqvarna_ble.mowers import entry_for, make_peer, running, set_up, with_bluetooth

MOTION = (Operation.START_TRIGGER, Operation.SET_OVERRIDE_MOW, Operation.SET_MODE)


async def open_link(integration: HusqvarnaBle) -> HusqvarnaLink:
    mower = (await integration.mowers())[0]
    return await integration.open(key_of(mower), LinkKind.BLE)


async def fails(link: HusqvarnaLink, states: list[object] | None = None) -> BaseException:
    """Runs the link until it ends by an error."""
    seen: list[object] = [] if states is None else states
    with pytest.raises(Exception) as caught:
        async with asyncio.timeout(5):
            await link.run(seen.append)
    return caught.value


async def test_a_wrong_pin_is_tried_once_and_never_again(caplog):
    peer = make_peer()
    caplog.set_level(logging.DEBUG)
    async with set_up(peer, pin="4321") as (integration, radio):
        err = await fails(await open_link(integration))
        assert isinstance(err, AuthFailedError)
        assert "PIN" in err.advice
        assert peer.heard.count(Operation.ENTER_OPERATOR_PIN) == 1
        with pytest.raises(AuthFailedError):
            await integration.mowers()
        again = await integration.open(key_of(integration._description), LinkKind.BLE)
        assert isinstance(await fails(again), AuthFailedError)
        after_restart = HusqvarnaBle(integration._context, entry_for(peer))
        third = await after_restart.open(key_of(integration._description), LinkKind.BLE)
        assert isinstance(await fails(third), AuthFailedError)
        assert peer.heard.count(Operation.ENTER_OPERATOR_PIN) == 1
        assert radio.connections == 1
        assert not radio.open
    assert "4321" not in caplog.text
    assert "4321" not in f"{err} {err.__cause__}"


async def test_a_locked_mower_is_left_alone_for_as_long_as_it_says():
    peer = make_peer(time_scale=1.0)
    peer.lock.blocked_s = 240.0
    async with set_up(peer) as (integration, _):
        err = await fails(await open_link(integration))
        assert isinstance(err, MowerBlockedError)
        assert err.retry_after_s == pytest.approx(240, abs=2)
        assert await integration.mowers(), "the PIN is not taken for wrong"


async def test_without_a_pin_or_bluetooth_there_is_no_link():
    peer = make_peer()
    async with open_context() as context:
        integration = HusqvarnaBle(context, entry_for(peer))
        with pytest.raises(AuthFailedError):
            await integration.mowers()
        with pytest.raises(NotReadyError):
            await integration.open(key_of(integration._description), LinkKind.BLE)
        with pytest.raises(EntryError):
            HusqvarnaBle(context, replace(entry_for(peer), data={"address": "nonsense"}))


async def test_a_lost_bond_asks_for_a_person():
    async with set_up(make_peer()) as (integration, radio):
        radio.is_bonded = False
        err = await fails(await open_link(integration))
        assert isinstance(err, AuthFailedError)
        assert "Pair" in err.advice


async def test_another_mower_at_the_address_is_not_commanded():
    peer = make_peer()
    entry = entry_for(peer)
    async with set_up(peer) as (_, radio), open_context() as context:
        other = HusqvarnaBle(with_bluetooth(context, radio), replace(entry, data={**entry.data, "serial": "17"}))
        mower = (await other.mowers())[0]
        assert isinstance(await fails(await other.open(key_of(mower), LinkKind.BLE)), EntryError)
        assert set(peer.heard) == {Operation.GET_SERIAL_NUMBER}, "not even the PIN is sent to it"


async def test_the_mower_forgets_the_operator():
    peer = make_peer()
    async with running(peer, releases=False) as (link, _):
        peer.faults.loses_login = 1
        before = len(link.states)
        await link.until(
            lambda s: len(link.states) > before + 2 and s.battery_percent is not None, 5, "signed in again"
        )
        assert peer.heard.count(Operation.ENTER_OPERATOR_PIN) == 2
        peer.faults.loses_login = 1
        await obeyed(link, commands.StartMow())
        assert peer.heard.count(Operation.START_TRIGGER) == 1


async def test_an_emergency_stop_of_a_mower_that_forgot_the_operator():
    peer = make_peer(mowing_s=36_000.0)
    async with running(peer) as (link, _):
        await obeyed(link, commands.StartMow())
        next(iter(peer.responders.values())).is_logged_in = False
        await obeyed(link, commands.EmergencyStop())
        assert peer.machine.state == 5


@pytest.mark.parametrize(
    "fault", ["lost_notifications", "garbled_notifications", "lost_answers", "doubled_notifications"]
)
async def test_a_reading_survives_what_gets_lost_on_the_air(fault):
    peer = make_peer()
    async with running(peer, releases=False) as (link, radio):
        assert isinstance(link.link, HusqvarnaLink)
        for _ in range(3):
            setattr(peer.faults, fault, 1)
            count = len(link.states)
            await link.until(lambda _, count=count: len(link.states) > count + 1, 15, "it goes on")
        assert radio.connections == 1
        assert all(state.activity is Activity.DOCKED for state in link.states)


async def test_merged_notifications_and_events():
    peer = make_peer()
    peer.faults.merges_notifications = True
    async with running(peer, releases=False) as (link, _):
        await obeyed(link, commands.StartMow())
        await obeyed(link, commands.PauseMow())
        assert link.latest.battery_percent is not None


async def test_a_drop_within_a_frame_ends_the_link():
    peer = make_peer()
    async with set_up(peer, releases=False) as (integration, radio):
        link = await open_link(integration)
        states: list[object] = []
        task = asyncio.get_running_loop().create_task(link.run(states.append))
        while not states:
            await asyncio.sleep(0.01)
        peer.faults.drops_mid_frame = 1
        await asyncio.wait({task}, timeout=5)
        assert isinstance(task.exception(), LinkLostError)
        assert not radio.open
        with pytest.raises(LinkLostError):
            await link.send(commands.PauseMow())


async def test_a_drop_while_standing_still_is_noticed_at_once():
    peer = make_peer()
    async with set_up(peer, releases=False, poll_standing_s=300) as (integration, radio):
        link = await open_link(integration)
        states: list[object] = []
        task = asyncio.get_running_loop().create_task(link.run(states.append))
        while not states:
            await asyncio.sleep(0.01)
        radio.cut()
        await asyncio.wait({task}, timeout=2)
        assert isinstance(task.exception(), LinkLostError)


@pytest.mark.parametrize("fault", ["drops_on_write", "lost_answers", "drops_mid_frame"])
async def test_a_motion_whose_answer_is_lost_is_unknown_and_never_repeated(fault):
    peer = make_peer()
    async with set_up(peer, releases=False, poll_standing_s=300) as (integration, _):
        link = await open_link(integration)
        states: list[object] = []
        task = asyncio.get_running_loop().create_task(link.run(states.append))
        while not states:
            await asyncio.sleep(0.01)
        peer.responders[next(iter(peer.responders))].answers[Operation.IS_OPERATOR_LOGGED_IN] = (4, b"")
        peer.heard.clear()

        original = peer.write
        count = 0

        def write(session, characteristic, data):
            nonlocal count
            if data.startswith(b"\x02\xfd") and b"\xaf\xea\x11\x04\x00" in data:
                count += 1
                setattr(peer.faults, fault, 1)
            original(session, characteristic, data)

        peer.write = write  # type: ignore[method-assign]
        outcome = await link.send(commands.StartMow())
        assert outcome.kind == "unknown"
        assert outcome.reason
        await asyncio.sleep(0.3)
        assert count == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_refusals_have_a_reason_and_nothing_follows_them():
    peer = make_peer()
    async with running(peer, releases=False) as (link, _):
        responder = next(iter(peer.responders.values()))
        responder.answers[Operation.SET_OVERRIDE_MOW] = (Result.NOT_ALLOWED, b"")
        outcome = await link.link.send(commands.StartMow())
        assert (outcome.kind, bool(outcome.reason)) == ("refused", True)
        assert Operation.START_TRIGGER not in peer.heard
        responder.answers[Operation.PAUSE] = (77, b"")
        outcome = await link.link.send(commands.PauseMow())
        assert outcome.kind == "refused"
        assert "77" in str(outcome.reason)


async def test_a_fault_in_the_garden_and_its_end():
    peer = make_peer(mowing_s=36_000.0)
    async with running(peer) as (link, _):
        await obeyed(link, commands.StartMow())
        await link.until(lambda s: s.activity is Activity.MOWING, 5, "mowing")
        peer.machine.fail(9)
        state = await link.until(lambda s: s.error is not None, 5, "the fault")
        assert state.error is not None
        assert (state.error.code, state.error.error_class) == ("9", ErrorClass.TRAPPED)
        since = state.error.since
        count = len(link.states)
        state = await link.until(lambda s: len(link.states) > count + 2, 5, "more states")
        assert state.error is not None
        assert state.error.since == since, "the fault does not get younger"
        refused = await link.link.send(commands.StartMow())
        assert refused.kind == "accepted" or refused.reason
        peer.machine.help()
        await link.until(lambda s: s.error is None, 5, "the end of the fault")
    kinds = [type(event).__name__ for event in link.events]
    assert kinds[:3] == ["MowingStarted", "ErrorRaised", "ErrorCleared"]


async def test_values_that_are_not_known_break_nothing(caplog):
    peer = make_peer(counts_blades=False)
    caplog.set_level(logging.WARNING)
    async with running(peer, releases=False) as (link, _):
        responder = next(iter(peer.responders.values()))
        responder.answers[Operation.GET_ACTIVITY] = (0, b"\x2a")
        responder.answers[Operation.GET_BATTERY_LEVEL] = (0, b"")
        responder.answers[Operation.GET_MODE] = (99, b"")
        responder.answers[Operation.GET_OVERRIDE] = (0, b"\x01\x02")
        state = await link.until(lambda s: s.activity is Activity.UNKNOWN, 5, "unknown")
        assert state.raw is not None
        assert state.raw["activity"] == "42"
        assert state.battery_percent is None
        assert state.totals is not None
        assert state.totals.blades_s is None
        await link.watch(0.5)
    assert caplog.text.count("activity=42") == 1, "logged once"


async def test_it_lets_go_while_the_mower_stands_and_comes_back_for_a_command():
    peer = make_peer()
    async with running(peer, releases=True, poll_standing_s=300) as (link, radio):
        for _ in range(100):
            if not radio.open:
                break
            await asyncio.sleep(0.01)
        assert not radio.open, "nobody's phone gets the mower"
        await obeyed(link, commands.StartMow())
        assert len(radio.open) == 1
        assert radio.connections == 2


async def test_nothing_that_was_asked_before_an_emergency_stop_comes_after_it():
    peer = make_peer()
    async with running(peer, releases=True, poll_standing_s=300) as (link, radio):
        while radio.open:
            await asyncio.sleep(0.01)
        radio.is_in_range = True
        peer.heard.clear()
        async with asyncio.TaskGroup() as group:
            start = group.create_task(link.link.send(commands.StartMow()), name="start")
            await asyncio.sleep(0)
            stop = group.create_task(link.link.send(commands.EmergencyStop()), name="stop")
        assert stop.result().kind == "accepted"
        assert start.result().kind == "refused"
        await link.watch(0.5)
        assert not set(MOTION) & set(peer.heard)


async def test_a_command_whose_asker_has_gone_is_not_passed_on():
    peer = make_peer()
    async with running(peer, releases=True, poll_standing_s=300) as (link, radio):
        while radio.open:
            await asyncio.sleep(0.01)
        peer.heard.clear()
        asking = asyncio.get_running_loop().create_task(link.link.send(commands.StartMow()))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await link.watch(0.5)
        assert not set(MOTION) & set(peer.heard)


async def test_out_of_range_while_commands_wait():
    peer = make_peer()
    async with set_up(peer, releases=True, poll_standing_s=300) as (integration, radio):
        link = await open_link(integration)
        states: list[object] = []
        task = asyncio.get_running_loop().create_task(link.run(states.append))
        while not states or radio.open:
            await asyncio.sleep(0.01)
        radio.is_in_range = False
        with pytest.raises(LinkLostError):
            await link.send(commands.StartMow())
        await asyncio.wait({task}, timeout=2)
        assert task.exception() is not None


async def test_no_event_is_told_twice_over_a_reconnect():
    peer = make_peer()
    async with set_up(peer, releases=False) as (integration, _):
        peer.machine.fail(9)
        reported: list[object] = []
        for _ in range(2):
            link = await open_link(integration)
            count = len(reported)
            task = asyncio.get_running_loop().create_task(link.run(reported.append))
            while len(reported) == count:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert [item for item in reported if not isinstance(item, MowerState)] == []
        since = {item.error.since for item in reported if isinstance(item, MowerState) and item.error}
        assert len(since) == 1


def test_the_mower_is_spoken_to_before_it_hangs_up():
    assert KEEP_ALIVE_S * 3 < 60


async def test_an_emergency_stop_waits_for_no_answer_of_a_read():
    peer = make_peer(mowing_s=36_000.0)
    async with running(peer, answer_s=10.0) as (link, _):
        await obeyed(link, commands.StartMow())
        next(iter(peer.responders.values())).answers[Operation.IS_OPERATOR_LOGGED_IN] = (4, b"")
        peer.faults.lost_answers = 1
        await asyncio.sleep(0.3)
        assert peer.faults.lost_answers == 0, "a read waits for its answer"
        began = asyncio.get_running_loop().time()
        await obeyed(link, commands.EmergencyStop())
        assert asyncio.get_running_loop().time() - began < 3
        assert peer.machine.state == 5


async def test_an_emergency_stop_is_said_again():
    peer = make_peer(mowing_s=36_000.0)
    async with running(peer, poll_moving_s=300) as (link, _):
        await obeyed(link, commands.StartMow())
        await link.watch(1.5)
        peer.faults.lost_answers = 2
        await obeyed(link, commands.EmergencyStop())
        assert peer.heard.count(Operation.PAUSE) == 3
