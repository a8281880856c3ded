"""A proxy as one more adapter: hearing, connecting, bonds, slots; with the real client libraries."""

from __future__ import annotations

import asyncio

import pytest

from core.domain.errors import (
    BondLostError,
    NoFreeSlotError,
    NotInPairingModeError,
    OutOfRangeError,
    ServicesChangedError,
)
from core.platform.emulation import EmulatedCharacteristic, EmulatedService
from tests.edge_agent.proxies.conftest import KEY, World, until
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, ANSWER, COMMAND, NAME, EchoMower

SHED, HOUSE, OWN = "shed", "house", "hci0"
EXTRA = "98be0001-0b0e-421a-84e5-ddbf75dc6de4"
SHED_SOURCE, HOUSE_SOURCE = "proxy-a0b765000001", "proxy-a0b765000002"


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "noise"])
async def test_a_mower_is_heard_and_talked_to_over_a_proxy(world: World, key: str | None) -> None:
    shed = await world.proxy(SHED, key=key)
    mower = EchoMower()
    await world.air.add_peer(mower)
    world.air.path(SHED, ADDRESS).rssi_dbm = -71
    await world.start()
    status = await world.join(shed, key)
    assert (status.name, status.source, status.is_encrypted) == (SHED, SHED_SOURCE, key is not None)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    near = world.service.latest(ADDRESS)
    assert near is not None
    assert (near.source, near.rssi_dbm, near.name, near.is_connectable) == (SHED_SOURCE, -71, "Echo", True)
    assert world.service.title_of(near.source) == SHED
    heard: list[bytes] = []
    async with world.service.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"
        await connection.subscribe(ANSWER, heard.append)
        await connection.write(COMMAND, b"over the proxy")
        await until(lambda: b"".join(heard) == b"over the proxy")
        taken = await world.see(status.record.proxy_id, lambda now: now.slots_free == 2)
        assert taken.slots == 3
    await world.see(status.record.proxy_id, lambda now: now.slots_free == 3)


async def test_the_best_of_local_adapters_and_proxies_connects(world: World) -> None:
    shed = await world.proxy(SHED)
    await world.air.add_peer(EchoMower())
    await world.start(OWN)
    world.air.path(OWN, ADDRESS).rssi_dbm = -80
    world.air.path(SHED, ADDRESS).rssi_dbm = -55
    status = await world.join(shed)
    await world.heard_by(ADDRESS, OWN, SHED_SOURCE)
    async with world.service.connect(ADDRESS):
        await world.see(status.record.proxy_id, lambda now: now.slots_free == 2)
    world.air.path(OWN, ADDRESS).rssi_dbm = -40
    await until(lambda: latest(world) == OWN)
    async with world.service.connect(ADDRESS) as connection:
        assert await connection.read(NAME) == b"Echo"
        assert used(world)[OWN] == 1


async def test_a_full_proxy_is_passed_over(world: World) -> None:
    shed = await world.proxy(SHED, slots=1)
    await world.air.add_peer(EchoMower())
    await world.start(OWN)
    world.air.path(OWN, ADDRESS).rssi_dbm = -80
    world.air.path(SHED, ADDRESS).rssi_dbm = -50
    status = await world.join(shed)
    shed.faults.foreign.append("C0:00:00:00:00:77")
    shed.tell_slots()
    await world.see(status.record.proxy_id, lambda now: now.slots_free == 0)
    await world.heard_by(ADDRESS, OWN, SHED_SOURCE)
    async with world.service.connect(ADDRESS):
        assert used(world)[OWN] == 1


async def test_a_slot_that_others_free_is_taken(world: World) -> None:
    shed = await world.proxy(SHED, slots=1)
    await world.air.add_peer(EchoMower())
    await world.start()
    status = await world.join(shed)
    shed.faults.foreign.append("C0:00:00:00:00:77")
    shed.tell_slots()
    await world.see(status.record.proxy_id, lambda now: now.slots_free == 0)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    with pytest.raises(NoFreeSlotError) as failure:
        async with world.service.connect(ADDRESS, deadline_s=0.2):
            pass
    assert failure.value.advice
    waiting = asyncio.create_task(talk(world))
    await asyncio.sleep(0)
    shed.faults.foreign.clear()
    shed.tell_slots()
    assert await waiting == b"Echo"


async def test_a_proxy_that_has_not_told_yet_that_it_is_full_is_followed_by_the_next(world: World) -> None:
    shed = await world.proxy(SHED, slots=1)
    await world.air.add_peer(EchoMower())
    await world.start(OWN)
    world.air.path(OWN, ADDRESS).rssi_dbm = -80
    world.air.path(SHED, ADDRESS).rssi_dbm = -50
    await world.join(shed)
    await world.heard_by(ADDRESS, OWN, SHED_SOURCE)
    shed.faults.foreign.append("C0:00:00:00:00:77")  # and says nothing
    async with world.service.connect(ADDRESS):
        assert used(world)[OWN] == 1


async def test_a_passive_proxy_hears_and_never_connects(world: World) -> None:
    shed = await world.proxy(SHED, is_active=False)
    await world.air.add_peer(EchoMower())
    await world.start()
    status = await world.join(shed)
    assert (status.state, status.slots) == ("passive", None)
    assert status.hint
    await world.heard_by(ADDRESS, SHED_SOURCE)
    near = world.service.latest(ADDRESS)
    assert near is not None
    assert not near.is_connectable, "nobody may think that the mower can be reached"
    with pytest.raises(OutOfRangeError, match="cannot connect: shed") as failure:
        async with world.service.connect(ADDRESS, deadline_s=0.2):
            pass
    assert "active: true" in failure.value.advice


async def test_what_only_listens_does_not_speak_for_a_path(world: World) -> None:
    shed = await world.proxy(SHED, is_active=False)
    await world.air.add_peer(EchoMower())
    await world.start(OWN)
    world.air.path(OWN, ADDRESS).rssi_dbm = -80
    world.air.path(SHED, ADDRESS).rssi_dbm = -40
    await world.join(shed)
    await world.heard_by(ADDRESS, OWN, SHED_SOURCE)
    near = world.service.latest(ADDRESS)
    assert near is not None
    assert (near.source, near.rssi_dbm, near.is_connectable) == (OWN, -80, True)


async def test_a_weak_signal_is_not_tried(world: World) -> None:
    shed = await world.proxy(SHED)
    await world.air.add_peer(EchoMower())
    world.air.path(SHED, ADDRESS).rssi_dbm = -95
    await world.start()
    await world.join(shed)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    with pytest.raises(OutOfRangeError, match="-95 dBm"):
        async with world.service.connect(ADDRESS, deadline_s=0.2):
            pass


async def test_a_bond_belongs_to_one_proxy_and_outlives_its_reboot(world: World) -> None:
    shed, house = await world.proxy(SHED), await world.proxy(HOUSE)
    peer = EchoMower(security="encrypted")
    await world.air.add_peer(peer)
    world.air.path(SHED, ADDRESS).rssi_dbm = -50
    world.air.path(HOUSE, ADDRESS).rssi_dbm = -70
    await world.start()
    first, second = await world.join(shed), await world.join(house)
    await world.heard_by(ADDRESS, SHED_SOURCE, HOUSE_SOURCE)
    async with world.service.connect(ADDRESS, bond="pair") as connection:
        await connection.write(COMMAND, b"paired")
    assert world.bonds.sources(ADDRESS) == {SHED_SOURCE}
    world.air.path(HOUSE, ADDRESS).rssi_dbm = -40
    await until(lambda: latest(world) == HOUSE_SOURCE)
    async with world.service.connect(ADDRESS, bond="existing") as connection:
        await connection.write(COMMAND, b"with the bond")
        assert world.status(second.record.proxy_id).slots_free == 3, "a stronger proxy without the bond is of no use"
    await shed.reboot()
    await world.see(first.record.proxy_id, lambda now: now.state != "connected")
    await world.see(first.record.proxy_id, lambda now: now.state == "connected")
    await world.heard_by(ADDRESS, SHED_SOURCE)
    async with world.service.connect(ADDRESS, bond="existing") as connection:
        await connection.write(COMMAND, b"after the reboot")
    assert peer.written == [b"paired", b"with the bond", b"after the reboot"]
    await shed.power_off()
    await world.see(first.record.proxy_id, lambda now: now.state == "unreachable")
    with pytest.raises(OutOfRangeError, match="house") as failure:
        async with world.service.connect(ADDRESS, bond="existing", deadline_s=0.2):
            pass
    assert "paired over" in failure.value.advice


async def test_of_two_bonds_the_one_that_is_lost_is_passed_over(world: World) -> None:
    shed, house = await world.proxy(SHED), await world.proxy(HOUSE)
    peer = EchoMower(security="encrypted")
    await world.air.add_peer(peer)
    await world.start()
    await world.join(shed)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    async with world.service.connect(ADDRESS, bond="pair"):
        pass
    await world.join(house)
    world.air.path(HOUSE, ADDRESS).rssi_dbm = -40
    await until(lambda: latest(world) == HOUSE_SOURCE)
    async with world.service.connect(ADDRESS, bond="pair"):
        pass
    assert world.bonds.sources(ADDRESS) == {SHED_SOURCE, HOUSE_SOURCE}
    await world.air.adapters[HOUSE].adapter.key_store.delete(ADDRESS)  # its flash was erased
    world.air.peers[ADDRESS].faults.is_pairing_closed = True
    async with world.service.connect(ADDRESS, bond="existing") as connection:
        await connection.write(COMMAND, b"over the shed")
    assert peer.written == [b"over the shed"]


async def test_a_bond_that_the_mower_has_forgotten_is_replaced_at_the_first_try(world: World) -> None:
    shed = await world.proxy(SHED)
    peer = EchoMower(security="encrypted")
    mower = await world.air.add_peer(peer)
    await world.start()
    await world.join(shed)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    async with world.service.connect(ADDRESS, bond="pair"):
        pass
    await mower.forget_bonds()
    async with world.service.connect(ADDRESS, bond="pair") as connection:
        await connection.write(COMMAND, b"the old half on the proxy was in the way")
    assert len(peer.written) == 1


async def test_a_lost_bond_is_said_and_paired_anew_by_a_person(world: World) -> None:
    shed = await world.proxy(SHED)
    peer = EchoMower(security="encrypted")
    mower = await world.air.add_peer(peer)
    await world.start()
    await world.join(shed)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    async with world.service.connect(ADDRESS, bond="pair"):
        pass
    await mower.forget_bonds()
    mower.faults.is_pairing_closed = True
    with pytest.raises(BondLostError, match="82") as failure:
        async with world.service.connect(ADDRESS, bond="existing"):
            pass
    assert not failure.value.retryable
    mower.faults.is_pairing_closed = False
    async with world.service.connect(ADDRESS, bond="pair") as connection:
        await connection.write(COMMAND, b"paired anew, with the old half removed from the proxy")
    assert len(peer.written) == 1


async def test_needs_a_bond_and_says_so(world: World) -> None:
    shed = await world.proxy(SHED)
    mower = await world.air.add_peer(EchoMower(security="encrypted"))
    await world.start()
    await world.join(shed)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    async with world.service.connect(ADDRESS) as connection:
        with pytest.raises(BondLostError):
            await connection.write(COMMAND, b"x")
    mower.faults.is_pairing_closed = True
    with pytest.raises(NotInPairingModeError):
        async with world.service.connect(ADDRESS, bond="pair"):
            pass


@pytest.mark.parametrize("is_old", [True, False], ids=["old firmware", "passkey"])
async def test_a_proxy_that_cannot_pair_this_mower_says_so(world: World, is_old: bool) -> None:
    shed = await world.proxy(SHED)
    shed.faults.is_pairing_old = is_old
    await world.air.add_peer(EchoMower(security="authenticated", passkey=123_456))
    await world.start()
    await world.join(shed)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    passkey = None if is_old else 123_456
    with pytest.raises(OutOfRangeError) as failure:
        async with world.service.connect(ADDRESS, bond="pair", passkey=passkey, deadline_s=0.2):
            pass
    assert "without passkeys" in failure.value.advice


def latest(world: World) -> str | None:
    near = world.service.latest(ADDRESS)
    return None if near is None else near.source


def used(world: World) -> dict[str, int]:
    return {status.name: status.slots_used for status in world.service.status()}


async def talk(world: World) -> bytes:
    async with world.service.connect(ADDRESS, deadline_s=10) as connection:
        return await connection.read(NAME)


class MovedMower(EchoMower):
    """The same mower with new firmware: one more service, before the one that was first."""

    @property
    def services(self) -> tuple[EmulatedService, ...]:
        extra = EmulatedCharacteristic(uuid=EXTRA.replace("0001", "0002"), properties=frozenset({"notify"}))
        return (EmulatedService(uuid=EXTRA, characteristics=(extra,)), *super().services)


async def test_services_that_have_moved_are_asked_for_anew(world: World) -> None:
    shed = await world.proxy(SHED)
    await world.air.add_peer(EchoMower())
    await world.start()
    await world.join(shed)
    await world.heard_by(ADDRESS, SHED_SOURCE)
    assert await talk(world) == b"Echo"
    await world.air.remove_peer(ADDRESS)
    await world.air.add_peer(MovedMower())
    with pytest.raises(ServicesChangedError):
        await talk(world)
    assert await talk(world) == b"Echo"
