"""Bonds that outlive the process that made them: both sides restarted, and files that are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bleak import BleakClient, BleakScanner
from bleak.exc import BleakGATTProtocolError
from bumble.device import Device
from bumble.hci import Address
from bumble.host import Host
from bumble.keys import PairingKeys
from bumble.transport.common import AsyncPipeSink

from core.domain.errors import StorageError
from edge_agent.virtual_radio.adapter import VirtualAdapter
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.backend import VirtualBackend, bind
from edge_agent.virtual_radio.key_file import KeyFile
from edge_agent.virtual_radio.radio_controller import RadioController
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, COMMAND, EchoMower
from tests.fakes.clock import ManualClock

BOX = "F0:00:00:00:01:01"
KEYS = PairingKeys(ltk=PairingKeys.Key(value=bytes(range(16)), authenticated=True))


def opened(path: Path) -> KeyFile:
    """For `async with`."""
    return KeyFile(path, ManualClock())


async def read(path: Path) -> KeyFile:
    """As the next process finds it."""
    async with opened(path) as file:
        return file


def moved_aside(folder: Path) -> Path:
    (aside,) = folder.glob("keys.corrupt-*")
    return aside


async def add_box(air: VirtualAir, keys: KeyFile) -> VirtualBackend:
    controller = RadioController("box", link=air.link)
    device = Device(name="box", address=Address(BOX), host=Host(controller, AsyncPipeSink(controller)))
    adapter = VirtualAdapter("box", device, key_store=keys.store(BOX))
    await adapter.open()
    return bind(adapter)


async def connect(box: VirtualBackend) -> BleakClient:
    device = await BleakScanner.find_device_by_address(ADDRESS, backend=box.scanner, timeout=10)
    assert device is not None
    client = BleakClient(device, backend=box.client)
    await client.connect()
    return client


@pytest.mark.parametrize(("is_secure_connections", "passkey"), [(True, None), (False, None), (True, 123_456)])
async def test_both_sides_start_again_and_know_each_other(
    tmp_path: Path, is_secure_connections: bool, passkey: int | None
) -> None:
    for life in range(3):
        mower = EchoMower(
            security="encrypted" if passkey is None else "authenticated",
            is_secure_connections=is_secure_connections,
            passkey=passkey,
        )
        async with (
            opened(tmp_path / "mower.json") as mowers,
            opened(tmp_path / "box.json") as boxes,
            VirtualAir(seed=life) as air,
        ):
            await air.add_peer(mower, key_store=mowers.store(ADDRESS))
            box = await add_box(air, boxes)
            client = await connect(box)
            if life == 0:

                async def read_off(_peer: str) -> int | None:
                    return passkey

                box.adapter.ask_passkey = None if passkey is None else read_off
                await client.pair()
            await client.write_gatt_char(COMMAND, b"%d" % life, response=True)
            assert mower.sessions[0].is_bonded
            await client.disconnect()
            await box.adapter.close()
        assert mower.written == [b"%d" % life]
    for name in ("mower.json", "box.json"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


async def test_one_side_that_has_lost_its_keys_is_not_taken_for_bonded(tmp_path: Path) -> None:
    for life in range(2):
        async with (
            opened(tmp_path / "mower.json") as mowers,
            opened(tmp_path / f"box-{life}.json") as boxes,
            VirtualAir(seed=life) as air,
        ):
            await air.add_peer(EchoMower(security="encrypted"), key_store=mowers.store(ADDRESS))
            box = await add_box(air, boxes)
            client = await connect(box)
            if life == 0:
                await client.pair()
            else:
                with pytest.raises(BleakGATTProtocolError):
                    await client.write_gatt_char(COMMAND, b"x", response=True)
            await client.disconnect()
            await box.adapter.close()


async def test_a_reset_mower_forgets_on_the_disk_too(tmp_path: Path) -> None:
    async with opened(tmp_path / "keys") as file, VirtualAir() as air:
        hosted = await air.add_peer(EchoMower(), key_store=file.store(ADDRESS))
        await hosted.key_store.update(BOX, KEYS)
        await hosted.forget_bonds()
    assert (await read(tmp_path / "keys")).store(ADDRESS).all_keys == {}


async def test_stations_share_a_file_and_keep_apart(tmp_path: Path) -> None:
    file = await read(tmp_path / "keys")
    await file.store("C0:00:00:00:00:0A").update(BOX, KEYS)
    await file.store("C0:00:00:00:00:0B").update("F0:00:00:00:01:02", KEYS)
    again = await read(tmp_path / "keys")
    assert set(again.store("c0:00:00:00:00:0a").all_keys) == {BOX}
    assert set(again.store("C0:00:00:00:00:0B").all_keys) == {"F0:00:00:00:01:02"}
    assert again.store("C0:00:00:00:00:0A").all_keys[BOX] == KEYS
    await again.store("C0:00:00:00:00:0A").delete(BOX)
    await again.store("C0:00:00:00:00:0A").delete(BOX)
    assert set((await read(tmp_path / "keys")).store("C0:00:00:00:00:0B").all_keys) == {"F0:00:00:00:01:02"}


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b'{"format": 1, "body": {"C0:00:00:00:00:01": {"F0:00:00:00:01:01": {"ltk": {"value": "00"}}}}}',
        b'{"format": 1, "body": {"C0:00:00:00:00:01": {"F0:00:00:00:01:01": {"ltk": {"value": 17}}}}}',
    ],
)
async def test_a_damaged_file_is_moved_aside_and_named(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "keys"
    path.write_bytes(damaged)
    file = await read(path)
    assert file.store(ADDRESS).all_keys == {}
    aside = moved_aside(tmp_path)
    assert aside.read_bytes() == damaged
    assert aside.name in str(file.problem)
    await file.store(ADDRESS).update(BOX, KEYS)
    assert json.loads(path.read_bytes())["format"] == 1
    assert (await read(path)).problem is None


async def test_a_full_disk_is_said_and_the_bond_holds_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way of a folder")
    file = KeyFile(tmp_path / "file" / "keys", ManualClock())
    with pytest.raises(StorageError):
        await file.store(ADDRESS).update(BOX, KEYS)
    assert set(file.store(ADDRESS).all_keys) == {BOX}


async def test_no_key_is_in_a_repr(tmp_path: Path) -> None:
    file = await read(tmp_path / "keys")
    await file.store(ADDRESS).update(BOX, KEYS)
    secret = bytes(range(16)).hex()
    assert secret in (tmp_path / "keys").read_text()
    assert secret not in repr(file) + repr(vars(file)) + repr(file.store(ADDRESS))
