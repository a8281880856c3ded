"""The steps in which a person adds a mower, with the emulated mower in memory."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import integrations.husqvarna_ble
from core.domain.clock import SystemClock
from core.domain.errors import (
    AdapterOffError,
    BluetoothError,
    BondLostError,
    LinkLostError,
    LinkTimeoutError,
    NoFreeSlotError,
    NotInPairingModeError,
    OutOfRangeError,
    PairingRefusedError,
    PeerBusyError,
    WrongPinError,
)
from core.domain.ids import EntryId, FlowId
from core.platform.fields import serialize_schema
from core.platform.flow import (
    AbortFlowError,
    AbortResult,
    CreateEntryResult,
    FlowContext,
    FlowResult,
    FormResult,
    MenuResult,
    ProgressResult,
)
from core.platform.integration import Entry
from core.platform.loader import Loader
from core.platform.manifest import read_manifest
from integrations.husqvarna_ble.advertised import COMPANY, Advertised, read_advertised, write_advertised
from integrations.husqvarna_ble.config_flow import (
    PIN_SCHEMA,
    RECONFIGURE_SCHEMA,
    USER_SCHEMA,
    HusqvarnaFlow,
    failure_key,
)
from integrations.husqvarna_ble.conversation import MowerBlockedError
from integrations.husqvarna_ble.emulator import HusqvarnaPeer
from integrations.husqvarna_ble.settings import SCHEMA, MowerSettings, address
from integrations.husqvarna_ble.wire import Model, Operation
from tests.integrations.husqvarna_ble.memory_radio import MemoryRadio
from tests.integrations.husqvarna_ble.mowers import entry_for, make_peer

FOLDER = Path(integrations.husqvarna_ble.__file__).parent


class Director:
    """What the flow asks of the director, and how a progress goes on."""

    def __init__(self) -> None:
        self.claimed: list[str] = []
        self.updated: dict[str, Any] = {}
        self.is_taken = False

    async def claim_unique_id(self, flow_id, unique_id, *, updates, raise_on_progress):
        if self.is_taken:
            raise AbortFlowError("already_configured")
        self.claimed.append(unique_id)

    async def update_entry(self, entry, *, title, data, options, secrets):
        self.updated = {"title": title, "data": data, "options": options, "secrets": secrets}


class FastFlow(HusqvarnaFlow):
    settle_s = 0.0
    pairable_s = 0.3


class Person:
    """Takes the steps of one flow."""

    def __init__(self, radio: MemoryRadio | None, source: str, details: dict[str, Any], entry: Entry | None) -> None:
        self.director = Director()
        self.flow = FastFlow(
            FlowContext(
                flow_id=FlowId("f1"),
                domain="husqvarna_ble",
                source=source,
                details=details,
                entry=entry,
                clock=SystemClock(),
                log=logging.LoggerAdapter(logging.getLogger("flow"), {}),
                http=self._http,
                port=self.director,
                bluetooth=radio,
            )
        )

    async def _http(self):
        raise AssertionError("needs no HTTP")

    async def take(self, step: str, user_input: dict[str, Any] | None = None) -> FlowResult:
        result = await getattr(self.flow, f"step_{step}")(user_input)
        if isinstance(result, ProgressResult):
            work, then = self.flow.work
            self.flow.progress_error = None
            try:
                async with asyncio.timeout(5):
                    await work()
            except Exception as err:  # noqa: BLE001  (as the director does)
                self.flow.progress_error = err
            return await self.take(then)
        return result


@asynccontextmanager
async def person(
    peer: HusqvarnaPeer,
    source: str = "user",
    details: dict[str, Any] | None = None,
    entry: Entry | None = None,
    *,
    is_bonded: bool = False,
) -> AsyncIterator[tuple[Person, MemoryRadio]]:
    radio = MemoryRadio(peer, is_bonded=is_bonded)
    try:
        yield Person(radio, source, details or {}, entry), radio
    finally:
        radio.close()


async def test_a_person_adds_a_mower_by_its_address(caplog):
    caplog.set_level(logging.DEBUG)
    peer = make_peer(name="Rasenfee")
    async with person(peer) as (who, radio):
        form = await who.take("user")
        assert isinstance(form, FormResult)
        form = await who.take("user", {"address": peer.address.lower().replace(":", "-")})
        assert isinstance(form, FormResult)
        assert form.step_id == "pair"
        assert who.director.claimed == [peer.address]
        assert radio.connections == 0, "nothing connects before a person wants it"
        form = await who.take("pair", {})
        assert isinstance(form, FormResult)
        assert (form.step_id, form.errors) == ("pin", {})
        assert radio.is_bonded
        done = await who.take("pin", {"pin": "1234"})
    assert isinstance(done, CreateEntryResult)
    assert done.title == "Rasenfee"
    assert done.secrets == {"pin": "1234", "refused_pin": ""}
    assert "1234" not in json.dumps(done.data | done.options)
    entry = Entry(entry_id=EntryId("e"), domain="husqvarna_ble", unique_id=None, title="x", data=done.data)
    settings = MowerSettings.of(entry)
    assert settings.serial == "230412223"
    assert settings.model == Model(device_type=23, variant=1)
    assert "1234" not in caplog.text
    assert "1234" not in repr(done)


async def test_a_discovered_mower_is_confirmed_by_a_person():
    peer = make_peer()
    async with person(peer, "discovery", {"address": peer.address, "name": "305"}) as (who, radio):
        form = await who.take("discovery")
        assert isinstance(form, FormResult)
        assert (form.step_id, form.placeholders["name"]) == ("confirm", "305")
        assert who.director.claimed == [peer.address]
        form = await who.take("confirm", {})
        assert isinstance(form, FormResult)
        assert form.step_id == "pair"
        assert radio.connections == 0


async def test_a_water_pump_of_the_same_brand_is_no_mower():
    peer = make_peer()
    async with person(peer, "discovery", {"address": peer.address}) as (who, radio):
        pump = write_advertised(Advertised(group=17, model=Model(device_type=1, variant=1)))
        heard = radio.latest(peer.address)

        class Pump(MemoryRadio):
            def latest(self, address):
                return type(heard)(address=address, name="pump", rssi_dbm=-50, manufacturer_data={COMPANY: pump})

        who = Person(Pump(peer), "discovery", {"address": peer.address}, None)
        assert await who.take("discovery") == AbortResult(reason="not_a_mower")
        nonsense = Person(radio, "discovery", {}, None)
        assert await nonsense.take("discovery") == AbortResult(reason="not_a_mower")


async def test_without_bluetooth_there_is_nothing_to_do():
    for step in ("user", "discovery"):
        who = Person(None, step, {}, None)
        assert await who.take(step) == AbortResult(reason="no_bluetooth")


async def test_an_address_that_is_none():
    async with person(make_peer()) as (who, _):
        form = await who.take("user", {"address": "12:34"})
        assert isinstance(form, FormResult)
        assert form.errors == {"address": "invalid_address"}


async def test_a_known_mower_is_not_added_twice():
    peer = make_peer()
    async with person(peer) as (who, _):
        who.director.is_taken = True
        with pytest.raises(AbortFlowError):
            await who.take("user", {"address": peer.address})


async def test_a_mower_that_does_not_pair_is_waited_for_and_then_named():
    peer = make_peer()
    peer.is_pairing_mode = False
    async with person(peer) as (who, radio):
        await who.take("user", {"address": peer.address})
        form = await who.take("pair", {})
        assert isinstance(form, FormResult)
        assert (form.step_id, form.errors) == ("pair", {"base": "not_in_pairing_mode"})
        assert radio.connections == 0, "a mower that says no is not hammered"


async def test_a_mower_that_is_switched_off_and_on_meanwhile_pairs():
    peer = make_peer()
    peer.is_pairing_mode = False
    async with person(peer) as (who, _):
        await who.take("user", {"address": peer.address})
        asyncio.get_running_loop().call_later(0.1, peer.rebooted)
        form = await who.take("pair", {})
        assert isinstance(form, FormResult)
        assert form.step_id == "pin"


async def test_a_wrong_pin_is_tried_once_for_each_time_it_is_entered():
    peer = make_peer()
    async with person(peer, is_bonded=True) as (who, _):
        await who.take("user", {"address": peer.address})
        form = await who.take("pin", {"pin": "12a4"})
        assert isinstance(form, FormResult)
        assert form.errors == {"pin": "invalid_pin"}
        for tries in range(1, 5):
            form = await who.take("pin", {"pin": "9999"})
            assert isinstance(form, FormResult)
            assert (form.step_id, form.errors) == ("pin", {"pin": "wrong_pin"})
            assert peer.heard.count(Operation.ENTER_OPERATOR_PIN) == tries
        form = await who.take("pin", {"pin": "9999"})
        assert isinstance(form, FormResult)
        assert form.errors == {"base": "blocked"}
        assert peer.heard.count(Operation.ENTER_OPERATOR_PIN) == 5


async def test_a_bond_that_is_gone_leads_back_to_pairing():
    peer = make_peer()
    async with person(peer, is_bonded=False) as (who, _):
        await who.take("user", {"address": peer.address})
        form = await who.take("pin", {"pin": "1234"})
        assert isinstance(form, FormResult)
        assert (form.step_id, form.errors) == ("pair", {"base": "not_paired"})


async def test_reauth_with_another_pin():
    peer = make_peer()
    async with person(peer, "reauth", entry=entry_for(peer), is_bonded=True) as (who, _):
        menu = await who.take("reauth")
        assert isinstance(menu, MenuResult)
        assert menu.options == ("pin", "pair")
        form = await who.take("pin")
        assert isinstance(form, FormResult)
        assert await who.take("pin", {"pin": "1234"}) == AbortResult(reason="reauth_successful")
        assert who.director.updated["secrets"] == {"pin": "1234", "refused_pin": ""}


async def test_reauth_by_pairing_again():
    peer = make_peer()
    async with person(peer, "reauth", entry=entry_for(peer), is_bonded=False) as (who, radio):
        form = await who.take("pair", {})
        assert isinstance(form, FormResult)
        assert form.step_id == "pin"
        assert radio.is_bonded


async def test_reauth_against_another_mower():
    peer = make_peer(serial=17)
    entry = entry_for(make_peer())
    async with person(peer, "reauth", entry=entry, is_bonded=True) as (who, _):
        assert await who.take("pin", {"pin": "1234"}) == AbortResult(reason="another_mower")


async def test_reconfigure():
    peer = make_peer()
    async with person(peer, "reconfigure", entry=entry_for(peer)) as (who, _):
        assert isinstance(await who.take("reconfigure"), FormResult)
        values = RECONFIGURE_SCHEMA({"releases": False, "poll_standing_s": 60})
        assert await who.take("reconfigure", values) == AbortResult(reason="reconfigure_successful")
        assert who.director.updated["options"]["releases"] is False
        assert who.director.updated["options"]["settle_s"] == 0.0, "what the form does not show stays"


def test_every_failure_says_what_a_person_can_do():
    texts = json.loads((FOLDER / "strings.json").read_text("utf-8"))["config"]["error"]
    failures: list[Exception] = [
        WrongPinError(),
        MowerBlockedError("", retry_after_s=1),
        NotInPairingModeError(),
        PairingRefusedError(),
        BondLostError(),
        PeerBusyError(),
        OutOfRangeError(),
        NoFreeSlotError(),
        AdapterOffError(),
        LinkTimeoutError(),
        LinkLostError(),
        BluetoothError(),
        RuntimeError(),
    ]
    keys = [failure_key(failure) for failure in failures]
    assert len(set(keys)) == len(failures) - 1
    assert set(keys) <= set(texts)


def test_texts_for_every_step_and_field():
    english = json.loads((FOLDER / "strings.json").read_text("utf-8"))["config"]
    for step, schema in (("user", USER_SCHEMA), ("pin", PIN_SCHEMA), ("reconfigure", RECONFIGURE_SCHEMA)):
        assert set(english["step"][step]["data"]) == {field["name"] for field in serialize_schema(schema)}
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
    assert waiting == {"conversation.py", "errands.py", "link.py", "pairing.py"}


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


@pytest.mark.parametrize("written", ["c4:64:e3:23:04:12", "C4-64-E3-23-04-12", "c464e3230412", " C4:64:E3:23:04:12 "])
def test_addresses(written):
    assert address(written) == "C4:64:E3:23:04:12"
