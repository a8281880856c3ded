"""Several adapters: the best path, hysteresis, falling back, and bonds that belong to one adapter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from core.domain.errors import BondLostError, OutOfRangeError
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.path_choice import HYSTERESIS_DB, choose_path
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.bluetooth.sightings import Path
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.box_adapter import box_adapter
from tests.edge_agent.bluetooth.test_service import heard
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, COMMAND, NAME, EchoMower
from tests.fakes.warp_loop import LoopClock

SHED, HOUSE = "hci0", "hci1"


def path(source: str, rssi_dbm: int) -> Path:
    return Path(source=source, device=None, rssi_dbm=rssi_dbm, seen_at=0.0)  # type: ignore[arg-type]


def choose(paths: list[Path], *, last: str | None = None, free: str = "ab", failed: str = "") -> str | None:
    chosen = choose_path(paths, last_source=last, free=set(free), failed=set(failed))
    return chosen.source if chosen else None


def test_choice_of_the_path() -> None:
    both = [path("a", -60), path("b", -62)]
    assert choose(both) == "a"
    assert choose(both, last="b") == "b", "no hopping between two that are alike"
    assert choose([path("a", -60), path("b", -60 - HYSTERESIS_DB)], last="b") == "a"
    assert choose(both, free="b") == "b"
    assert choose(both, free="") is None
    assert choose(both, failed="a") == "b"
    assert choose(both, failed="ab") == "a"
    assert choose([]) is None


@pytest.fixture
async def two(air: VirtualAir) -> AsyncIterator[BluetoothService]:
    adapters = [box_adapter(await air.add_adapter(name), slots=1) for name in (SHED, HOUSE)]
    air.path(SHED, ADDRESS).rssi_dbm = -60
    air.path(HOUSE, ADDRESS).rssi_dbm = -75
    async with BluetoothService(adapters, clock=LoopClock(), bonds=BondBook()) as service:
        yield service


async def wait_for_both(bluetooth: BluetoothService) -> None:
    await heard(bluetooth)
    await asyncio.sleep(1)


def slots(bluetooth: BluetoothService) -> dict[str, int]:
    return {status.name: status.slots_used for status in bluetooth.status()}


async def test_the_strongest_adapter_connects(air: VirtualAir, two: BluetoothService) -> None:
    await air.add_peer(EchoMower())
    await wait_for_both(two)
    latest = two.latest(ADDRESS)
    assert latest is not None
    assert (latest.source, latest.rssi_dbm) == (SHED, -60)
    async with two.connect(ADDRESS):
        assert slots(two) == {SHED: 1, HOUSE: 0}


async def test_moves_only_when_the_other_one_is_clearly_better(air: VirtualAir, two: BluetoothService) -> None:
    await air.add_peer(EchoMower())
    await wait_for_both(two)
    async with two.connect(ADDRESS):
        pass
    air.path(HOUSE, ADDRESS).rssi_dbm = -57
    await wait_for_both(two)
    async with two.connect(ADDRESS):
        assert slots(two)[SHED] == 1
    air.path(HOUSE, ADDRESS).rssi_dbm = -50
    await wait_for_both(two)
    async with two.connect(ADDRESS):
        assert slots(two)[HOUSE] == 1


async def test_a_full_adapter_is_passed_over(air: VirtualAir, two: BluetoothService) -> None:
    other = "C0:00:00:00:00:02"
    await air.add_peer(EchoMower())
    await air.add_peer(EchoMower(other))
    await wait_for_both(two)
    async with two.connect(ADDRESS), two.connect(other) as connection:
        assert slots(two) == {SHED: 1, HOUSE: 1}
        assert await connection.read(NAME) == b"Echo"


async def test_an_adapter_that_fails_gives_way_to_the_other(air: VirtualAir, two: BluetoothService) -> None:
    await air.add_peer(EchoMower())
    await wait_for_both(two)
    await air.remove_adapter(SHED)
    async with two.connect(ADDRESS) as connection:
        assert slots(two) == {SHED: 0, HOUSE: 1}
        assert await connection.read(NAME) == b"Echo"


async def test_a_bond_belongs_to_one_adapter(air: VirtualAir, two: BluetoothService) -> None:
    peer = EchoMower(security="encrypted")
    await air.add_peer(peer)
    await wait_for_both(two)
    async with two.connect(ADDRESS, bond="pair"):
        assert slots(two)[SHED] == 1
    air.path(HOUSE, ADDRESS).rssi_dbm = -40
    await wait_for_both(two)
    async with two.connect(ADDRESS, bond="existing") as connection:
        assert slots(two)[SHED] == 1, "a stronger adapter without the bond is of no use"
        await connection.write(COMMAND, b"x")
    air.set_out_of_range(SHED, ADDRESS)
    await asyncio.sleep(60)
    with pytest.raises(OutOfRangeError):
        async with two.connect(ADDRESS, bond="existing", deadline_s=10):
            pass
    await two.forget(ADDRESS)
    with pytest.raises(BondLostError):
        async with two.connect(ADDRESS, bond="existing", deadline_s=10):
            pass
