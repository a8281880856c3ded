"""What BlueZ needs beside bleak, on a real message bus with bleak's own client: each repair once, and never in a loop."""

from __future__ import annotations

import asyncio

import pytest

from core.domain.errors import (
    BondLostError,
    IntegrationError,
    InterferenceError,
    RadioStuckError,
    ServicesChangedError,
)
from edge_agent.bluetooth.last_resort import EVERY_S, STUCK_S
from edge_agent.bluetooth.repairs import FORGET_SERVICES_EVERY_S
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.bluez.bus import BluezBus
from edge_agent.bluez.care import BluezCare
from tests.edge_agent.bluez.conftest import ADDRESS, NAME, PATH, OpenBox
from tests.fakes.clock import ManualClock
from tests.fakes.dbus_daemon import DbusDaemon
from tests.fakes.fake_bluez import FakeBluez, Peer

NEIGHBOUR = "C0:00:00:00:00:02"


async def read(box: BluetoothService, **options: object) -> bytes:
    async with box.connect(ADDRESS, **options) as connection:  # type: ignore[arg-type]
        return await connection.read(NAME)


async def fails(box: BluetoothService, kind: type[IntegrationError], **options: object) -> IntegrationError:
    with pytest.raises(kind) as failure:
        await read(box, **options)
    return failure.value


# Connections of a former life


async def test_closes_what_a_former_life_has_left_of_our_mowers_only(bluez: FakeBluez, open_box: OpenBox) -> None:
    bluez.remember(Peer(address=ADDRESS), connected=True)
    bluez.remember(Peer(address=NEIGHBOUR), connected=True)
    async with open_box() as box:
        await box.close_stale({ADDRESS, "C0:00:00:00:00:03"})
        assert not bluez.device(ADDRESS)["Connected"]
        assert bluez.device(NEIGHBOUR)["Connected"]
        assert bluez.log.count("Disconnect") == 1
        assert await read(box) == b"Mower"


async def test_a_connection_of_this_life_is_not_stale(bluez: FakeBluez, box: BluetoothService, mower: Peer) -> None:
    async with box.connect(ADDRESS) as connection:
        await box.close_stale({ADDRESS})
        assert await connection.read(NAME) == b"Mower"


async def test_connections_end_with_the_bluetoothd_that_held_them(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    async with box.connect(ADDRESS) as connection:
        await bluez.stop()
        await bluez.start()
        async with asyncio.timeout(10):
            await connection.wait_closed()
    assert await read(box) == b"Mower"


# InProgress


async def test_an_attempt_of_old_is_cleared_once_and_then_it_works(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    mower.is_stuck = True
    assert await read(box) == b"Mower"
    asked = [word for word in bluez.log if word in {"Connect", "Disconnect", "RemoveDevice"}]
    assert asked[0] == "Connect"
    assert asked.count("Connect") == 2
    assert asked.count("RemoveDevice") == 1


async def test_an_attempt_that_stays_stuck_is_not_hammered(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    mower.is_stuck_hard = True
    failure = await fails(box, RadioStuckError)
    assert failure.retryable
    assert bluez.log.count("Connect") == 2
    assert bluez.log.count("RemoveDevice") == 1
    assert box.status()[0].slots_used == 0


async def test_clearing_an_attempt_keeps_the_bond(bluez: FakeBluez, box: BluetoothService, mower: Peer) -> None:
    await read(box, bond="pair")
    mower.is_stuck_hard = True
    await fails(box, RadioStuckError, bond="existing")
    assert "RemoveDevice" not in bluez.log
    assert bluez.paired == {PATH}


# The last resort


async def test_power_cycle_is_the_last_resort_and_at_most_once_an_hour(
    bluez: FakeBluez, open_box: OpenBox, mower: Peer
) -> None:
    clock = ManualClock()
    async with open_box(clock) as box:

        async def stay_stuck(seconds: float) -> None:
            mower.is_stuck_hard = True
            for _ in range(2):
                await fails(box, RadioStuckError)
                clock.advance(seconds)

        await stay_stuck(STUCK_S / 4)
        assert "Powered=False" not in bluez.log, "not after a minute or two"
        clock.advance(STUCK_S)
        mower.is_stuck_hard = True
        assert await read(box) == b"Mower", "switched off and on between two attempts"
        assert [word for word in bluez.log if word.startswith("Powered")] == ["Powered=False", "Powered=True"]
        await stay_stuck(STUCK_S)
        await stay_stuck(STUCK_S)
        assert bluez.log.count("Powered=False") == 1
        clock.advance(EVERY_S)
        mower.is_stuck_hard = True
        assert await read(box) == b"Mower"
        assert bluez.log.count("Powered=False") == 2


async def test_nothing_is_switched_while_anything_is_connected(
    bluez: FakeBluez, open_box: OpenBox, mower: Peer
) -> None:
    clock = ManualClock()
    bluez.remember(Peer(address=NEIGHBOUR), connected=True)  # not even ours
    mower.is_stuck_hard = True
    async with open_box(clock) as box:
        for _ in range(4):
            await fails(box, RadioStuckError)
            clock.advance(STUCK_S)
    assert "Powered=False" not in bluez.log


async def test_an_adapter_that_a_person_has_switched_off_stays_off(bluez: FakeBluez, daemon: DbusDaemon) -> None:
    bus = BluezBus()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bus.run())
        await bus.tried.wait()
        care = BluezCare(bus, "hci0")
        bluez.objects[bluez.adapter]["org.bluez.Adapter1"]["Powered"] = False
        assert not await care.power_cycle()
        assert not [word for word in bluez.log if word.startswith("Powered")]
        assert await care.connections() == 0
        await bluez.stop()
        assert not await care.power_cycle()
        assert await care.connections() is None
        task.cancel()


# A disturbed radio


async def test_a_connection_that_breaks_off_while_it_comes_up_is_counted(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    """bleak tries again by itself and tells nobody; and what it tells of the first is not the end of the second."""
    assert box.status()[0].advice is None
    for _ in range(3):
        mower.connects = ["abort", "abort"]
        async with box.connect(ADDRESS) as connection:
            assert connection.is_open
            assert await connection.read(NAME) == b"Mower"
    advice = box.status()[0].advice
    assert advice is not None
    assert "3 of 3 connects" in advice


async def test_a_radio_that_stays_disturbed_is_called_so(bluez: FakeBluez, box: BluetoothService, mower: Peer) -> None:
    mower.connects = ["abort", "abort", "abort", "hang"]
    failure = await fails(box, InterferenceError, deadline_s=2.0)
    assert failure.retryable
    assert "Wi-Fi" in failure.advice


# Services


async def test_services_that_moved_are_asked_for_anew_exactly_once(
    bluez: FakeBluez, open_box: OpenBox, mower: Peer
) -> None:
    clock = ManualClock()
    async with open_box(clock) as box:
        assert await read(box) == b"Mower"
        mower.characteristics = {0x21: NAME}
        assert (await fails(box, ServicesChangedError)).retryable
        assert await read(box) == b"Mower"
        assert bluez.log.count("RemoveDevice") == 1
        mower.characteristics = {0x31: NAME}
        for _ in range(3):
            await fails(box, ServicesChangedError)
        assert bluez.log.count("RemoveDevice") == 1, "never in a loop"
        clock.advance(FORGET_SERVICES_EVERY_S)
        await fails(box, ServicesChangedError)
        assert await read(box) == b"Mower"


async def test_a_characteristic_that_came_later_is_found(bluez: FakeBluez, box: BluetoothService, mower: Peer) -> None:
    mower.characteristics = {}
    await fails(box, ServicesChangedError)
    mower.characteristics = {0x11: NAME}
    assert await read(box) == b"Mower"


async def test_with_a_bond_nothing_is_removed_for_the_sake_of_services(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    await read(box, bond="pair")
    mower.characteristics = {0x21: NAME}
    for _ in range(3):
        await fails(box, ServicesChangedError, bond="existing")
    assert "RemoveDevice" not in bluez.log


# Bonds


async def test_a_bond_that_fails_again_is_dropped_and_the_mower_needs_pairing(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    mower.needs_bond = True
    await read(box, bond="pair")
    mower.has_bond = False
    for _ in range(2):
        failure = await fails(box, BondLostError, bond="existing")
        assert not failure.retryable, "never in a loop"
        assert bluez.paired == {PATH}
    assert "no bond" in (await fails(box, BondLostError, bond="existing")).detail
    assert bluez.paired == set()
    assert await read(box, bond="pair") == b"Mower"
    assert bluez.log.count("Pair") == 2


async def test_pairing_anew_gets_the_old_half_out_of_the_way(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    """BlueZ says `Paired` for a bond that the mower has lost, and bleak then pairs nothing at all."""
    mower.needs_bond = True
    await read(box, bond="pair")
    mower.has_bond = False
    await fails(box, BondLostError, bond="existing")
    assert await read(box, bond="pair") == b"Mower"
    assert bluez.log.count("Pair") == 2


async def test_a_bond_that_works_in_between_is_kept(bluez: FakeBluez, box: BluetoothService, mower: Peer) -> None:
    mower.needs_bond = True
    await read(box, bond="pair")
    for _ in range(3):
        mower.has_bond = False
        await fails(box, BondLostError, bond="existing")
        mower.has_bond = True
        assert await read(box, bond="existing") == b"Mower"
    assert "RemoveDevice" not in bluez.log


async def test_forgets_a_mower_that_is_away(bluez: FakeBluez, box: BluetoothService, mower: Peer) -> None:
    await read(box, bond="pair")
    mower.is_on_air = False
    await bluez.stop()
    await bluez.start()  # nobody is heard any more
    await bluez.registered.wait()
    await box.forget(ADDRESS)
    assert bluez.paired == set()
