"""One test per gap of bumble 0.0.236 that the radio closes: they fail when a new bumble changes the ground."""

from __future__ import annotations

import asyncio

import pytest
from bleak import BleakClient, BleakScanner
from bleak.backends.device import BLEDevice
from bleak.exc import (
    BleakBluetoothNotAvailableError,
    BleakDBusError,
    BleakDeviceNotFoundError,
    BleakError,
    BleakGATTProtocolError,
)

from core.platform.emulation import EmulatedAdvertising
from edge_agent.virtual_radio.advertising_data import advertising_packets
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.backend import VirtualBackend
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, ANSWER, COMMAND, NAME, SERVICE, EchoMower


async def device(box: VirtualBackend, address: str = ADDRESS) -> BLEDevice:
    found = await BleakScanner.find_device_by_address(address, backend=box.scanner, timeout=30)
    assert found is not None
    return found


async def test_connect_to_an_absent_peer_ends_and_the_next_one_works(air: VirtualAir) -> None:
    box = await air.add_adapter()
    await air.add_peer(EchoMower())
    known = await device(box)
    await air.remove_peer(ADDRESS)
    with pytest.raises(TimeoutError):
        await BleakClient(known, backend=box.client, timeout=3).connect()
    await air.add_peer(EchoMower())
    async with BleakClient(known, backend=box.client, timeout=3) as client:
        assert await client.read_gatt_char(NAME) == b"Echo"


async def test_cancelled_connect_leaves_the_adapter_idle(air: VirtualAir) -> None:
    box = await air.add_adapter()
    absent = BLEDevice("C0:00:00:00:00:99", None, {})
    task = asyncio.get_running_loop().create_task(BleakClient(absent, backend=box.client).connect())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await air.add_peer(EchoMower())
    async with BleakClient(ADDRESS, backend=box.client) as client:
        assert client.is_connected


async def test_unknown_address_is_not_found(air: VirtualAir) -> None:
    box = await air.add_adapter()
    with pytest.raises(BleakDeviceNotFoundError):
        await BleakClient("C0:00:00:00:00:99", backend=box.client).connect()


async def test_advertising_interval_is_what_was_asked_for(air: VirtualAir) -> None:
    box = await air.add_adapter()
    times: list[float] = []
    loop = asyncio.get_running_loop()
    async with BleakScanner(lambda _device, _data: times.append(loop.time()), backend=box.scanner):
        await air.add_peer(EchoMower(interval_ms=100))
        await asyncio.sleep(10)
    assert len(times) == pytest.approx(100, abs=2)


async def test_rssi_follows_the_path_in_scans_and_connections(air: VirtualAir) -> None:
    box = await air.add_adapter()
    air.path("hci0", ADDRESS).rssi_dbm = -77
    await air.add_peer(EchoMower())
    heard: list[int] = []
    async with BleakScanner(lambda _device, data: heard.append(data.rssi), backend=box.scanner):
        await asyncio.sleep(1)
    assert set(heard) == {-77}
    async with BleakClient(ADDRESS, backend=box.client):
        connection = box.adapter.connections[ADDRESS]
        assert await connection.get_rssi() == -77


async def test_scan_response_is_merged_and_passive_data_stays_apart(air: VirtualAir) -> None:
    box = await air.add_adapter()
    await air.add_peer(EchoMower())
    names: list[str | None] = []
    async with BleakScanner(lambda _device, data: names.append(data.local_name), backend=box.scanner):
        await asyncio.sleep(1)
    assert names
    assert set(names) == {"Echo"}


async def test_a_lost_connect_request_is_noticed(air: VirtualAir) -> None:
    """The second of two centrals that answer the same advertisement."""
    boxes = [await air.add_adapter(name) for name in ("hci0", "hci1")]
    await air.add_peer(EchoMower())
    known = [await device(box) for box in boxes]
    clients = [BleakClient(d, backend=b.client, timeout=3) for d, b in zip(known, boxes, strict=True)]
    results = await asyncio.gather(*(client.connect() for client in clients), return_exceptions=True)
    assert sum(result is None for result in results) == 1
    assert sum(client.is_connected for client in clients) == 1
    await asyncio.gather(*(client.disconnect() for client in clients))


async def test_parallel_connects_are_not_crossed(air: VirtualAir) -> None:
    box = await air.add_adapter()
    mowers = [EchoMower(f"C0:00:00:00:02:{n:02X}", interval_ms=30 + 7 * n) for n in range(8)]
    for mower in mowers:
        await air.add_peer(mower)
    known = [await device(box, mower.address) for mower in mowers]
    clients = [BleakClient(d, backend=box.client) for d in known]
    await asyncio.gather(*(client.connect() for client in clients))
    await asyncio.gather(*(c.write_gatt_char(COMMAND, c.address.encode(), response=True) for c in clients))
    assert [mower.written for mower in mowers] == [[mower.address.encode()] for mower in mowers]
    await asyncio.gather(*(client.disconnect() for client in clients))


async def test_a_request_that_the_disconnect_ends_is_a_bleak_error(air: VirtualAir) -> None:
    box = await air.add_adapter()
    await air.add_peer(EchoMower())
    closed: list[BleakClient] = []
    client = BleakClient(ADDRESS, closed.append, backend=box.client)
    await client.connect()
    air.path("hci0", ADDRESS).latency_s = 1
    reading = asyncio.get_running_loop().create_task(client.read_gatt_char(NAME))
    await asyncio.sleep(0.5)
    air.cut("hci0", ADDRESS)
    with pytest.raises(BleakError, match="disconnected"):
        await reading
    assert closed == [client]
    with pytest.raises(BleakError):
        await client.read_gatt_char(NAME)


async def test_cancelling_a_read_is_a_cancellation(air: VirtualAir) -> None:
    box = await air.add_adapter()
    await air.add_peer(EchoMower())
    async with BleakClient(ADDRESS, backend=box.client) as client:
        air.path("hci0", ADDRESS).latency_s = 1
        reading = asyncio.get_running_loop().create_task(client.read_gatt_char(NAME))
        await asyncio.sleep(0.5)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_a_second_attempt_to_pair_on_the_same_link(air: VirtualAir) -> None:
    box = await air.add_adapter()
    mower = EchoMower(security="encrypted")
    hosted = await air.add_peer(mower)
    async with BleakClient(ADDRESS, backend=box.client) as client:
        hosted.faults.is_pairing_closed = True
        with pytest.raises(BleakDBusError, match="AuthenticationFailed"):
            await client.pair()
        hosted.faults.is_pairing_closed = False
        await client.pair()
        await client.write_gatt_char(COMMAND, b"x", response=True)


async def test_subscribing_needs_what_the_characteristic_needs(air: VirtualAir) -> None:
    box = await air.add_adapter()
    await air.add_peer(EchoMower(security="encrypted"))
    async with BleakClient(ADDRESS, backend=box.client) as client:
        with pytest.raises(BleakGATTProtocolError):
            await client.start_notify(ANSWER, lambda _c, _d: None)
        with pytest.raises(BleakError, match="does not support"):
            await client.start_notify(NAME, lambda _c, _d: None)


async def test_too_long_without_response_is_refused(air: VirtualAir) -> None:
    box = await air.add_adapter()
    mower = EchoMower()
    mower.mtu = 65
    await air.add_peer(mower)
    async with BleakClient(ADDRESS, backend=box.client) as client:
        assert client.mtu_size == 65
        with pytest.raises(BleakError, match="do not fit"):
            await client.write_gatt_char(COMMAND, b"x" * 63, response=False)
        await client.write_gatt_char(COMMAND, b"x" * 62, response=False)
        await client.read_gatt_char(NAME)
    assert mower.written == [b"x" * 62]


async def test_the_services_filter_is_honoured(air: VirtualAir) -> None:
    box = await air.add_adapter()
    await air.add_peer(EchoMower())
    async with BleakClient(ADDRESS, services=[SERVICE], backend=box.client) as client:
        assert [service.uuid for service in client.services] == [SERVICE]


async def test_a_station_that_is_gone_is_silent_and_leaves_no_task(air: VirtualAir) -> None:
    box = await air.add_adapter()
    before = len(asyncio.all_tasks())
    heard: list[str] = []
    async with BleakScanner(lambda found, _data: heard.append(found.address), backend=box.scanner):
        await air.add_peer(EchoMower())
        await asyncio.sleep(1)
        await air.remove_peer(ADDRESS)
        heard.clear()
        await asyncio.sleep(5)
    assert heard == []
    assert len(asyncio.all_tasks()) == before


def test_what_does_not_fit_in_31_bytes() -> None:
    first, second = advertising_packets(
        EmulatedAdvertising(name="Mower", service_uuids=(SERVICE,), manufacturer_data={1: bytes(15)})
    )
    assert len(first) <= 31
    assert len(second) <= 31
    assert bytes(15) in second, "moved to the scan response"
    with pytest.raises(ValueError, match="does not fit"):
        advertising_packets(EmulatedAdvertising(name="M" * 20, manufacturer_data={1: bytes(27)}))


async def test_unplugged_while_connecting_is_not_a_cancellation(air: VirtualAir) -> None:
    box = await air.add_adapter()
    absent = BLEDevice("C0:00:00:00:00:99", None, {})
    connecting = asyncio.get_running_loop().create_task(BleakClient(absent, backend=box.client).connect())
    await asyncio.sleep(1)
    await air.remove_adapter("hci0")
    with pytest.raises(BleakBluetoothNotAvailableError):
        await connecting
