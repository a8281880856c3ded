from __future__ import annotations

import asyncio

import pytest

from core.domain.errors import (
    AdapterOffError,
    BluetoothError,
    LinkLostError,
    NoFreeSlotError,
    OutOfRangeError,
    PeerBusyError,
)
from core.platform.bluetooth import Advertisement
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, ANSWER, COMMAND, COMPANY, NAME, SERVICE, EchoMower


def now() -> float:
    return asyncio.get_running_loop().time()


async def heard(bluetooth: BluetoothService, address: str = ADDRESS) -> Advertisement:
    """Waits until the peer's name, which is in the scan response, is known."""
    seen: asyncio.Future[Advertisement] = asyncio.get_running_loop().create_future()

    def listener(advertisement: Advertisement) -> None:
        if advertisement.name and not seen.done():
            seen.set_result(advertisement)

    undo = bluetooth.listen(listener, address=address)
    try:
        async with asyncio.timeout(30):
            return await seen
    finally:
        undo()


async def test_reads_writes_and_hears_answers_in_order(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = EchoMower(piece=3)
    await air.add_peer(mower)
    answers: list[bytes] = []
    complete = asyncio.Event()

    def on_data(data: bytes) -> None:
        answers.append(data)
        if len(answers) == 4:
            complete.set()

    async with bluetooth.connect(ADDRESS) as connection:
        assert connection.is_open
        assert connection.mtu == 517
        assert await connection.read(NAME) == b"Echo"
        await connection.subscribe(ANSWER, on_data)
        await connection.write(COMMAND, b"abcdefghijkl", with_response=False)
        await complete.wait()
    assert answers == [b"abc", b"def", b"ghi", b"jkl"]
    assert not connection.is_open
    await connection.wait_closed()
    with pytest.raises(LinkLostError):
        await connection.read(NAME)


async def test_tells_what_is_on_the_air(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower())
    air.path("hci0", ADDRESS).rssi_dbm = -71
    advertisement = await heard(bluetooth)
    assert advertisement.name == "Echo"
    assert advertisement.rssi_dbm == -71
    assert advertisement.service_uuids == (SERVICE,)
    assert dict(advertisement.manufacturer_data) == {COMPANY: b"\x01\x02"}
    assert advertisement.source == "hci0"
    assert advertisement.is_connectable
    assert bluetooth.latest(ADDRESS.lower()) is not None


async def test_a_peer_is_gone_after_missed_advertisements(air: VirtualAir, bluetooth: BluetoothService) -> None:
    gone: list[str] = []
    bluetooth.listen_gone(gone.append)
    await air.add_peer(EchoMower())
    await heard(bluetooth)
    await air.remove_peer(ADDRESS)
    await asyncio.sleep(25)
    assert bluetooth.latest(ADDRESS) is not None
    await asyncio.sleep(15)
    assert bluetooth.latest(ADDRESS) is None
    assert gone == [ADDRESS]


async def test_a_connected_mower_is_not_gone_although_it_is_silent(
    air: VirtualAir, bluetooth: BluetoothService
) -> None:
    await air.add_peer(EchoMower())
    async with bluetooth.connect(ADDRESS):
        await asyncio.sleep(600)
        assert bluetooth.latest(ADDRESS) is not None


async def test_a_listener_that_fails_is_taken_off_and_others_go_on(
    air: VirtualAir, bluetooth: BluetoothService
) -> None:
    calls: list[str] = []

    def bad(_advertisement: Advertisement) -> None:
        calls.append("bad")
        raise RuntimeError("a bug")

    bluetooth.listen(bad)
    bluetooth.listen(lambda advertisement: calls.append(advertisement.address))
    await air.add_peer(EchoMower())
    await heard(bluetooth)
    await asyncio.sleep(1)
    assert calls.count("bad") == 1
    assert calls.count(ADDRESS) > 10


async def test_absent_peer_is_out_of_range_within_the_deadline(bluetooth: BluetoothService) -> None:
    started = now()
    with pytest.raises(OutOfRangeError, match="not heard"):
        async with bluetooth.connect(ADDRESS, deadline_s=12):
            pass
    assert now() - started == pytest.approx(12, abs=0.1)


async def test_a_sleeping_mower_is_awaited(air: VirtualAir, bluetooth: BluetoothService) -> None:
    async def wake() -> None:
        await asyncio.sleep(20)
        await air.add_peer(EchoMower())

    async with asyncio.TaskGroup() as group:
        group.create_task(wake())
        async with bluetooth.connect(ADDRESS, deadline_s=60) as connection:
            assert await connection.read(NAME) == b"Echo"
    assert 20 < now() < 25


async def test_too_weak_to_try(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = EchoMower()
    air.path("hci0", ADDRESS).rssi_dbm = -97
    await air.add_peer(mower)
    with pytest.raises(OutOfRangeError, match="-97 dBm"):
        async with bluetooth.connect(ADDRESS, deadline_s=30):
            pass
    assert "opened" not in mower.events


async def test_out_of_range_ends_the_connection_by_supervision(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = EchoMower()
    await air.add_peer(mower)
    async with bluetooth.connect(ADDRESS) as connection:
        started = now()
        air.set_out_of_range("hci0", ADDRESS)
        with pytest.raises(LinkLostError):
            await connection.read(NAME)
        assert now() - started == pytest.approx(2.0, abs=0.1)
        await connection.wait_closed()
    assert mower.events == ["opened", "closed"]
    air.set_out_of_range("hci0", ADDRESS, False)
    async with bluetooth.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"


async def test_a_short_blackout_only_costs_time(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower())
    async with bluetooth.connect(ADDRESS) as connection:
        air.set_out_of_range("hci0", ADDRESS)
        started = now()
        asyncio.get_running_loop().call_later(1.5, air.set_out_of_range, "hci0", ADDRESS, False)
        assert await connection.read(NAME) == b"Echo"
        assert now() - started == pytest.approx(1.5, abs=0.1)


async def test_the_mower_hangs_up(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = await air.add_peer(EchoMower())
    async with bluetooth.connect(ADDRESS) as connection:
        await mower.kick()
        await connection.wait_closed()
        assert not connection.is_open
    async with bluetooth.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"


async def test_reboot_is_noticed_and_survived(air: VirtualAir, bluetooth: BluetoothService) -> None:
    peer = EchoMower()
    mower = await air.add_peer(peer)
    async with bluetooth.connect(ADDRESS) as connection:
        started = now()
        async with asyncio.TaskGroup() as group:
            group.create_task(mower.reboot(off_s=3))
            await connection.wait_closed()
            assert now() - started == pytest.approx(2.0, abs=0.1)
    async with bluetooth.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"
    assert peer.events == ["opened", "closed", "rebooted", "opened", "closed"]


async def test_slots_are_bounded_and_waited_for(air: VirtualAir, bluetooth: BluetoothService) -> None:
    addresses = [f"C0:00:00:00:01:{n:02X}" for n in range(3)]
    for address in addresses:
        await air.add_peer(EchoMower(address))
    async with bluetooth.connect(addresses[0]), bluetooth.connect(addresses[1]):
        assert bluetooth.status()[0].slots_used == 2
        with pytest.raises(NoFreeSlotError):
            async with bluetooth.connect(addresses[2], deadline_s=5):
                pass
    assert bluetooth.status()[0].slots_used == 0

    async def hold(address: str, seconds: float) -> float:
        async with bluetooth.connect(address, deadline_s=60):
            at = now()
            await asyncio.sleep(seconds)
            return at

    started = now()
    times = await asyncio.gather(*(hold(address, 10) for address in addresses))
    assert sorted(int(at - started) for at in times) == [0, 0, 10]


async def test_one_connection_per_peer_at_a_time(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower())
    async with bluetooth.connect(ADDRESS):
        with pytest.raises(PeerBusyError):
            async with bluetooth.connect(ADDRESS, deadline_s=3):
                pass


async def test_a_phone_holds_the_mower(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = await air.add_peer(EchoMower())
    await heard(bluetooth)
    mower.faults.is_occupied = True
    mower.refresh()
    await mower.settled()
    with pytest.raises(PeerBusyError):
        async with bluetooth.connect(ADDRESS, deadline_s=25):
            pass
    mower.faults.is_occupied = False
    mower.refresh()
    async with bluetooth.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"


async def test_release_disconnects_and_refuses_until_its_end(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower(interval_ms=500))
    async with bluetooth.connect(ADDRESS) as connection:
        await bluetooth.release(10, address=ADDRESS)
        assert not connection.is_open
        await connection.wait_closed()
    with pytest.raises(BluetoothError, match="released") as failure:
        async with bluetooth.connect(ADDRESS):
            pass
    assert failure.value.retryable
    assert bluetooth.released_for_s(ADDRESS) == pytest.approx(600, abs=1)
    await asyncio.sleep(601)
    async with bluetooth.connect(ADDRESS):
        pass
    await bluetooth.release(10)
    bluetooth.take_back()
    async with bluetooth.connect(ADDRESS):
        pass


async def test_the_adapter_is_unplugged(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower())
    async with bluetooth.connect(ADDRESS) as connection:
        await air.remove_adapter("hci0")
        await connection.wait_closed()
    with pytest.raises((AdapterOffError, OutOfRangeError)):
        async with bluetooth.connect(ADDRESS, deadline_s=30):
            pass
    await asyncio.sleep(400)
    assert not bluetooth.status()[0].is_scanning
    with pytest.raises(AdapterOffError):
        async with bluetooth.connect(ADDRESS, deadline_s=5):
            pass


async def test_cancelled_while_connecting_leaves_nothing_behind(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = await air.add_peer(EchoMower())
    await heard(bluetooth)
    mower.faults.is_occupied = True
    mower.refresh()
    await mower.settled()

    async def try_it() -> None:
        async with bluetooth.connect(ADDRESS):
            pass

    task = asyncio.get_running_loop().create_task(try_it())
    await asyncio.sleep(5)
    assert bluetooth.status()[0].slots_used == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bluetooth.status()[0].slots_used == 0
    mower.faults.is_occupied = False
    mower.refresh()
    async with bluetooth.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"


async def test_a_bug_in_a_notification_handler_ends_that_connection_only(
    air: VirtualAir, bluetooth: BluetoothService
) -> None:
    await air.add_peer(EchoMower())

    def on_data(_data: bytes) -> None:
        raise RuntimeError("a bug")

    async with bluetooth.connect(ADDRESS) as connection:
        await connection.subscribe(ANSWER, on_data)
        await connection.write(COMMAND, b"x")
        await connection.wait_closed()
        assert not connection.is_open


async def test_more_than_a_packet_is_the_callers_bug(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = EchoMower()
    mower.mtu = 23
    await air.add_peer(mower)
    async with bluetooth.connect(ADDRESS) as connection:
        assert connection.mtu == 23
        with pytest.raises(ValueError, match="21 bytes"):
            await connection.write(COMMAND, b"x" * 21)


async def test_missing_characteristic_and_att_error(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower())
    async with bluetooth.connect(ADDRESS) as connection:
        with pytest.raises(BluetoothError, match="no characteristic"):
            await connection.read(SERVICE)
        with pytest.raises(BluetoothError, match="answered with"):
            await connection.write(COMMAND, b"refuse")
        with pytest.raises(BluetoothError):
            await connection.write(COMMAND, b"bug")
        assert connection.is_open
