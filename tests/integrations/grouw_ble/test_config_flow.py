"""The steps in which a person adds a mower; the mower is the emulated one in memory. What all flows have in common, and
what only these mowers have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("pygrouw")

import integrations.grouw_ble
from core.domain.clock import SystemClock
from core.platform.contract.folder_check import check_folder
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.flow import FormResult
from core.platform.integration import Entry
from core.platform.loader import Loader
from core.platform.manifest import read_manifest
from integrations.grouw_ble import responder
from integrations.grouw_ble.emulator import GrouwPeer
from integrations.grouw_ble.settings import SCHEMA, MowerSettings
from integrations.grouw_ble.wire import NAME_PREFIXES
from tests.contract.bluetooth_flow import BluetoothFlowContract, OptionsContract
from tests.contract.flow_person import form, menu, running_flows, title
from tests.integrations.grouw_ble.mowers import PIN, entry_for, make_peer

FOLDER = Path(integrations.grouw_ble.__file__).parent


class TestFlow(OptionsContract, BluetoothFlowContract):
    domain = "grouw_ble"
    right: ClassVar[dict[str, Any]] = {"pin": PIN}
    wrong: ClassVar[dict[str, Any]] = {"pin": "9999"}
    confirms_typed = True
    impossible = frozenset({"not_in_pairing_mode", "pairing_refused"})
    pace: ClassVar[dict[str, Any]] = {"answer_s": 0.1}
    options: ClassVar[dict[str, Any]] = {
        "releases": False,
        "verifies_sign_in": True,
        "poll_moving_s": 20.0,
        "poll_standing_s": 60.0,
        "poll_low_s": 600.0,
    }

    def make_peer(self) -> GrouwPeer:
        return make_peer()

    def entry_for(self, peer: Any) -> Entry:
        return entry_for(peer)

    def tries(self, peer: Any, radio: MemoryRadio) -> int:
        return radio.connections

    def fall_silent(self, peer: Any) -> None:
        peer.faults.lost_answers = 999

    async def test_a_mower_is_asked_for_its_pin_and_nothing_else(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            assert title(await who.give(**self.right)) == "Heard"
            assert MowerSettings.of(who.entry()).address == radio.peer.address
            assert radio.peer.orders() == []
            assert radio.peer.memory.beeps == 0

    async def test_the_warning_is_read_before_the_pin(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await who.start()
            assert form(await who.give(address=radio.peer.address)) == ("confirm", {})
        assert "Anybody" in text("en", "step", "confirm", "description")
        assert "Warning" in text("en", "step", "confirm", "description")
        assert "Warnung" in text("de", "step", "confirm", "description")

    async def test_an_address_is_an_identity_and_cannot_change(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            entry_id = await who.add(self.entry_for(radio.peer))
            assert menu(await who.start("reconfigure", entry_id=entry_id)) == ("options", "pin")

    async def test_a_mower_that_is_silent_first_is_asked_as_its_app_does_it(self, tmp_path: Path):
        peer = make_peer(needs_session=True)
        radio = MemoryRadio(peer, is_bonded=False)
        async with running_flows(self.domain, tmp_path, radio, **self.pace) as who:
            shown = await self.discover(who, radio)
            assert isinstance(shown, FormResult)
            local = SystemClock().now().astimezone()
            assert shown.placeholders["time"].startswith(f"{local:%Y-%m-%d %H}")
            await who.give()
            assert title(await who.give(**self.right))
        radio.close()
        assert peer.memory.local_time[:3] == (local.year, local.month, local.day)
        assert "{time}" in text("en", "step", "pin", "description")
        assert "{time}" in text("de", "step", "pin", "description")

    @pytest.mark.parametrize(
        ("break_it", "key"),
        [
            (lambda peer: peer.overriding.update({responder.PIN: b"\x0a" * 4}), "pin_not_told"),
            (lambda peer: setattr(peer.faults, "drops_on_write", 1), "connection_lost"),
            (lambda peer: setattr(peer.faults, "drops_mid_answer", 1), "connection_lost"),
        ],
    )
    async def test_what_goes_wrong_is_said_in_the_form(self, tmp_path: Path, break_it: Any, key: str):
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            break_it(radio.peer)
            assert form(await who.give(**self.right)) == ("pin", {"base": key})
            assert not radio.open


def text(language: str, *path: str) -> str:
    file = FOLDER / ("strings.json" if language == "en" else f"translations/{language}.json")
    found = json.loads(file.read_text("utf-8"))["config"]
    for key in path:
        found = found[key]
    return str(found)


def test_settings_are_in_the_readme():
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
