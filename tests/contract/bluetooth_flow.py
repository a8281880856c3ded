"""What holds for the flow of every Bluetooth mower. Subclass it beside an integration's own tests:

    class TestFlow(BluetoothFlowContract):
        domain = "acme"
        ...

The mower is the integration's own emulated one, in memory; director, entries and files are real.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from core.domain.errors import IntegrationError
from core.platform.bluetooth_mower_flow import BluetoothMowerFlow
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.contract.text_check import compare, read_texts
from core.platform.emulation import EmulatedPeer
from core.platform.flow import FormResult
from core.platform.integration import Entry
from core.platform.loader import Loader
from tests.contract.flow_person import FlowPerson, form, menu, reason, running_flows, title


class BluetoothFlowContract:
    """`right` and `wrong` are answers to the step `credentials`, `refusal` what a wrong one is told."""

    domain: ClassVar[str]
    credentials: ClassVar[str] = "pin"
    right: ClassVar[dict[str, Any]]
    wrong: ClassVar[dict[str, Any]]
    refusal: ClassVar[dict[str, str]] = {"pin": "wrong_pin"}
    malformed: ClassVar[tuple[dict[str, Any], dict[str, str]]] = ({"pin": "12a4"}, {"pin": "invalid_pin"})
    needs_bond: ClassVar[bool] = False
    confirms_typed: ClassVar[bool] = False
    impossible: ClassVar[frozenset[str]] = frozenset()
    """Failures that cannot come, for this brand asks for no such thing."""
    user_menu: ClassVar[str | None] = None
    pace: ClassVar[dict[str, Any]] = {}

    def make_peer(self) -> EmulatedPeer:
        raise NotImplementedError

    def entry_for(self, peer: EmulatedPeer) -> Entry:
        raise NotImplementedError

    def tries(self, peer: EmulatedPeer, radio: MemoryRadio) -> int:
        """How often the mower has been given a secret, or was connected to for comparing one."""
        raise NotImplementedError

    def fall_silent(self, peer: EmulatedPeer) -> None:
        """From now on it answers nothing."""
        raise NotImplementedError

    @asynccontextmanager
    async def world(self, folder: Path, *, is_bonded: bool = False) -> AsyncIterator[tuple[FlowPerson, MemoryRadio]]:
        radio = MemoryRadio(self.make_peer(), is_bonded=is_bonded)
        async with running_flows(self.domain, folder, radio, **self.pace) as who:
            try:
                yield who, radio
            finally:
                radio.close()

    async def discover(self, who: FlowPerson, radio: MemoryRadio) -> Any:
        return await who.start("discovery", address=radio.peer.address, name="Heard")

    async def to_credentials(self, who: FlowPerson, radio: MemoryRadio) -> None:
        """From discovery to the step that asks for them."""
        assert form(await self.discover(who, radio)) == ("confirm", {})
        result = await who.give()
        if self.needs_bond:
            assert form(result) == ("pair", {})
            assert radio.connections == 0, "nothing connects before a person wants it"
            result = await who.give()
            assert radio.is_bonded
        assert form(result) == (self.credentials, {})

    async def test_from_discovery_to_an_entry(self, tmp_path: Path, caplog: pytest.LogCaptureFixture):
        caplog.set_level(logging.DEBUG)
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            done = await who.give(**self.right)
            assert title(done)
            assert not radio.open
            entry, secrets = who.entry(), who.secrets()
            assert entry.data["address"] == radio.peer.address
            for secret in filter(None, secrets.values()):
                assert secret not in json.dumps([entry.data, entry.options]) + repr(done) + caplog.text

    async def test_a_typed_address(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            result = await who.start()
            if self.user_menu is not None:
                assert self.user_menu in menu(result)
                result = await who.choose(self.user_menu)
            step, _ = form(result)
            assert form(await who.give(address="12:34")) == (step, {"address": "invalid_address"})
            result = await who.give(address=radio.peer.address.lower().replace(":", "-"))
            first = "pair" if self.needs_bond else self.credentials
            assert form(result) == ("confirm" if self.confirms_typed else first, {})
            assert radio.connections == 0

    async def test_nonsense_is_not_tried(self, tmp_path: Path):
        given, mistakes = self.malformed
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            before = radio.connections
            assert form(await who.give(**given)) == (self.credentials, mistakes)
            assert radio.connections == before

    async def test_what_is_refused_is_tried_once_for_each_time_it_is_entered(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            for _ in range(2):
                before = self.tries(radio.peer, radio)
                result = await who.give(**self.wrong)
                assert form(result) == (self.credentials, self.refusal)
                await asyncio.sleep(0.02)
                assert self.tries(radio.peer, radio) == before + 1
                assert not radio.open
            assert isinstance(result, FormResult)
            typed = {field["name"]: field.get("suggested_value") for field in result.fields}
            assert typed[next(iter(self.refusal))] is None, "a secret is never shown again"
            assert title(await who.give(**self.right))

    async def test_a_mower_is_added_once(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            first = who.flow_id
            assert reason(await self.discover(who, radio)) == "already_in_progress"
            who.flow_id = first
            assert title(await who.give(**self.right))
            assert reason(await self.discover(who, radio)) == "already_configured"
            assert len(who.entries.records()) == 1

    async def test_an_ignored_mower_is_not_offered_until_it_is_wanted(self, tmp_path: Path):
        for life in range(2):
            async with self.world(tmp_path) as (who, radio):
                if life == 0:
                    await self.discover(who, radio)
                    await who.flows.ignore(who.flow_id)
                assert reason(await self.discover(who, radio)) == "ignored"
                (device,) = who.entries.ignored.list()
                assert (device.domain, device.title) == (self.domain, "Heard")
        async with self.world(tmp_path) as (who, radio):
            (device,) = who.entries.ignored.list()
            await who.entries.ignored.remove(device.domain, device.unique_id)
            assert form(await self.discover(who, radio)) == ("confirm", {})

    async def test_reauth(self, tmp_path: Path):
        async with self.world(tmp_path, is_bonded=True) as (who, radio):
            entry_id = await who.add(self.entry_for(radio.peer))
            result = await who.start("reauth", entry_id=entry_id)
            if self.needs_bond:
                assert menu(result) == (self.credentials, "pair")
                result = await who.choose(self.credentials)
            step, _ = form(result)
            names = {field["name"] for field in result.fields}
            wrong = {name: value for name, value in self.wrong.items() if name in names}
            right = {name: value for name, value in self.right.items() if name in names}
            assert form(await who.give(**wrong)) == (step, self.refusal)
            assert reason(await who.give(**right)) == "reauth_successful"
            assert set(right.items()) <= set(who.secrets().items())
            assert not radio.open

    async def test_away_and_busy_and_dead_are_told_apart(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            radio.is_in_range = False
            assert form(await who.give(**self.right)) == (self.credentials, {"base": "out_of_range"})
            radio.is_in_range = True
            self.fall_silent(radio.peer)
            assert form(await who.give(**self.right)) == (self.credentials, {"base": "no_answer"})
            assert not radio.open
            assert who.entries.records() == ()

    async def test_a_flow_that_dies_midway_leaves_no_connection(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):
            await self.to_credentials(who, radio)
            self.fall_silent(radio.peer)
            await who.begin(**self.right)
            async with asyncio.timeout(5):
                while not radio.open:
                    await asyncio.sleep(0.001)
            who.flows.cancel(who.flow_id)
            async with asyncio.timeout(5):
                while radio.open:
                    await asyncio.sleep(0.001)
            assert who.entries.records() == ()

    async def test_without_bluetooth_there_is_nothing_to_do(self, tmp_path: Path):
        async with running_flows(self.domain, tmp_path, None) as who:
            result = await who.start("discovery", address="C0:00:00:00:00:01")
            assert reason(result) == "no_bluetooth"

    async def test_discovery_of_nonsense(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, _):
            assert reason(await who.start("discovery")) == "not_a_mower"

    async def test_texts_for_every_step_and_failure(self):
        loaded = await Loader().load(self.domain)
        flow_class = loaded.flow_class
        assert flow_class is not None
        assert issubclass(flow_class, BluetoothMowerFlow)
        module = importlib.import_module(f"integrations.{self.domain}")
        assert module.__file__ is not None
        texts, _ = read_texts(Path(module.__file__).parent)
        assert compare(texts).status == "passed"
        wanted = {f"config.{key}" for key in flow_class.shared_texts()}
        assert wanted - texts["en"].keys() == set()
        failures = [kind for kind, _ in flow_class.failures]
        failures += [kind for kind in _leaves_of(IntegrationError) if kind.__module__ == "core.domain.errors"]
        for kind in failures:
            key = flow_class.failure_key(kind.__new__(kind))
            assert f"config.error.{key}" in texts["de"] or key in self.impossible, kind


class OptionsContract:
    """For flows whose `reconfigure` is the shared menu; beside BluetoothFlowContract."""

    options: ClassVar[dict[str, Any]]

    async def test_options(self, tmp_path: Path):
        async with self.world(tmp_path) as (who, radio):  # type: ignore[attr-defined]
            before = self.entry_for(radio.peer)  # type: ignore[attr-defined]
            entry_id = await who.add(before)
            assert menu(await who.start("reconfigure", entry_id=entry_id))[0] == "options"
            assert form(await who.choose("options")) == ("options", {})
            assert reason(await who.give(**self.options)) == "reconfigure_successful"
            after = who.entry()
            assert {**before.options, **self.options}.items() <= after.options.items(), "what is not shown stays"
            assert after.data == before.data
            assert radio.connections == 0

    async def test_a_new_pin(self, tmp_path: Path):
        async with self.world(tmp_path, is_bonded=True) as (who, radio):  # type: ignore[attr-defined]
            entry_id = await who.add(self.entry_for(radio.peer), pin="0000")  # type: ignore[attr-defined]
            await who.start("reconfigure", entry_id=entry_id)
            assert form(await who.choose("pin")) == ("pin", {})
            assert form(await who.give(**self.wrong)) == ("pin", {"pin": "wrong_pin"})  # type: ignore[attr-defined]
            assert who.secrets()["pin"] == "0000"
            assert reason(await who.give(**self.right)) == "reconfigure_successful"  # type: ignore[attr-defined]
            assert who.secrets()["pin"] == self.right["pin"]  # type: ignore[attr-defined]


def _leaves_of(kind: type[IntegrationError]) -> list[type[IntegrationError]]:
    return [kind, *(leaf for sub in kind.__subclasses__() for leaf in _leaves_of(sub))]
