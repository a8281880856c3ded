"""The steps in which a person adds a mower, with the emulated mower in memory: what all flows have in common, and what
only these mowers have."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import integrations.husqvarna_ble
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.fields import serialize_schema
from core.platform.integration import Entry
from core.platform.loader import Loader
from core.platform.manifest import read_manifest
from core.platform.pairing_words import PIN_SCHEMA
from integrations.husqvarna_ble.advertised import COMPANY, Advertised, read_advertised, write_advertised
from integrations.husqvarna_ble.config_flow import HusqvarnaFlow
from integrations.husqvarna_ble.emulator import HusqvarnaPeer
from integrations.husqvarna_ble.settings import SCHEMA, MowerSettings
from integrations.husqvarna_ble.wire import Model, Operation
from tests.contract.bluetooth_flow import BluetoothFlowContract, OptionsContract
from tests.contract.flow_person import form, menu, reason, running_flows, title
from tests.integrations.husqvarna_ble.mowers import entry_for, make_peer

FOLDER = Path(integrations.husqvarna_ble.__file__).parent
OTHER_ADDRESS = "C4:64:E3:99:99:99"


class TestFlow(OptionsContract, BluetoothFlowContract):
    domain = "husqvarna_ble"
    right: ClassVar[dict[str, Any]] = {"pin": "1234"}
    wrong: ClassVar[dict[str, Any]] = {"pin": "9999"}
    needs_bond = True
    pace: ClassVar[dict[str, Any]] = {"settle_s": 0.0, "pairable_s": 0.2, "answer_s": 0.2}
    options: ClassVar[dict[str, Any]] = {
        "releases": False,
        "poll_moving_s": 20.0,
        "poll_standing_s": 60.0,
        "poll_fault_s": 600.0,
    }

    def make_peer(self) -> HusqvarnaPeer:
        return make_peer()

    def entry_for(self, peer: Any) -> Entry:
        return entry_for(peer)

    def tries(self, peer: Any, radio: MemoryRadio) -> int:
        return int(peer.heard.count(Operation.ENTER_OPERATOR_PIN))

    def fall_silent(self, peer: Any) -> None:
        peer.faults.lost_answers = 999

    async def test_the_entry_says_who_the_mower_is(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            radio.peer.machine.traits = make_peer(name="Rasenfee").machine.traits
            await self.to_credentials(who, radio)
            assert title(await who.give(**self.right)) == "Rasenfee"
            settings = MowerSettings.of(who.entry())
            assert (settings.serial, settings.model) == ("230412223", Model(device_type=23, variant=1))
            assert who.secrets()["pin"] == "1234"

    async def test_a_water_pump_of_the_same_brand_is_no_mower(self, tmp_path: Path):
        pump = write_advertised(Advertised(group=17, model=Model(device_type=1, variant=1)))

        class Pump(MemoryRadio):
            def latest(self, address):
                heard = super().latest(address)
                return type(heard)(address=address, name="pump", rssi_dbm=-50, manufacturer_data={COMPANY: pump})

        radio = Pump(make_peer())
        async with running_flows(self.domain, tmp_path, radio) as who:
            assert reason(await self.discover(who, radio)) == "not_a_mower"
        radio.close()

    async def test_a_mower_that_does_not_pair_is_waited_for_and_then_named(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            radio.peer.is_pairing_mode = False
            await self.discover(who, radio)
            await who.give()
            assert form(await who.give()) == ("pair", {"base": "not_in_pairing_mode"})
            assert radio.connections == 0, "a mower that says no is not hammered"
            asyncio.get_running_loop().call_later(0.05, radio.peer.rebooted)
            assert form(await who.give()) == ("pin", {})

    async def test_a_bond_that_proves_nothing_is_dropped(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            self.fall_silent(radio.peer)
            await self.discover(who, radio)
            await who.give()
            assert form(await who.give()) == ("pair", {"base": "no_answer"})
            assert (radio.is_bonded, radio.open) == (False, set())

    async def test_a_flow_given_up_while_it_pairs_leaves_no_bond(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            self.fall_silent(radio.peer)
            await self.discover(who, radio)
            await who.give()
            await who.begin()
            async with asyncio.timeout(5):
                while not radio.open:
                    await asyncio.sleep(0.001)
                who.flows.cancel(who.flow_id)
                while radio.is_bonded or radio.open:
                    await asyncio.sleep(0.001)

    async def test_after_several_wrong_pins_the_mower_is_locked(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            for _ in range(4):
                assert form(await who.give(**self.wrong)) == ("pin", {"pin": "wrong_pin"})
            assert form(await who.give(**self.wrong)) == ("pin", {"base": "blocked"})
            assert self.tries(radio.peer, radio) == 5

    async def test_a_bond_that_is_gone_leads_back_to_pairing(self, tmp_path: Path):
        async with self.world(tmp_path, is_bonded=False) as (who, radio):
            entry_id = await who.add(self.entry_for(radio.peer))
            await who.start("reauth", entry_id=entry_id)
            await who.choose("pin")
            assert form(await who.give(**self.right)) == ("pair", {"base": "not_paired"})
            assert form(await who.give()) == ("pin", {})
            assert radio.is_bonded
            assert reason(await who.give(**self.right)) == "reauth_successful"

    async def test_reauth_by_pairing_at_once(self, tmp_path: Path):
        async with self.world(tmp_path, is_bonded=False) as (who, radio):
            entry_id = await who.add(self.entry_for(radio.peer))
            await who.start("reauth", entry_id=entry_id)
            assert form(await who.choose("pair")) == ("pair", {})
            assert form(await who.give()) == ("pin", {})

    async def test_reauth_against_another_mower(self, tmp_path: Path):
        async with self.world(tmp_path, is_bonded=True) as (who, _):
            entry_id = await who.add(entry_for(make_peer(serial=17)))
            await who.start("reauth", entry_id=entry_id)
            await who.choose("pin")
            assert reason(await who.give(**self.right)) == "another_mower"

    async def test_a_known_mower_at_another_address_keeps_its_entry(self, tmp_path: Path):
        """Only once it has proven who it is: what is said on the air changes nothing."""
        async with self.world(tmp_path) as (who, radio):
            known = entry_for(radio.peer)
            moved = _at(OTHER_ADDRESS, known)
            await who.add(moved)
            await self.to_credentials(who, radio)
            assert who.entry().data["address"] == OTHER_ADDRESS
            assert reason(await who.give(**self.right)) == "already_configured"
            assert (who.entry().data, who.entry().unique_id) == (known.data, radio.peer.address)

    @pytest.mark.parametrize("serial", [230412223, 17])
    async def test_a_new_address_is_for_the_same_mower_only(self, tmp_path: Path, serial: int):
        async with self.world(tmp_path) as (who, radio):
            known = entry_for(make_peer(serial=serial))
            moved = _at(OTHER_ADDRESS, known)
            entry_id = await who.add(moved)
            assert menu(await who.start("reconfigure", entry_id=entry_id)) == ("options", "address", "pin")
            await who.choose("address")
            assert form(await who.give(address=radio.peer.address)) == ("pair", {})
            assert form(await who.give()) == ("pin", {})
            ended = reason(await who.give(**self.right))
            if serial == 17:
                assert ended == "another_mower"
                assert who.entry().data["address"] == OTHER_ADDRESS
            else:
                assert ended == "reconfigure_successful"
                assert (who.entry().data["address"], who.entry().unique_id) == (radio.peer.address,) * 2

    async def test_the_address_of_another_entry_is_not_taken(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            known = entry_for(radio.peer)
            await who.add(known)
            moved = _at(OTHER_ADDRESS, known)
            entry_id = await who.add(moved)
            await who.start("reconfigure", entry_id=entry_id)
            await who.choose("address")
            await who.give(address=radio.peer.address)
            await who.give()
            assert reason(await who.give(**self.right)) == "already_configured"


def _at(address: str, entry: Entry) -> Entry:
    return replace(entry, unique_id=address, data={**entry.data, "address": address})


def test_settings_are_in_the_readme():
    assert serialize_schema(PIN_SCHEMA)[0]["format"] == "password"
    readme = (FOLDER / "README.md").read_text("utf-8")
    for key in SCHEMA.schema:
        assert f"`{key.schema}`" in readme, f"{key.schema} is not in the README"


async def test_the_loader_takes_the_folder():
    loaded = await Loader().load("husqvarna_ble")
    assert loaded.flow_class is HusqvarnaFlow
    assert set(loaded.translations) == {"en", "de"}
    assert read_manifest(FOLDER).requirements == ()


def test_nothing_that_ships_imports_a_foreign_client():
    for file in FOLDER.glob("*.py"):
        text = file.read_text("utf-8")
        for name in ("automower_ble", "bleak", "bumble", "gardena_bluetooth"):
            assert f"import {name}" not in text, file.name
            assert f"from {name}" not in text, file.name


def test_only_what_talks_waits():
    waiting = {file.name for file in FOLDER.glob("*.py") if "import asyncio" in file.read_text("utf-8")}
    assert waiting == {"conversation.py", "config_flow.py", "errands.py", "link.py"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("0504bfcfbb0d", Advertised(serial=230412223)),
        (
            "0504bfcfbb0d02050104060a1701",
            Advertised(serial=230412223, is_pairable=True, group=10, model=Model(device_type=23, variant=1)),
        ),
        ("0504038fd40a", Advertised(serial=0x0AD48F03)),
        ("", Advertised()),
        ("00", Advertised()),
        ("0504bf", Advertised()),
        ("0106", Advertised()),
        ("02061102050002080a", Advertised(group=17, is_pairable=False, name="")),
    ],
)
def test_what_mowers_say_of_themselves(data, expected):
    assert read_advertised(bytes.fromhex(data)) == expected


def test_advertising_comes_back():
    said = Advertised(serial=5, is_pairable=False, group=10, model=Model(device_type=1, variant=2), name="Ida")
    assert read_advertised(write_advertised(said)) == said
