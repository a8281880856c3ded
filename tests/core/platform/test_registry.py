"""The registry: one id per vendor and serial, for ever."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from core.domain.capabilities import Capabilities, Simple
from core.domain.errors import ConflictError, NotFoundError
from core.domain.ids import EntryId, MowerId
from core.domain.mower import Area, LinkKind, MowerDescription
from core.platform.integration import MowerKey
from core.platform.registry import MowerRegistry
from tests.fakes.clock import ManualClock

BLE, CLOUD, LAN = EntryId("ble"), EntryId("cloud"), EntryId("lan")


def registry_of(folder: Path) -> MowerRegistry:
    registry = MowerRegistry(folder / "mowers.json", ManualClock())
    registry.load()
    return registry


def mower(serial: str = "1", name: str = "Mo", link: LinkKind = LinkKind.BLE) -> MowerDescription:
    return MowerDescription(vendor="acme", serial=serial, name=name, links=(link,), model="X")


def described(known: MowerDescription, *areas: Area) -> MowerDescription:
    return msgspec.structs.replace(known, areas=areas)


async def test_an_id_stays(tmp_path: Path):
    registry = registry_of(tmp_path)
    first = await registry.adopt(mower(), BLE)
    assert await registry.adopt(mower(name="Renamed in the app"), BLE) == first
    assert registry.get(first).name == "Renamed in the app"
    again = registry_of(tmp_path)
    assert await again.adopt(mower(), BLE) == first
    assert await again.adopt(mower("2"), BLE) != first


async def test_several_links_are_one_mower(tmp_path: Path):
    registry = registry_of(tmp_path)
    first = await registry.adopt(mower(), BLE)
    assert await registry.adopt(mower(link=LinkKind.CLOUD), CLOUD) == first
    assert registry.get(first).links == {BLE: (LinkKind.BLE,), CLOUD: (LinkKind.CLOUD,)}
    await registry.detach(BLE)
    assert registry.get(first).links == {CLOUD: (LinkKind.CLOUD,)}
    await registry.detach(CLOUD)
    assert registry.get(first).links == {}
    assert await registry.adopt(mower(), BLE) == first


async def test_name_and_areas_are_the_mowers_and_not_each_entrys(tmp_path: Path):
    registry = registry_of(tmp_path)
    front, shed = Area(area_id="1", name="Front"), Area(area_id="1", name="Shed")
    first = await registry.adopt(mower(name="Bertha"), BLE)
    await registry.adopt(described(mower(name="HRM-0042", link=LinkKind.CLOUD), front), CLOUD)
    await registry.adopt(described(mower(name="lan-7", link=LinkKind.LAN), shed), LAN)
    seen = registry.get(first)
    assert (seen.name, seen.areas) == ("Bertha", (front,))
    await registry.adopt(mower(name="Bertha II"), BLE)
    assert registry.get(first).name == "Bertha II", "renamed where the name came from"
    again = registry_of(tmp_path)
    await again.detach(BLE)
    await again.adopt(described(mower(name="HRM-0042", link=LinkKind.CLOUD), front), CLOUD)
    assert again.get(first).name == "Bertha II", "it keeps its name"
    await again.detach(CLOUD)
    assert again.get(first).areas == (shed,)
    await again.detach(LAN)
    await again.adopt(mower(name="New"), LAN)
    assert again.get(first).name == "New"


async def test_what_it_can_do_is_what_any_of_its_links_can(tmp_path: Path):
    registry = registry_of(tmp_path)
    first = await registry.adopt(mower(), BLE)
    await registry.adopt(mower(link=LinkKind.CLOUD), CLOUD)
    ble, cloud = Capabilities(pause_mow=Simple()), Capabilities(find_mower=Simple())
    assert await registry.note_capabilities(first, {BLE: ble})
    assert await registry.note_capabilities(first, {BLE: ble, CLOUD: cloud})
    assert not await registry.note_capabilities(first, {CLOUD: cloud}), "it is no news that one is down"
    assert not await registry.note_capabilities(first, {LAN: Capabilities()}), "it does not reach the mower"
    again = registry_of(tmp_path)
    assert again.get(first).capabilities == Capabilities(pause_mow=Simple(), find_mower=Simple())
    await again.detach(BLE)
    assert again.get(first).capabilities == cloud
    await again.detach(CLOUD)
    assert again.get(first).capabilities == cloud, "what it could do is remembered"


async def test_a_given_name_stays(tmp_path: Path):
    registry = registry_of(tmp_path)
    first = await registry.adopt(mower(), BLE)
    await registry.rename(first, "Bertha")
    await registry.adopt(mower(name="Factory name"), CLOUD)
    assert registry_of(tmp_path).get(first).name == "Bertha"


async def test_the_first_mower_of_an_entry_gets_the_reserved_id(tmp_path: Path):
    registry = registry_of(tmp_path)
    await registry.reserve(MowerId("given"), BLE, "From the fleet")
    again = registry_of(tmp_path)
    assert await again.adopt(mower("other"), CLOUD) != "given"
    assert await again.adopt(mower("1"), BLE) == "given"
    assert await again.adopt(mower("2"), BLE) != "given"
    assert again.get(MowerId("given")).name == "From the fleet"
    assert again.reservations() == ()
    assert registry_of(tmp_path).id_of(MowerKey("acme:1")) == "given"


async def test_a_known_mower_keeps_its_id_and_the_reservation_its_reason(tmp_path: Path):
    registry = registry_of(tmp_path)
    known = await registry.adopt(mower(), BLE)
    await registry.reserve(MowerId("given"), CLOUD, "From the fleet")
    assert await registry.adopt(mower(link=LinkKind.CLOUD), CLOUD) == known
    (refused,) = registry.reservations()
    assert refused.mower_id == "given"
    assert known in (refused.conflict or "")
    assert registry_of(tmp_path).reservations() == (refused,)
    assert await registry.adopt(mower("2"), CLOUD) != "given"  # said to have failed: it does not come true later
    await registry.remove(MowerId("given"))
    assert registry.reservations() == ()


async def test_reservations_do_not_collide(tmp_path: Path):
    registry = registry_of(tmp_path)
    known = await registry.adopt(mower(), BLE)
    with pytest.raises(ConflictError):
        await registry.reserve(known, CLOUD, "x")
    await registry.reserve(MowerId("given"), CLOUD, "x")
    await registry.reserve(MowerId("given"), CLOUD, "x again")
    with pytest.raises(ConflictError):
        await registry.reserve(MowerId("given"), BLE, "x")


async def test_removed_is_forgotten(tmp_path: Path):
    registry = registry_of(tmp_path)
    first = await registry.adopt(mower(), BLE)
    await registry.remove(first)
    with pytest.raises(NotFoundError):
        registry.get(first)
    assert registry.id_of(MowerKey("acme:1")) is None
    assert registry_of(tmp_path).mowers() == ()


async def test_nothing_new_is_not_written(tmp_path: Path):
    registry = registry_of(tmp_path)
    await registry.adopt(mower(), BLE)
    (tmp_path / "mowers.json").unlink()
    await registry.adopt(mower(), BLE)
    assert not (tmp_path / "mowers.json").exists()


async def test_a_corrupt_file_is_kept_aside(tmp_path: Path):
    (tmp_path / "mowers.json").write_text(json.dumps({"format": 1, "body": {"mowers": [1]}}))
    registry = registry_of(tmp_path)
    assert registry.problem is not None
    assert registry.mowers() == ()
