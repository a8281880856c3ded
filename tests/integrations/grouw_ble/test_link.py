"""What the link does when things go wrong, against the emulated mower, bytes in memory."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pygrouw")

from core.domain import commands
from core.domain.clock import SystemClock
from core.domain.errors import AuthFailedError, EntryError, LinkLostError, LinkTimeoutError, NotReadyError
from core.domain.mower import Activity, LinkKind, MowerState
from core.platform.integration import Outcome, key_of
from integrations.grouw_ble import emulated_machine as machine
from integrations.grouw_ble import responder
from integrations.grouw_ble.emulator import GrouwPeer
from integrations.grouw_ble.integration import GrouwBle
from integrations.grouw_ble.link import GrouwLink
from integrations.grouw_ble.mapping import UNPROTECTED
from tests.contract.integration_contract import obeyed, open_context
from tests.integrations.grouw_ble.mowers import PIN, entry_for, make_peer, running, set_up

LONG = {"mows_s": 36_000.0}


async def open_link(integration: GrouwBle) -> GrouwLink:
    mower = (await integration.mowers())[0]
    return await integration.open(key_of(mower), LinkKind.BLE)


async def fails(link: GrouwLink) -> BaseException:
    """Runs the link until it ends by an error."""
    with pytest.raises(Exception) as caught:
        async with asyncio.timeout(5):
            await link.run(lambda _: None)
    return caught.value


@asynccontextmanager
async def free(peer: GrouwPeer, **options: Any):
    """A link that runs and may fail."""
    async with set_up(peer, **{"releases": False, "poll_standing_s": 300, **options}) as (integration, radio):
        link = await open_link(integration)
        reported: list[object] = []
        task = asyncio.get_running_loop().create_task(link.run(reported.append))
        while not reported:
            await asyncio.sleep(0.01)
        try:
            yield link, radio, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_nothing_but_the_status_is_asked_for_and_the_pin_stays_here(caplog):
    caplog.set_level(logging.DEBUG)
    peer = make_peer()
    async with running(peer, releases=False) as (link, _):
        await obeyed(link, commands.StartMow())
        await obeyed(link, commands.ReturnToDock())
    assert {number for number, _ in peer.heard} == {responder.STATUS, responder.ORDER}
    assert peer.memory.beeps == 0
    assert PIN not in caplog.text
    assert PIN not in repr([peer.heard, link.states])
    assert caplog.text.count(UNPROTECTED) == 1


async def test_without_a_pin_or_bluetooth_there_is_no_link():
    peer = make_peer()
    async with open_context() as context:
        integration = GrouwBle(context, entry_for(peer))
        with pytest.raises(AuthFailedError):
            await integration.mowers()
        with pytest.raises(NotReadyError):
            await integration.open(key_of(integration._description), LinkKind.BLE)
        with pytest.raises(EntryError):
            GrouwBle(context, replace(entry_for(peer), data={"address": "nonsense"}))


async def test_the_pin_is_checked_once_for_each_set_up_where_that_is_wanted(caplog):
    caplog.set_level(logging.DEBUG)
    peer = make_peer()
    async with running(peer, verifies_sign_in=True, releases=True, poll_standing_s=0.1) as (link, radio):
        await link.until(lambda _: radio.connections > 3, 5, "some connections")
    assert peer.count(responder.PIN) == 1
    async with set_up(peer, pin="1111", verifies_sign_in=True) as (integration, radio):
        err = await fails(await open_link(integration))
        assert isinstance(err, AuthFailedError)
        assert not radio.open
    assert peer.orders() == []
    assert peer.memory.beeps == 0
    for secret in (PIN, "1111"):
        assert secret not in f"{err} {err.__cause__}" + caplog.text


async def test_a_mower_that_does_not_tell_its_pin_is_left_in_peace():
    peer = make_peer(needs_session=True)
    async with running(peer, verifies_sign_in=True) as (link, _):
        assert link.latest.activity is Activity.DOCKED
    assert peer.memory.beeps == 0


async def test_started_from_the_station_and_on_the_lawn_by_different_orders():
    peer = make_peer(**LONG)
    async with running(peer) as (link, _):
        await obeyed(link, commands.StartMow())
        await obeyed(link, commands.PauseMow())
        await obeyed(link, commands.ResumeMow())
        await obeyed(link, commands.PauseMow())
        await obeyed(link, commands.StartMow())
        assert peer.orders() == [machine.START, machine.PAUSE, machine.RESUME, machine.PAUSE, machine.RESUME]
        again = await link.link.send(commands.StartMow())
        assert (again.kind, again.reason) == ("refused", "the mower is mowing already")
        assert len(peer.orders()) == 5


@pytest.mark.parametrize("releases", [False, True])
async def test_a_start_is_decided_by_a_status_that_is_asked_for_after_it(releases):
    """Somebody has carried the mower out since the last poll, minutes ago."""
    peer = make_peer(**LONG)
    async with running(peer, poll_standing_s=300, releases=releases) as (link, _):
        assert link.latest.activity is Activity.DOCKED
        peer.machine.station = 0
        assert (await link.link.send(commands.StartMow())).kind == "accepted"
        assert peer.orders() == [machine.RESUME]


async def test_a_mower_that_does_not_say_where_it_is_is_not_started():
    peer = make_peer()
    peer.machine.station = 7
    async with running(peer) as (link, _):
        assert link.latest.activity is Activity.UNKNOWN
        outcome = await link.link.send(commands.StartMow())
        assert outcome.kind == "refused"
        assert outcome.reason
        assert (await link.link.send(commands.EmergencyStop())).kind == "accepted"
        assert peer.orders() == [machine.PAUSE]


@pytest.mark.parametrize("fault", ["lost_answers", "garbled_answers", "doubled_answers"])
async def test_a_reading_survives_what_gets_lost_on_the_air(fault):
    peer = make_peer()
    async with running(peer, releases=False) as (link, radio):
        for _ in range(3):
            setattr(peer.faults, fault, 1)
            count = len(link.states)
            await link.until(lambda _, count=count: len(link.states) > count + 1, 5, "it goes on")
        assert radio.connections == 1
        assert all(state.activity is Activity.DOCKED for state in link.states)


@pytest.mark.parametrize("traits", [{"piece_bytes": 5}, {"joins_answers": True}, {"piece_bytes": 20}, {"delay_s": 0.1}])
async def test_answers_in_pieces_joined_and_late(traits):
    peer = make_peer(**LONG)
    for name, value in traits.items():
        setattr(peer.faults, name, value)
    async with running(peer, releases=False) as (link, radio):
        await obeyed(link, commands.StartMow())
        await obeyed(link, commands.PauseMow())
        await obeyed(link, commands.ReturnToDock())
        assert radio.connections == 1


async def test_over_the_smallest_packets():
    peer = make_peer(**LONG)
    peer.mtu = 23
    async with running(peer, releases=False) as (link, _):
        await obeyed(link, commands.StartMow())
        await obeyed(link, commands.EmergencyStop())
    assert peer.orders() == [machine.START, machine.PAUSE]


async def test_a_silent_mower_is_given_up_on():
    peer = make_peer()
    async with free(peer, poll_standing_s=0.1) as (_, radio, task):
        peer.faults.lost_answers = 1_000
        await asyncio.wait({task}, timeout=5)
        assert isinstance(task.exception(), LinkTimeoutError)
        assert not radio.open


@pytest.mark.parametrize("fault", ["drops_mid_answer", "drops_on_write"])
async def test_a_drop_ends_the_link(fault):
    peer = make_peer()
    async with free(peer, poll_standing_s=0.1) as (link, radio, task):
        setattr(peer.faults, fault, 1)
        await asyncio.wait({task}, timeout=5)
        assert isinstance(task.exception(), LinkLostError)
        assert not radio.open
        with pytest.raises(LinkLostError):
            await link.send(commands.PauseMow())


async def test_a_drop_while_standing_still_is_noticed_at_once():
    async with free(make_peer()) as (_, radio, task):
        radio.cut()
        await asyncio.wait({task}, timeout=2)
        assert isinstance(task.exception(), LinkLostError)


class Torn:
    """A connection that fails in the middle of the write of an order, which the mower has got."""

    def __init__(self, peer: GrouwPeer, radio: Any) -> None:
        self.orders = 0
        self._session = next(iter(radio.open))
        self._write = self._session.write
        self._session.write = self.write

    async def write(self, characteristic: str, data: bytes, *, with_response: bool = True) -> None:
        await self._write(characteristic, data, with_response=with_response)
        if data[3] == responder.ORDER:
            self.orders += 1
            self._session.end()
            raise LinkLostError("the connection ended")


@pytest.mark.parametrize("command", [commands.StartMow(), commands.ReturnToDock(), commands.EmergencyStop()])
async def test_an_order_whose_write_fails_is_unknown_and_never_repeated(command):
    peer = make_peer()
    async with free(peer) as (link, radio, task):
        torn = Torn(peer, radio)
        outcome = await link.send(command)
        assert outcome.kind == "unknown"
        assert outcome.reason
        await asyncio.wait({task}, timeout=2)
        assert isinstance(task.exception(), LinkLostError)
        assert torn.orders == 1
    async with running(peer) as (again, _):
        await again.watch(0.4)
    assert len(peer.orders()) == 1, "not by the next link either"


async def test_a_link_that_is_closed_while_it_tells_leaves_nobody_waiting():
    peer = make_peer()
    async with free(peer) as (link, radio, task):
        session = next(iter(radio.open))
        written = asyncio.Event()

        async def hang(characteristic: str, data: bytes, *, with_response: bool = True) -> None:
            written.set()
            await asyncio.Event().wait()

        session.write = hang
        asking = asyncio.get_running_loop().create_task(link.send(commands.ReturnToDock()))
        await written.wait()
        waiting = asyncio.get_running_loop().create_task(link.send(commands.FindMower()))
        late = asyncio.get_running_loop().create_task(link.send(commands.PauseMow()))
        await asyncio.sleep(0)
        task.cancel()
        done = await asyncio.wait_for(asyncio.gather(asking, waiting, late, return_exceptions=True), 2)
    first, second, third = done
    assert isinstance(first, Outcome)
    assert first.kind == "unknown"
    assert isinstance(second, Outcome)
    assert second.kind == "refused"
    assert isinstance(third, LinkLostError), "certainly not told"


async def test_an_order_that_is_lost_behind_the_radio_moves_nothing_and_is_not_repeated():
    peer = make_peer()
    peer.faults.lost_orders = 1
    async with running(peer, releases=False) as (link, _):
        assert (await link.link.send(commands.StartMow())).kind == "accepted"
        await link.watch(1.5)
        assert link.latest.activity is Activity.DOCKED
        assert peer.faults.lost_orders == 0
        assert peer.orders() == []


async def test_an_emergency_stop_is_said_again_while_it_still_moves():
    peer = make_peer(**LONG)
    async with running(peer) as (link, _):
        await obeyed(link, commands.StartMow())
        peer.faults.lost_orders = 2
        await obeyed(link, commands.EmergencyStop())
        await link.watch(0.5)
    assert peer.orders() == [machine.START, machine.PAUSE], "the first two were lost"


async def test_a_stop_is_not_said_again_after_somebody_has_started_the_mower():
    peer = make_peer(**LONG)
    async with running(peer) as (link, _):
        await obeyed(link, commands.StartMow())
        await obeyed(link, commands.EmergencyStop())
        await obeyed(link, commands.ResumeMow())
        await link.watch(3.0)
        assert link.latest.activity is Activity.MOWING
    assert peer.orders().count(machine.PAUSE) == 1


async def test_only_an_emergency_stop_is_said_again():
    """A mower that obeys late is neither stopped nor told twice."""
    peer = make_peer(reacts_s=80.0, **LONG)
    async with running(peer) as (link, _):
        await obeyed(link, commands.StartMow())
        await obeyed(link, commands.ReturnToDock())
        await link.watch(1.0)
    assert peer.orders() == [machine.START, machine.DOCK]


async def test_a_state_is_as_old_as_the_request_for_it():
    peer = make_peer()
    peer.faults.delay_s = 0.25
    async with running(peer, releases=False) as (link, _):
        for _ in range(3):
            count = len(link.states)
            state = await link.until(lambda _, count=count: len(link.states) > count, 5, "a state")
            assert (SystemClock().now() - state.observed_at).total_seconds() >= 0.24


async def test_an_emergency_stop_waits_for_no_answer():
    peer = make_peer(**LONG)
    async with running(peer, answer_s=10.0) as (link, _):
        await obeyed(link, commands.StartMow())
        peer.faults.lost_answers = 1
        await link.watch(0.3)
        assert peer.faults.lost_answers == 0, "an answer is waited for"
        began = asyncio.get_running_loop().time()
        assert (await link.link.send(commands.EmergencyStop())).kind == "accepted"
        assert asyncio.get_running_loop().time() - began < 0.2


@pytest.mark.parametrize("stop", [commands.EmergencyStop(), commands.PauseMow()])
async def test_nothing_that_was_asked_before_a_stop_comes_after_it(stop):
    peer = make_peer()
    async with running(peer, releases=True, poll_standing_s=300) as (link, radio):
        while radio.open:
            await asyncio.sleep(0.01)
        async with asyncio.TaskGroup() as group:
            start = group.create_task(link.link.send(commands.StartMow()), name="start")
            await asyncio.sleep(0)
            stopped = group.create_task(link.link.send(stop), name="stop")
        assert stopped.result().kind == "accepted"
        assert start.result().kind == "refused"
        await link.watch(0.5)
        assert peer.orders() == [machine.PAUSE]


async def test_a_command_whose_asker_has_gone_is_not_passed_on():
    peer = make_peer()
    async with running(peer, releases=True, poll_standing_s=300) as (link, radio):
        while radio.open:
            await asyncio.sleep(0.01)
        asking = asyncio.get_running_loop().create_task(link.link.send(commands.StartMow()))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await link.watch(0.5)
        assert peer.orders() == []


async def test_it_lets_go_while_the_mower_stands_and_comes_back_for_a_command():
    peer = make_peer()
    async with running(peer, releases=True, poll_standing_s=300) as (link, radio):
        async with asyncio.timeout(2):
            while radio.open:
                await asyncio.sleep(0.01)
        await obeyed(link, commands.StartMow())
        assert len(radio.open) == 1
        assert radio.connections == 2


async def test_out_of_range_while_a_command_waits():
    async with free(make_peer(), releases=True) as (link, radio, task):
        while radio.open:
            await asyncio.sleep(0.01)
        radio.is_in_range = False
        with pytest.raises(LinkLostError):
            await link.send(commands.StartMow())
        await asyncio.wait({task}, timeout=2)
        assert task.exception() is not None


async def test_numbers_that_are_not_known_break_nothing(caplog):
    caplog.set_level(logging.WARNING)
    peer = make_peer()
    async with running(peer, releases=False) as (link, _):
        peer.overriding[responder.STATUS] = bytes((200, 1, 2, 0, 0, 0, 0, 0, 0x63))
        state = await link.until(lambda s: s.activity is Activity.UNKNOWN, 5, "unknown")
        assert state.battery_percent is None
        assert state.raw is not None
        assert (state.raw["mode"], state.raw["station"]) == ("63", "00")
        await link.watch(0.5)
        assert caplog.text.count("mode=63") == 1, "logged once"
        del peer.overriding[responder.STATUS]
        await link.until(lambda s: s.activity is Activity.DOCKED, 5, "known again")
    assert link.events == [], "nothing happened in between that anybody knows of"


async def test_a_late_status_from_before_a_start_does_not_confirm_it():
    """The answer to a poll before the command comes after it; it is dated as what it is."""
    peer = make_peer()
    async with running(peer, releases=False, poll_standing_s=0.1) as (link, _):
        peer.faults.delay_s = 0.25
        await link.watch(0.4)
        await obeyed(link, commands.StartMow())
    dates = [state.observed_at for state in link.states]
    assert dates == sorted(dates)


async def test_no_event_is_told_twice_over_a_reconnect():
    peer = make_peer(**LONG)
    reported: list[object] = []
    async with set_up(peer, releases=False) as (integration, _):
        for _ in range(2):
            link = await open_link(integration)
            task = asyncio.get_running_loop().create_task(link.run(reported.append))
            while not any(isinstance(item, MowerState) for item in reported):
                await asyncio.sleep(0.01)
            if peer.machine.station == 1:
                await link.send(commands.StartMow())
            mowing = (state for state in reversed(reported) if isinstance(state, MowerState))
            while next(mowing, None) is None or peer.machine.station == 1:
                await asyncio.sleep(0.01)
                mowing = (state for state in reversed(reported) if isinstance(state, MowerState))
            await asyncio.sleep(0.3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    assert [type(item).__name__ for item in reported if not isinstance(item, MowerState)] == ["MowingStarted"]
