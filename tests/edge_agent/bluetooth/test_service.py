from __future__ import annotations

import asyncio

import pytest

from core.domain.errors import (
    AdapterOffError,
    BluetoothError,
    BondLostError,
    LinkLostError,
    NoFreeSlotError,
    NotInPairingModeError,
    OutOfRangeError,
    PairingRefusedError,
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
