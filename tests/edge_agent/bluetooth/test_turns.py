"""An emergency stop does not wait behind connects to other mowers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from core.domain.errors import BluetoothError, NoFreeSlotError
from core.platform.bluetooth import never
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.connector import ATTEMPT_DEADLINE_S
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.bluetooth.turns import LOOK_AGAIN_S, GaveWay, Turns
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.box_adapter import box_adapter
from tests.edge_agent.bluetooth.test_service import heard, now
from tests.edge_agent.virtual_radio.echo_mower import EchoMower
from tests.fakes.warp_loop import LoopClock

SILENT, STOPPED, OTHER = (f"C0:00:00:00:00:{number:02X}" for number in range(1, 4))
AT_ONCE_S = 2.0


async def visit(
    bluetooth: BluetoothService, address: str, *, is_urgent: Callable[[], bool] = never, deadline_s: float = 60.0
) -> float:
    """When it was connected."""
    async with bluetooth.connect(address, deadline_s=deadline_s, is_urgent=is_urgent):
        return now()


@pytest.mark.parametrize("slots", [1, 3])
async def test_a_stop_does_not_wait_for_a_mower_that_does_not_answer(air: VirtualAir, slots: int) -> None:
    adapter = box_adapter(await air.add_adapter("hci0"), slots=slots)
    async with BluetoothService([adapter], clock=LoopClock(), bonds=BondBook()) as bluetooth:
        for address in (SILENT, STOPPED, OTHER):
            await air.add_peer(EchoMower(address))
        for address in (SILENT, STOPPED, OTHER):
            await heard(bluetooth, address)
        air.set_out_of_range("hci0", SILENT)
        async with asyncio.TaskGroup() as group:
            silent = group.create_task(visit(bluetooth, SILENT))
            await asyncio.sleep(1)
            other = group.create_task(visit(bluetooth, OTHER))
            await asyncio.sleep(1)
            asked_at = now()
            stopped_at = await visit(bluetooth, STOPPED, is_urgent=lambda: True)
            assert stopped_at - asked_at < AT_ONCE_S
            assert not silent.done()
            assert not other.done()
            air.set_out_of_range("hci0", SILENT, False)
        assert other.result() > stopped_at
        assert silent.result() > stopped_at, "tried again, by itself"
        assert [status.slots_used for status in bluetooth.status()] == [0]


async def test_a_stop_that_comes_while_its_link_waits_already(air: VirtualAir, bluetooth: BluetoothService) -> None:
    stops: list[str] = []
    for address in (SILENT, STOPPED):
        await air.add_peer(EchoMower(address))
        await heard(bluetooth, address)
    air.set_out_of_range("hci0", SILENT)
    async with asyncio.TaskGroup() as group:
        silent = group.create_task(visit(bluetooth, SILENT))
        await asyncio.sleep(1)
        waiting = group.create_task(visit(bluetooth, STOPPED, is_urgent=lambda: bool(stops)))
        await asyncio.sleep(5)
        assert not waiting.done(), "without a stop it waits for its turn"
        stops.append(STOPPED)
        asked_at = now()
        assert await waiting - asked_at < AT_ONCE_S
        silent.cancel()


async def test_one_stop_does_not_break_off_another(air: VirtualAir, bluetooth: BluetoothService) -> None:
    for address in (SILENT, STOPPED):
        await air.add_peer(EchoMower(address))
        await heard(bluetooth, address)
    air.set_out_of_range("hci0", SILENT)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(visit(bluetooth, SILENT, is_urgent=lambda: True))
        await asyncio.sleep(1)
        asked_at = now()
        stopped_at = await visit(bluetooth, STOPPED, is_urgent=lambda: True)
        assert ATTEMPT_DEADLINE_S - AT_ONCE_S < stopped_at - asked_at < ATTEMPT_DEADLINE_S + AT_ONCE_S
        first.cancel()


async def test_a_pairing_gives_way_and_says_so(air: VirtualAir, bluetooth: BluetoothService) -> None:
    for address in (SILENT, STOPPED):
        await air.add_peer(EchoMower(address, security="encrypted"))
        await heard(bluetooth, address)
    air.set_out_of_range("hci0", SILENT)

    async def pair() -> None:
        async with bluetooth.connect(SILENT, bond="pair"):
            pass

    pairing = asyncio.create_task(pair())
    await asyncio.sleep(1)
    asked_at = now()
    assert await visit(bluetooth, STOPPED, is_urgent=lambda: True) - asked_at < AT_ONCE_S
    with pytest.raises(BluetoothError, match="gave way") as caught:
        await pairing
    assert "Pair again" in caught.value.advice
    air.set_out_of_range("hci0", SILENT, False)
    await heard(bluetooth, SILENT)
    await pair()


async def test_who_gets_no_turn_was_not_tried(air: VirtualAir, bluetooth: BluetoothService) -> None:
    for address in (SILENT, STOPPED):
        await air.add_peer(EchoMower(address))
        await heard(bluetooth, address)
    air.set_out_of_range("hci0", SILENT)
    silent = asyncio.create_task(visit(bluetooth, SILENT))
    await asyncio.sleep(1)
    with pytest.raises(NoFreeSlotError, match="busy with connects"):
        await visit(bluetooth, STOPPED, deadline_s=5)
    silent.cancel()
    await asyncio.wait({silent})


async def test_the_order_is_urgent_first_then_of_coming() -> None:
    turns, log, urgent = Turns(), list[str](), set[str]()

    async def take(name: str) -> None:
        async with turns.taken(lambda: name in urgent):
            log.append(name)
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        tasks = []
        for name in "abcd":
            tasks.append(group.create_task(take(name)))
            await asyncio.sleep(0)
        urgent.add("d")
        tasks[1].cancel()
    assert log == ["a", "d", "c"]


async def test_only_the_abandonable_part_is_cut_short_and_a_cancel_stays_a_cancel() -> None:
    turns = Turns()
    log: list[str] = []

    async def work() -> None:
        async with turns.taken() as turn:
            try:
                async with turn.abandonable():
                    await asyncio.sleep(100)
            except GaveWay:
                log.append("gave way")
                await asyncio.sleep(3)  # hangs up
                log.append("hung up")

    working = asyncio.create_task(work())
    await asyncio.sleep(1)
    async with turns.taken(lambda: True):
        log.append("urgent")
        assert now() == pytest.approx(4, abs=LOOK_AGAIN_S)
    await working
    assert log == ["gave way", "hung up", "urgent"]

    working = asyncio.create_task(work())
    await asyncio.sleep(1)
    turns.give_way()
    working.cancel()
    await asyncio.wait({working})
    assert working.cancelled()
    async with turns.taken(deadline_at=now() + 1):
        pass
