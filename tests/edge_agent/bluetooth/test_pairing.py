from __future__ import annotations

import pytest

from core.domain.errors import BondLostError, NotInPairingModeError, PairingRefusedError
from core.platform.emulation import EmulatedPairing
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, ANSWER, COMMAND, NAME, EchoMower


async def test_needs_a_bond_and_says_so(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower(security="encrypted"))
    async with bluetooth.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"
        with pytest.raises(BondLostError):
            await connection.write(COMMAND, b"x")
        with pytest.raises(BondLostError):
            await connection.subscribe(ANSWER, lambda _data: None)
    with pytest.raises(BondLostError, match="no bond"):
        async with bluetooth.connect(ADDRESS, bond="existing"):
            pass


@pytest.mark.parametrize("is_secure_connections", [True, False])
async def test_pairs_and_comes_back_with_the_bond(
    air: VirtualAir, bluetooth: BluetoothService, is_secure_connections: bool
) -> None:
    mower = EchoMower(security="encrypted", is_secure_connections=is_secure_connections)
    await air.add_peer(mower)
    async with bluetooth.connect(ADDRESS, bond="pair") as connection:
        await connection.write(COMMAND, b"first")
        assert mower.sessions[0].is_bonded
    async with bluetooth.connect(ADDRESS, bond="existing") as connection:
        await connection.write(COMMAND, b"second")
    assert mower.written == [b"first", b"second"]


async def test_the_bond_survives_a_reboot_of_the_mower(air: VirtualAir, bluetooth: BluetoothService) -> None:
    mower = await air.add_peer(EchoMower(security="encrypted"))
    async with bluetooth.connect(ADDRESS, bond="pair"):
        pass
    await mower.reboot()
    async with bluetooth.connect(ADDRESS, bond="existing") as connection:
        await connection.write(COMMAND, b"x")


async def test_not_in_pairing_mode(air: VirtualAir, bluetooth: BluetoothService) -> None:
    peer = EchoMower(security="encrypted")
    mower = await air.add_peer(peer)
    mower.faults.is_pairing_closed = True
    with pytest.raises(NotInPairingModeError) as failure:
        async with bluetooth.connect(ADDRESS, bond="pair"):
            pass
    assert not failure.value.retryable
    assert peer.events.count("opened") == 1, "a refusal must not be retried"
    mower.faults.is_pairing_closed = False
    async with bluetooth.connect(ADDRESS, bond="pair") as connection:
        await connection.write(COMMAND, b"x")


async def test_the_mowers_own_policy_counts(air: VirtualAir, bluetooth: BluetoothService) -> None:
    peer = EchoMower(security="encrypted")
    peer.policy = EmulatedPairing(is_open=False)
    await air.add_peer(peer)
    with pytest.raises(NotInPairingModeError):
        async with bluetooth.connect(ADDRESS, bond="pair"):
            pass


async def test_passkey(air: VirtualAir, bluetooth: BluetoothService) -> None:
    peer = EchoMower(security="authenticated", passkey=123_456)
    await air.add_peer(peer)
    with pytest.raises(PairingRefusedError, match="passkey"):
        async with bluetooth.connect(ADDRESS, bond="pair", passkey=654_321):
            pass
    assert peer.events.count("opened") == 1, "a wrong passkey must never be tried again by itself"
    async with bluetooth.connect(ADDRESS, bond="pair", passkey=123_456) as connection:
        await connection.write(COMMAND, b"x")
    async with bluetooth.connect(ADDRESS, bond="existing") as connection:
        await connection.write(COMMAND, b"y")


async def test_just_works_does_not_open_what_needs_a_passkey(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower(security="authenticated"))
    async with bluetooth.connect(ADDRESS, bond="pair") as connection:
        with pytest.raises(BondLostError):
            await connection.write(COMMAND, b"x")


async def test_the_mower_has_lost_the_bond(air: VirtualAir, bluetooth: BluetoothService) -> None:
    peer = EchoMower(security="encrypted")
    mower = await air.add_peer(peer)
    async with bluetooth.connect(ADDRESS, bond="pair"):
        pass
    await mower.forget_bonds()
    with pytest.raises(BondLostError) as failure:
        async with bluetooth.connect(ADDRESS, bond="existing"):
            pass
    assert not failure.value.retryable
    async with bluetooth.connect(ADDRESS, bond="pair") as connection:
        await connection.write(COMMAND, b"paired anew")
    assert peer.written == [b"paired anew"]


async def test_forget_drops_the_bond(air: VirtualAir, bluetooth: BluetoothService) -> None:
    await air.add_peer(EchoMower(security="encrypted"))
    async with bluetooth.connect(ADDRESS, bond="pair"):
        pass
    await bluetooth.forget(ADDRESS)
    with pytest.raises(BondLostError, match="no bond"):
        async with bluetooth.connect(ADDRESS, bond="existing"):
            pass
    async with bluetooth.connect(ADDRESS) as connection:
        with pytest.raises(BondLostError):
            await connection.write(COMMAND, b"x")
