"""The half of the flow that is over Bluetooth: what all flows have in common, and bridges that want a passkey."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, ClassVar

import pytest

from core.domain.errors import AuthFailedError, InvalidInputError
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.flow import FormResult
from core.platform.integration import Entry
from integrations.ardumower.emulated_http import serve
from integrations.ardumower.emulator import SunrayPeer, make_emulated_peer
from integrations.ardumower.exchange import Patience
from integrations.ardumower.integration import Ardumower
from integrations.ardumower.occupancy import hold
from integrations.ardumower.responder import SunrayBrain
from integrations.ardumower.settings import ArdumowerSettings
from tests.contract.bluetooth_flow import BluetoothFlowContract
from tests.contract.flow_person import FlowPerson, form, reason, running_flows, title
from tests.contract.integration_contract import open_context
from tests.integrations.ardumower.peers import ADDRESS, ble_entry, lan_entry, with_bluetooth

GARDEN: dict[str, Any] = {"cells": 7, "rotation_deg": 0.0}
PASSKEY = "042137"


class TestFlow(BluetoothFlowContract):
    domain = "ardumower"
    credentials = "password"
    right: ClassVar[dict[str, Any]] = {"name": "Rob", "password": "123456", **GARDEN}
    wrong: ClassVar[dict[str, Any]] = {"name": "Rob", "password": "87654321", **GARDEN}
    refusal: ClassVar[dict[str, str]] = {"password": "invalid_auth"}
    malformed: ClassVar[Any] = ({"name": "Rob", "password": "x", **GARDEN}, {"password": "invalid_password"})
    impossible = frozenset({"wrong_pin"})
    user_menu = "ble"
    pace: ClassVar[dict[str, Any]] = {"patience": Patience(greeting_s=0.15, question_s=0.05)}

    def make_peer(self) -> SunrayPeer:
        return SunrayPeer(ADDRESS, SunrayBrain())

    def entry_for(self, peer: Any) -> Entry:
        return ble_entry(**GARDEN)

    def tries(self, peer: Any, radio: MemoryRadio) -> int:
        return radio.connections

    def fall_silent(self, peer: Any) -> None:
        peer.brain.faults.is_silent = True

    async def test_a_mower_over_bluetooth(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            assert title(await who.give(**self.right)) == "Rob"
            settings = ArdumowerSettings.of(who.entry())
            assert (settings.serial, settings.is_bonded) == ("ble-c01122334455", False)
            assert radio.passkeys == [], "one that wants no bond is never paired"
            assert not any(body.startswith(("AT+C", "AT+M")) for body in radio.peer.brain.heard)

    async def test_a_mower_that_is_on_the_network_already_is_not_added_over_bluetooth(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await who.add(lan_entry("http://192.0.2.7/"))
            await self.to_credentials(who, radio)
            assert reason(await who.give(**self.right)) == "already_configured"

    async def test_mistakes_stand_beside_their_fields(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            result = await who.give(**{**self.right, "name": " ", "areas": "Front", "datum_lat": 52.5})
            mistakes = {"name": "invalid_name", "areas": "invalid_areas", "datum_lon": "half_a_place"}
            assert form(result) == ("password", mistakes)
            assert isinstance(result, FormResult)
            shown = {field["name"]: field.get("suggested_value") for field in result.fields}
            assert (shown["areas"], shown["password"]) == ("Front", None)

    async def test_a_new_address(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            entry = ble_entry(**GARDEN)
            entry_id = await who.add(
                Entry(**{**_fields(entry), "data": {**entry.data, "address": "C0:00:00:00:00:09"}})
            )
            assert form(await who.start("reconfigure", entry_id=entry_id)) == ("reconfigure", {})
            assert form(await who.give(**GARDEN, address="nonsense")) == (
                "reconfigure",
                {"address": "invalid_address"},
            )
            radio.is_in_range = False
            assert form(await who.give(**GARDEN, address=ADDRESS)) == ("reconfigure", {"base": "out_of_range"})
            radio.is_in_range = True
            changed = {**GARDEN, "cells": 8}
            assert reason(await who.give(**changed, address=ADDRESS)) == "reconfigure_successful"
            assert (who.entry().data["address"], who.entry().options["cells"]) == (ADDRESS, 8)

    async def test_another_mower_at_the_new_address(self, tmp_path: Path):
        radio = MemoryRadio(SunrayPeer(ADDRESS, SunrayBrain(robot_id="ff:ff:ff:00:00:01")), is_bonded=False)
        async with running_flows(self.domain, tmp_path, radio, **self.pace) as who:
            entry = ble_entry(**GARDEN)
            entry_id = await who.add(
                Entry(**{**_fields(entry), "data": {**entry.data, "address": "C0:00:00:00:00:09"}})
            )
            await who.start("reconfigure", entry_id=entry_id)
            assert form(await who.give(**GARDEN, address=ADDRESS)) == ("reconfigure", {"address": "another_mower"})
        radio.close()

    async def test_a_mower_in_use_takes_no_second_connection(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            entry_id = await who.add(ble_entry(**GARDEN))
            with hold("ble-c01122334455"):
                await who.start("reconfigure", entry_id=entry_id)
                given = {**GARDEN, "address": ADDRESS, "password": "123456"}
                assert reason(await who.give(**given)) == "reconfigure_successful"
            assert radio.connections == 0
            assert who.secrets() == {"password": "123456"}

    async def test_reauth_of_a_mower_on_the_network(self, tmp_path: Path):
        async with serve(SunrayBrain()) as mower, self.world(tmp_path) as (who, radio):
            entry_id = await who.add(lan_entry(mower.url))
            assert form(await who.start("reauth", entry_id=entry_id)) == ("reauth", {})
            assert reason(await who.give(password="123456")) == "reauth_successful"
            assert radio.connections == 0


class TestPasskey:
    """A bridge with a fixed passkey talks to nobody who has not entered it."""

    async def to_passkey(self, who: FlowPerson) -> None:
        assert form(await who.start("discovery", address=ADDRESS, name="Rob")) == ("confirm", {})
        assert form(await who.give()) == ("password", {})
        assert form(await who.give(**TestFlow.right)) == ("passkey", {}), "only one that demands it is asked for it"

    async def test_it_is_asked_for_tried_once_and_kept_as_a_secret(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        caplog.set_level(logging.DEBUG)
        radio = bridge()
        async with running_flows("ardumower", tmp_path, radio, **TestFlow.pace) as who:
            await self.to_passkey(who)
            assert radio.passkeys == []
            for nonsense in ("", "12345", "abcdef"):
                assert form(await who.give(passkey=nonsense)) == ("passkey", {"passkey": "invalid_passkey"})
            result = await who.give(passkey="999999")
            assert form(result) == ("passkey", {"passkey": "wrong_passkey"})
            assert radio.passkeys == [999_999], "a wrong one is tried once"
            assert not radio.open
            done = await who.give(passkey=PASSKEY)
            assert title(done) == "Rob"
            assert who.secrets() == {"password": "123456", "passkey": PASSKEY}
            assert who.entry().data["is_bonded"] is True
            assert PASSKEY not in json.dumps([who.entry().data, who.entry().options]) + repr(done) + caplog.text
        radio.close()

    async def test_a_wrong_password_behind_the_right_passkey(self, tmp_path: Path):
        radio = bridge()
        async with running_flows("ardumower", tmp_path, radio, **TestFlow.pace) as who:
            await who.start("discovery", address=ADDRESS, name="Rob")
            await who.give()
            assert form(await who.give(**TestFlow.wrong)) == ("passkey", {})
            assert form(await who.give(passkey=PASSKEY)) == ("password", {"password": "invalid_auth"})
            assert title(await who.give(**TestFlow.right)) == "Rob"
            assert who.secrets()["passkey"] == PASSKEY
            assert radio.passkeys == [42_137]
        radio.close()

    async def test_out_of_reach_while_it_pairs(self, tmp_path: Path):
        radio = bridge()
        async with running_flows("ardumower", tmp_path, radio, **TestFlow.pace) as who:
            await self.to_passkey(who)
            radio.is_in_range = False
            assert form(await who.give(passkey=PASSKEY)) == ("passkey", {"base": "out_of_range"})
        radio.close()

    async def test_a_lost_bond_is_made_again_with_the_kept_passkey(self, tmp_path: Path):
        radio = bridge()
        async with running_flows("ardumower", tmp_path, radio, **TestFlow.pace) as who:
            entry = ble_entry(**GARDEN)
            entry_id = await who.add(
                Entry(**{**_fields(entry), "data": {**entry.data, "is_bonded": True}}),
                password="123456",
                passkey=PASSKEY,
            )
            assert form(await who.start("reauth", entry_id=entry_id)) == ("reauth", {})
            assert form(await who.give(password="123456")) == ("passkey", {})
            assert reason(await who.give()) == "reauth_successful"
            assert radio.passkeys == [42_137]
            assert radio.is_bonded
        radio.close()

    @pytest.mark.parametrize("is_bonded", [False, True])
    async def test_a_link_that_needs_the_bond_asks_a_person(self, is_bonded: bool):
        radio = bridge()
        entry = ble_entry(**GARDEN)
        async with open_context() as context:
            data = {**entry.data, "is_bonded": is_bonded}
            integration = Ardumower(
                with_bluetooth(context, radio),  # type: ignore[arg-type]
                Entry(**{**_fields(entry), "data": data}),
            )
            (mower,) = await integration.mowers()
            link = await integration.open(f"{mower.vendor}:{mower.serial}", mower.links[0])  # type: ignore[arg-type]
            with pytest.raises(AuthFailedError, match="passkey"):
                await link.run(lambda _: None)
        assert not radio.open
        radio.close()

    @pytest.mark.parametrize("wrong", ["12345", "abcdef", "１２３４５６"])
    def test_the_emulator_wants_six_digits(self, wrong: str):
        assert make_emulated_peer(ADDRESS, {"passkey": PASSKEY}).passkey == 42_137
        with pytest.raises(InvalidInputError):
            make_emulated_peer(ADDRESS, {"passkey": wrong})


def bridge() -> MemoryRadio:
    return MemoryRadio(SunrayPeer(ADDRESS, SunrayBrain(), passkey=int(PASSKEY)), is_bonded=False)


def _fields(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in Entry.__slots__}
