"""The steps in which a person adds a mower; the mower is the emulated one in memory."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygrouw")

import integrations.grouw_ble
from core.domain.clock import SystemClock
from core.domain.errors import (
    AdapterOffError,
    BluetoothError,
    BondLostError,
    LinkLostError,
    LinkTimeoutError,
    NoFreeSlotError,
    NotReadyError,
    OutOfRangeError,
    PeerBusyError,
    WrongPinError,
)
from core.domain.ids import EntryId, FlowId
from core.platform.contract.folder_check import check_folder
from core.platform.fields import serialize_schema
from core.platform.flow import (
    AbortFlowError,
    AbortResult,
    CreateEntryResult,
    FlowContext,
    FlowResult,
    FormResult,
    ProgressResult,
)
from core.platform.integration import Entry
from core.platform.loader import Loader
from core.platform.manifest import read_manifest
from integrations.grouw_ble import responder
from integrations.grouw_ble.config_flow import (
    PIN_SCHEMA,
    RECONFIGURE_SCHEMA,
    USER_SCHEMA,
    GrouwFlow,
    failure_key,
)
from integrations.grouw_ble.emulator import GrouwPeer
from integrations.grouw_ble.settings import SCHEMA, MowerSettings, address
from integrations.grouw_ble.wire import NAME_PREFIXES
from tests.integrations.grouw_ble.mowers import PIN, entry_for, make_peer
from tests.integrations.husqvarna_ble.memory_radio import MemoryRadio

FOLDER = Path(integrations.grouw_ble.__file__).parent


class Director:
    """What the flow asks of the director."""

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


class FastFlow(GrouwFlow):
    answer_s = 0.1


class Person:
    """Takes the steps of one flow."""

    def __init__(self, radio: MemoryRadio | None, source: Any, details: dict[str, Any], entry: Entry | None) -> None:
        self.director = Director()
        self.flow = FastFlow(
            FlowContext(
                flow_id=FlowId("f1"),
                domain="grouw_ble",
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
            assert self.flow.work is not None
            work, then = self.flow.work
            self.flow.progress_error = None
            try:
                async with asyncio.timeout(5):
                    await work()
            except Exception as err:  # noqa: BLE001  (as the director does)
                self.flow.progress_error = err
            return await self.take(then)
        return result

    async def form(self, step: str, user_input: dict[str, Any] | None = None) -> FormResult:
        result = await self.take(step, user_input)
        assert isinstance(result, FormResult), result
        return result


@asynccontextmanager
async def person(
    peer: GrouwPeer, source: str = "user", details: dict[str, Any] | None = None, entry: Entry | None = None
) -> AsyncIterator[tuple[Person, MemoryRadio]]:
    radio = MemoryRadio(peer)
    try:
        yield Person(radio, source, details or {}, entry), radio
    finally:
        radio.close()


def text(language: str, *path: str) -> str:
    file = FOLDER / ("strings.json" if language == "en" else f"translations/{language}.json")
    found = json.loads(file.read_text("utf-8"))["config"]
    for key in path:
        found = found[key]
    return str(found)


async def test_a_person_adds_a_mower_by_its_address(caplog):
    caplog.set_level(logging.DEBUG)
    peer = make_peer()
    async with person(peer) as (who, radio):
        await who.form("user")
        form = await who.form("user", {"address": peer.address.lower().replace(":", "-")})
        assert (form.step_id, form.placeholders["name"]) == ("confirm", "Robot Mower_DYM")
        assert who.director.claimed == [peer.address]
        form = await who.form("confirm", {})
        assert form.step_id == "pin"
        assert radio.connections == 0, "nothing connects before a person wants it"
        done = await who.take("pin", {"pin": PIN})
    assert isinstance(done, CreateEntryResult)
    assert (done.title, done.secrets) == ("Robot Mower_DYM", {"pin": PIN})
    entry = Entry(entry_id=EntryId("e"), domain="grouw_ble", unique_id=None, title="x", data=done.data)
    assert MowerSettings.of(entry).address == peer.address
    assert peer.orders() == []
    assert peer.memory.beeps == 0
    for place in (json.dumps(done.data | done.options), caplog.text, repr(done), repr(vars(who.flow))):
        assert PIN not in place


async def test_a_discovered_mower_is_confirmed_by_a_person_who_reads_the_warning():
    peer = make_peer()
    async with person(peer, "discovery", {"address": peer.address, "name": "RobotMower_DYM12"}) as (who, radio):
        form = await who.form("discovery")
        assert (form.step_id, form.fields, form.placeholders["name"]) == ("confirm", (), "RobotMower_DYM12")
        assert who.director.claimed == [peer.address]
        assert (await who.form("confirm", {})).step_id == "pin"
        assert radio.connections == 0
    assert "Warning" in text("en", "step", "confirm", "description")
    assert "Anybody" in text("en", "step", "confirm", "description")
    assert "Warnung" in text("de", "step", "confirm", "description")


async def test_discovery_of_nonsense():
    async with person(make_peer(), "discovery", {}) as (who, _):
        assert await who.take("discovery") == AbortResult(reason="not_a_mower")


async def test_without_bluetooth_there_is_nothing_to_do():
    for step in ("user", "discovery", "pin"):
        who = Person(None, "user", {}, None)
        assert await who.take(step) == AbortResult(reason="no_bluetooth")


async def test_an_address_that_is_none():
    async with person(make_peer()) as (who, _):
        assert (await who.form("user", {"address": "12:34"})).errors == {"address": "invalid_address"}


async def test_a_known_mower_is_not_added_twice():
    peer = make_peer()
    async with person(peer) as (who, _):
        who.director.is_taken = True
        with pytest.raises(AbortFlowError):
            await who.take("user", {"address": peer.address})


async def test_wrong_pins(caplog):
    caplog.set_level(logging.DEBUG)
    peer = make_peer()
    async with person(peer) as (who, radio):
        await who.take("user", {"address": peer.address})
        assert (await who.form("pin", {"pin": "12a4"})).errors == {"pin": "invalid_pin"}
        assert radio.connections == 0
        assert (await who.form("pin", {"pin": "9999"})).errors == {"pin": "wrong_pin"}
        assert radio.connections == 1
        assert not radio.open
        assert isinstance(await who.take("pin", {"pin": PIN}), CreateEntryResult)
    assert PIN not in caplog.text
    assert "9999" not in caplog.text


async def test_a_mower_that_is_silent_first_is_asked_as_its_app_does_it_and_the_form_shows_the_time():
    peer = make_peer(needs_session=True)
    async with person(peer) as (who, _):
        form = await who.form("user", {"address": peer.address})
        local = SystemClock().now().astimezone()
        assert form.placeholders["time"].startswith(f"{local:%Y-%m-%d %H}")
        assert isinstance(await who.take("pin", {"pin": PIN}), CreateEntryResult)
    assert peer.memory.local_time[:3] == (local.year, local.month, local.day)
    assert "{time}" in text("en", "step", "pin", "description")
    assert "{time}" in text("de", "step", "pin", "description")


@pytest.mark.parametrize(
    ("break_it", "key"),
    [
        (lambda peer, radio: setattr(peer.faults, "lost_answers", 99), "no_answer"),
        (lambda peer, radio: peer.overriding.update({responder.PIN: b"\x0a" * 4}), "pin_not_told"),
        (lambda peer, radio: setattr(peer.faults, "drops_on_write", 1), "connection_lost"),
        (lambda peer, radio: setattr(peer.faults, "drops_mid_answer", 1), "connection_lost"),
        (lambda peer, radio: setattr(radio, "is_in_range", False), "out_of_range"),
    ],
)
async def test_what_goes_wrong_is_said_in_the_form(break_it, key):
    peer = make_peer()
    async with person(peer) as (who, radio):
        await who.take("user", {"address": peer.address})
        break_it(peer, radio)
        form = await who.form("pin", {"pin": PIN})
        assert (form.step_id, form.errors) == ("pin", {"base": key})
        assert not radio.open


async def test_reauth():
    peer = make_peer()
    async with person(peer, "reauth", entry=entry_for(peer)) as (who, _):
        assert (await who.form("reauth")).step_id == "pin"
        assert (await who.form("pin", {"pin": "0000"})).errors == {"pin": "wrong_pin"}
        assert await who.take("pin", {"pin": PIN}) == AbortResult(reason="reauth_successful")
        assert who.director.updated["secrets"] == {"pin": PIN}


async def test_reconfigure():
    peer = make_peer()
    async with person(peer, "reconfigure", entry=entry_for(peer)) as (who, _):
        await who.form("reconfigure")
        values = RECONFIGURE_SCHEMA({"releases": False, "verifies_sign_in": True, "poll_standing_s": 60})
        assert await who.take("reconfigure", values) == AbortResult(reason="reconfigure_successful")
        assert who.director.updated["options"]["verifies_sign_in"] is True
        assert who.director.updated["options"]["answer_s"] == 0.3, "what the form does not show stays"


def test_every_failure_says_what_a_person_can_do():
    texts = json.loads((FOLDER / "strings.json").read_text("utf-8"))["config"]["error"]
    failures: list[Exception] = [
        WrongPinError(),
        NotReadyError(),
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


def test_texts_for_every_field_and_every_setting():
    english = json.loads((FOLDER / "strings.json").read_text("utf-8"))["config"]
    for step, schema in (("user", USER_SCHEMA), ("pin", PIN_SCHEMA), ("reconfigure", RECONFIGURE_SCHEMA)):
        assert set(english["step"][step]["data"]) == {field["name"] for field in serialize_schema(schema)}
    assert serialize_schema(PIN_SCHEMA)[0]["format"] == "password"
    readme = (FOLDER / "README.md").read_text("utf-8")
    for key in SCHEMA.schema:
        assert f"`{key.schema}`" in readme, f"{key.schema} is not in the README"


async def test_the_loader_takes_the_folder_and_names_what_is_missing():
    loaded = await Loader().load("grouw_ble")
    assert loaded.flow_class is not None
    assert loaded.flow_class.__name__ == "GrouwFlow"
    assert set(loaded.translations) == {"en", "de"}
    manifest = read_manifest(FOLDER)
    assert (manifest.requirements, manifest.extra) == (("pygrouw==0.1.4.1",), "grouw")
    assert {str(matcher.local_name).rstrip("*") for matcher in manifest.bluetooth} == set(NAME_PREFIXES)


async def test_the_folder_is_what_its_quality_list_says():
    report = await check_folder(FOLDER)
    assert [finding for finding in report.findings if finding.status == "failed"] == []


def test_only_the_codec_touches_the_library_and_nothing_a_radio():
    for file in FOLDER.glob("*.py"):
        source = file.read_text("utf-8")
        for name in ("bleak", "bumble", "bleak_retry_connector"):
            assert f"import {name}" not in source, file.name
            assert f"from {name}" not in source, file.name
        assert ("pygrouw import" in source) == (file.name == "codec.py"), file.name
    for name in ("emulator.py", "responder.py", "emulated_machine.py", "mapping.py", "wire.py"):
        assert "codec" not in (FOLDER / name).read_text("utf-8").replace("`codec`", "").replace("codec's", "")


def test_only_what_talks_waits():
    waiting = {file.name for file in FOLDER.glob("*.py") if "import asyncio" in file.read_text("utf-8")}
    assert waiting == {"conversation.py", "errands.py", "link.py", "probe.py"}


@pytest.mark.parametrize("written", ["f4:81:f4:26:06:25", "F4-81-F4-26-06-25", "f481f4260625", " F4:81:F4:26:06:25 "])
def test_addresses(written):
    assert address(written) == "F4:81:F4:26:06:25"
