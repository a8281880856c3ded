"""What firmware and air do to a connection, seen from above the port."""

from __future__ import annotations

import asyncio
import gc

import pytest

from core.domain.errors import LinkLostError
from core.platform.bluetooth import GattConnection
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, ANSWER, COMMAND, NAME, EchoMower


class Answers:
    """Notifications, and a way to wait until no more come."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def after(self, connection: GattConnection, data: bytes, *, wait_s: float = 5.0) -> list[bytes]:
        self.pieces.clear()
        await connection.write(COMMAND, data)
        await asyncio.sleep(wait_s)
        return list(self.pieces)

    def __call__(self, data: bytes) -> None:
        self.pieces.append(data)


async def test_lost_corrupt_and_merged_notifications(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = await air.add_peer(EchoMower(piece=4))
    answers = Answers()
    async with bluetooth.connect(ADDRESS) as connection:
        await connection.subscribe(ANSWER, answers)
        assert await answers.after(connection, b"abcdefghij") == [b"abcd", b"efgh", b"ij"]
        mower.faults.lose_notifications = 1
        assert await answers.after(connection, b"abcdefghij") == [b"efgh", b"ij"]
        mower.faults.corrupt_notifications = 1
        assert await answers.after(connection, b"abcdefghij") == [b"abc\x9b", b"efgh", b"ij"]
        mower.faults.is_merging = True
        assert await answers.after(connection, b"abcdefghij") == [b"abcdefghij"]


async def test_drop_in_the_middle_of_a_frame(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = await air.add_peer(EchoMower(piece=4))
    answers = Answers()
    async with bluetooth.connect(ADDRESS) as connection:
        await connection.subscribe(ANSWER, answers)
        mower.faults.hang_up_after = 2
        await connection.write(COMMAND, b"abcdefghij", with_response=False)
        await connection.wait_closed()
        assert answers.pieces == [b"abcd", b"efgh"]
        with pytest.raises(LinkLostError):
            await connection.write(COMMAND, b"x")
    async with bluetooth.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"


async def test_mute_and_slow_firmware(air: VirtualAir, bluetooth: BluetoothService) -> None:
    peer = EchoMower(piece=4)
    mower = await air.add_peer(peer)
    answers = Answers()
    async with bluetooth.connect(ADDRESS) as connection:
        await connection.subscribe(ANSWER, answers)
        mower.faults.is_mute = True
        assert await answers.after(connection, b"abcd") == []
        assert peer.written == []
        mower.faults.is_mute = False
        mower.faults.answer_delay_s = 3
        assert await answers.after(connection, b"abcd", wait_s=2.9) == []
        await asyncio.sleep(0.2)
        assert answers.pieces == [b"abcd"]


async def test_loss_and_latency_cost_time_and_never_order(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower(piece=1))
    answers = Answers()
    async with bluetooth.connect(ADDRESS) as connection:
        await connection.subscribe(ANSWER, answers)
        link = air.path("hci0", ADDRESS)
        link.loss, link.latency_s = 0.3, 0.015
        started = asyncio.get_running_loop().time()
        for _ in range(20):
            await connection.read(NAME)
        took_s = asyncio.get_running_loop().time() - started
        assert 20 * 0.030 < took_s < 5
        pieces = await answers.after(connection, bytes(range(100)))
        assert pieces == [bytes((n,)) for n in range(100)]


async def test_patchy_advertising_still_connects(air: VirtualAir, bluetooth: BluetoothService) -> None:
    link = air.path("hci0", ADDRESS)
    link.advertisement_loss, link.rssi_dbm, link.jitter_db = 0.8, -85, 3
    await air.add_peer(EchoMower(interval_ms=1000))
    async with bluetooth.connect(ADDRESS, deadline_s=120) as connection:
        assert await connection.read(NAME) == b"Echo"


async def test_two_hundred_connections_leave_nothing_behind(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = EchoMower(security="encrypted")
    hosted = await air.add_peer(mower)
    async with bluetooth.connect(ADDRESS, bond="pair"):
        pass

    async def rounds(count: int) -> tuple[int, int]:
        for number in range(count):
            async with bluetooth.connect(ADDRESS, bond="existing") as connection:
                await connection.subscribe(ANSWER, lambda _data: None)
                await connection.write(COMMAND, b"x")
                if number % 5 == 0:
                    air.cut("hci0", ADDRESS)
                    await connection.wait_closed()
                elif number % 5 == 1:
                    await hosted.kick()
        await asyncio.sleep(1)
        gc.collect()
        return len(asyncio.all_tasks()), len(gc.get_objects())

    tasks, objects = await rounds(20)
    tasks_after, objects_after = await rounds(200)
    assert tasks_after == tasks
    assert objects_after - objects < 500
    assert mower.events.count("opened") == 221
    assert mower.events.count("closed") == 221
    assert mower.sessions == []
    assert bluetooth.status()[0].slots_used == 0
