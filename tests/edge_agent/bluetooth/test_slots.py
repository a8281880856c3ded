"""More mowers than connections: who waits gets a turn, and an emergency stop the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from core.domain.errors import NoFreeSlotError
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.bluetooth.slots import Asked, SlotQueue
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.box_adapter import box_adapter
from tests.edge_agent.bluetooth.test_service import heard
from tests.edge_agent.virtual_radio.echo_mower import EchoMower
from tests.fakes.warp_loop import LoopClock

MOWERS = [f"C0:00:00:00:00:{number:02X}" for number in range(1, 6)]


@pytest.fixture
async def narrow(air: VirtualAir) -> AsyncIterator[BluetoothService]:
    """Five mowers, one connection."""
    adapter = box_adapter(await air.add_adapter("hci0"), slots=1)
    async with BluetoothService([adapter], clock=LoopClock(), bonds=BondBook()) as service:
        for address in MOWERS:
            await air.add_peer(EchoMower(address))
        for address in MOWERS:
            await heard(service, address)
        yield service


class Holder:
    """A link that keeps its connection for as long as it is let, as one of a mower that works does."""

    def __init__(self, bluetooth: BluetoothService, address: str, log: list[str], *, shares: bool = True) -> None:
        self.address = address
        self.is_urgent = False
        self._bluetooth = bluetooth
        self._log = log
        self._shares = shares
        self._wanted = asyncio.Event()

    async def visit(self, deadline_s: float = 300.0) -> None:
        self._wanted.clear()
        async with self._bluetooth.connect(
            self.address,
            deadline_s=deadline_s,
            on_wanted=self._wanted.set if self._shares else None,
            is_urgent=lambda: self.is_urgent,
        ):
            self._log.append(self.address)
            await self._wanted.wait()

    async def keep_visiting(self) -> None:
        while True:
            await self.visit()
            await asyncio.sleep(5)


async def until(is_so: Callable[[], bool], timeout_s: float = 120.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not is_so():
            await asyncio.sleep(0.1)


async def test_five_mowers_share_one_connection(narrow: BluetoothService) -> None:
    log: list[str] = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(Holder(narrow, address, log).keep_visiting()) for address in MOWERS]
        await until(lambda: len(log) >= 15)
        for task in tasks:
            task.cancel()
    assert {log[:15].count(address) for address in MOWERS} == {3}, "everybody in turn"


async def test_a_holder_that_does_not_share_keeps_it_and_the_other_is_told(narrow: BluetoothService) -> None:
    log: list[str] = []
    async with asyncio.TaskGroup() as group:
        task = group.create_task(Holder(narrow, MOWERS[0], log, shares=False).visit())
        await until(lambda: bool(log))
        with pytest.raises(NoFreeSlotError):
            await Holder(narrow, MOWERS[1], log).visit(deadline_s=10.0)
        assert log == [MOWERS[0]]
        task.cancel()


async def test_a_stop_goes_before_all_that_wait(narrow: BluetoothService) -> None:
    """Also when it comes while its link waits already."""
    log: list[str] = []
    holders = [Holder(narrow, address, log, shares=address != MOWERS[0]) for address in MOWERS]
    async with asyncio.TaskGroup() as group:
        first = group.create_task(holders[0].visit())
        await until(lambda: bool(log))
        waiting = [group.create_task(holder.visit()) for holder in holders[1:]]
        await asyncio.sleep(5)
        holders[4].is_urgent = True
        first.cancel()
        await until(lambda: len(log) > 1)
        assert log[1] == MOWERS[4]
        for task in waiting:
            task.cancel()


def test_a_stop_has_every_holder_asked_and_anybody_else_one() -> None:
    queue = SlotQueue()
    asked: list[str] = []
    for source, name in (("a", "first"), ("a", "second"), ("b", "other")):
        queue.hold(source, lambda name=name: asked.append(name))  # type: ignore[misc]
    queue.hold("a", None)
    with queue.waiting(Asked(address="W")) as waiter:
        queue.ask(waiter, {"a"})
        assert asked == ["first"]
        with queue.waiting(Asked(address="S", is_urgent=lambda: True)) as stop:
            queue.ask(stop, {"a", "b"})
            assert asked == ["first", "second", "other"], "nobody is asked twice"
            assert queue.stands_back(waiter, "a")
            assert not queue.stands_back(stop, "a")
            waiter.event.clear()
        assert waiter.event.is_set(), "who stood back looks again"
        assert not queue.stands_back(waiter, "a")
