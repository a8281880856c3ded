"""The forms, against emulated mowers over HTTP and behind a GATT connection."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import voluptuous as vol

import integrations.ardumower
from core.domain.clock import SystemClock
from core.domain.errors import EntryError
from core.domain.ids import EntryId, FlowId
from core.domain.mower import LinkKind
from core.platform.fields import serialize_schema
from core.platform.flow import (
    AbortFlowError,
    AbortResult,
    CreateEntryResult,
    FlowContext,
    FormResult,
    MenuResult,
)
from core.platform.integration import Entry
from core.platform.loader import Loader
from core.platform.manifest import Manifest, read_manifest
from integrations.ardumower.config_flow import (
    BLE_RECONFIGURE_SCHEMA,
    LAN_SCHEMA,
    PASSWORD_SCHEMA,
    REAUTH_SCHEMA,
    ArdumowerFlow,
)
from integrations.ardumower.emulated_http import serve
from integrations.ardumower.emulator import SunrayPeer
from integrations.ardumower.occupancy import hold
from integrations.ardumower.responder import SunrayBrain
from integrations.ardumower.settings import ArdumowerSettings, read_password, read_url
from tests.integrations.ardumower.peers import ADDRESS, MemoryPort, ble_entry, lan_entry

FOLDER = Path(integrations.ardumower.__file__).parent
ROBOT_ID = "0a1b2c3d4e5f"


def manifest() -> Manifest:
    return read_manifest(FOLDER)


class Director:
    """What the flow asks of the director."""

    def __init__(self, *taken: str) -> None:
        self.claimed: list[str] = []
        self.updated: dict[str, Any] = {}
        self.taken = taken

    async def claim_unique_id(self, flow_id, unique_id, *, updates, raise_on_progress, same=None):
        if unique_id in self.taken:
            raise AbortFlowError("already_configured")
        self.claimed.append(unique_id)

    async def update_entry(self, entry, *, title, data, options, secrets, unique_id=None):
        self.updated = {"title": title, "data": data, "options": options, "secrets": secrets}


@asynccontextmanager
async def flow(
    director: Director,
    *,
    entry: Entry | None = None,
    source: Any = "user",
    details: dict[str, Any] | None = None,
    port: MemoryPort | None = None,
) -> AsyncIterator[ArdumowerFlow]:
    async with aiohttp.ClientSession() as session:

        async def http() -> aiohttp.ClientSession:
            return session

        yield ArdumowerFlow(
            FlowContext(
                flow_id=FlowId("f1"),
                domain="ardumower",
                source=source,
                details=details or {},
                entry=entry,
                clock=SystemClock(),
                log=logging.LoggerAdapter(logging.getLogger("flow"), {}),
                http=http,
                port=director,
                bluetooth=port,
            )
        )


def made(result: CreateEntryResult, unique_id: str | None) -> Entry:
    return Entry(
        entry_id=EntryId("e9"),
        domain="ardumower",
        unique_id=unique_id,
        title=result.title,
        data=result.data,
        options=result.options,
    )


async def test_a_person_chooses_the_path():
    async with flow(Director()) as subject:
        menu = await subject.step_user(None)
        assert isinstance(menu, MenuResult)
        assert menu.options == ("lan", "ble")


async def test_a_mower_on_the_network():
    director = Director()
    async with serve(SunrayBrain()) as mower, flow(director) as subject:
        form = await subject.step_lan(None)
        assert isinstance(form, FormResult)
        assert form.errors == {}
        given = {"name": " Rob ", "host": mower.url, "password": "123456", "datum_lat": 52.5, "datum_lon": 13.4}
        result = await subject.step_lan(LAN_SCHEMA({**given, "areas": "Front: 0 0, 9 0, 9 9"}))
        assert isinstance(result, CreateEntryResult)
        assert director.claimed == [ROBOT_ID]
        assert result.secrets == {"password": "123456"}
        assert "123456" not in repr({**result.data, **result.options})
        settings = ArdumowerSettings.of(made(result, ROBOT_ID))
        assert (settings.link, settings.url, settings.name, settings.serial) == (
            LinkKind.LAN,
            mower.url,
            "Rob",
            ROBOT_ID,
        )
        assert settings.frame.datum is not None
        assert [patch.area_id for patch in settings.patches] == ["front"]
        assert not any(body.startswith(("AT+C", "AT+M")) for body in mower.brain.heard)


async def test_a_mower_without_an_id_is_known_by_its_host():
    director = Director()
    brain = SunrayBrain()
    brain.faults.has_old_firmware = True
    async with serve(brain) as mower, flow(director) as subject:
        result = await subject.step_lan(LAN_SCHEMA({"host": mower.url, "password": "123456"}))
        assert isinstance(result, CreateEntryResult)
        assert director.claimed == [f"lan-{mower.url[7:-1]}"]


async def test_a_wrong_password_stands_beside_its_field(caplog: pytest.LogCaptureFixture):
    director = Director()
    with caplog.at_level(logging.DEBUG):
        async with serve(SunrayBrain()) as mower, flow(director) as subject:
            form = await subject.step_lan(LAN_SCHEMA({"host": mower.url, "password": "87654321"}))
            assert isinstance(form, FormResult)
            assert form.errors == {"password": "invalid_auth"}
            assert director.claimed == []
            assert "87654321" not in json.dumps(list(form.fields))
            result = await subject.step_lan(LAN_SCHEMA({"host": mower.url, "password": "123456"}))
            assert isinstance(result, CreateEntryResult), "another try"
    assert "87654321" not in caplog.text


async def test_what_is_no_mower():
    async with serve(SunrayBrain()) as mower, flow(Director()) as subject:
        mower.body = b"<html>"
        form = await subject.step_lan(LAN_SCHEMA({"host": mower.url}))
        assert isinstance(form, FormResult)
        assert form.errors == {"host": "no_answer"}
        mower.status = 404
        form = await subject.step_lan(LAN_SCHEMA({"host": mower.url}))
        assert isinstance(form, FormResult)
        assert form.errors == {"host": "cannot_connect"}


@pytest.mark.parametrize(
    ("wrong", "errors"),
    [
        ({"host": "https://mower/"}, {"host": "invalid_host"}),
        ({"host": "http://user:pw@mower/"}, {"host": "invalid_host"}),
        ({"host": "mower/path"}, {"host": "invalid_host"}),
        ({"host": " "}, {"host": "invalid_host"}),
        ({"password": "geheim"}, {"password": "invalid_password"}),
        ({"password": "99999999999"}, {"password": "invalid_password"}),
        ({"name": "  "}, {"name": "invalid_name"}),
        ({"datum_lat": 52.5}, {"datum_lon": "half_a_place"}),
        ({"datum_lon": 13.4}, {"datum_lat": "half_a_place"}),
        ({"datum_lat": float("nan"), "datum_lon": 13.4}, {"datum_lat": "invalid_place"}),
        ({"rotation_deg": float("nan")}, {"rotation_deg": "invalid_rotation"}),
        ({"areas": "Front"}, {"areas": "invalid_areas"}),
    ],
)
async def test_mistakes_stand_beside_their_fields(wrong, errors):
    async with flow(Director()) as subject:
        form = await subject.step_lan({**LAN_SCHEMA({"host": "mower.invalid"}), **wrong})
        assert isinstance(form, FormResult)
        assert form.errors == errors


async def test_the_same_mower_is_not_added_twice():
    async with serve(SunrayBrain()) as mower, flow(Director(ROBOT_ID)) as subject:
        with pytest.raises(AbortFlowError, match="already_configured"):
            await subject.step_lan(LAN_SCHEMA({"host": mower.url}))


async def test_the_password_again():
    director = Director()
    async with AsyncExitStack() as stack:
        mower = await stack.enter_async_context(serve(SunrayBrain(password=777)))
        subject = await stack.enter_async_context(flow(director, entry=lan_entry(mower.url), source="reauth"))
        assert isinstance(await subject.step_reauth(None), FormResult)
        for given, error in (("123456", "invalid_auth"), ("x", "invalid_password")):
            form = await subject.step_reauth(REAUTH_SCHEMA({"password": given}))
            assert isinstance(form, FormResult)
            assert form.errors == {"password": error}
        mower.status = 500
        form = await subject.step_reauth(REAUTH_SCHEMA({"password": "777"}))
        assert isinstance(form, FormResult)
        assert form.errors == {"base": "cannot_connect"}
        mower.status = 200
        result = await subject.step_reauth(REAUTH_SCHEMA({"password": "777"}))
        assert isinstance(result, AbortResult)
        assert result.reason == "reauth_successful"
    assert director.updated == {"title": None, "data": None, "options": None, "secrets": {"password": "777"}}


GARDEN = {"cells": 7, "rotation_deg": 0.0}


async def test_a_new_address():
    director = Director()
    async with serve(SunrayBrain()) as mower:
        entry = lan_entry("http://192.0.2.7/", datum={"lat": 52.5, "lon": 13.4}, areas="A: 0 0, 1 0, 1 1")
        async with flow(director, entry=entry, source="reconfigure") as subject:
            form = await subject.step_reconfigure(None)
            assert isinstance(form, FormResult)
            shown = {field["name"]: field.get("suggested_value") for field in form.fields}
            assert (shown["host"], shown["datum_lat"], shown["areas"]) == (
                "http://192.0.2.7/",
                52.5,
                "A: 0 0, 1 0, 1 1",
            )
            result = await subject.step_reconfigure({**GARDEN, "host": mower.url, "cells": 8})
            assert isinstance(result, AbortResult)
    assert director.updated["data"]["url"] == mower.url
    assert director.updated["options"] == {"cells": 8, "datum": None, "rotation_deg": 0.0, "areas": ""}
    assert director.updated["secrets"] == {}


async def test_a_new_address_where_another_mower_lives():
    entry = lan_entry("http://192.0.2.7/")
    async with (
        serve(SunrayBrain(robot_id="ff:ff:ff:00:00:01")) as mower,
        flow(Director(), entry=entry, source="reconfigure") as subject,
    ):
        form = await subject.step_reconfigure({**GARDEN, "host": mower.url})
        assert isinstance(form, FormResult)
        assert form.errors == {"host": "another_mower"}


async def test_a_new_password_is_tried_before_it_is_kept():
    director = Director()
    async with AsyncExitStack() as stack:
        mower = await stack.enter_async_context(serve(SunrayBrain()))
        subject = await stack.enter_async_context(flow(director, entry=lan_entry(mower.url), source="reconfigure"))
        form = await subject.step_reconfigure({**GARDEN, "host": mower.url, "password": "1"})
        assert isinstance(form, FormResult)
        assert form.errors == {"password": "invalid_auth"}
        assert director.updated == {}
        assert isinstance(await subject.step_reconfigure({**GARDEN, "host": mower.url}), AbortResult)


async def test_a_mower_in_use_over_bluetooth_takes_no_second_connection():
    director = Director()
    port = MemoryPort(SunrayPeer(ADDRESS, SunrayBrain()))
    async with flow(director, entry=ble_entry(), source="reconfigure", port=port) as subject:
        with hold("ble-c01122334455"):
            assert isinstance(
                await subject.step_reconfigure({**GARDEN, "address": ADDRESS, "password": "123456"}), AbortResult
            )
    assert port.connections == []
    assert director.updated["secrets"] == {"password": "123456"}


# -- settings


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("192.0.2.7", "http://192.0.2.7/"),
        (" Mower.local:8080 ", "http://mower.local:8080/"),
        ("http://192.0.2.7:80", "http://192.0.2.7/"),
        ("[2001:db8::1]", "http://[2001:db8::1]/"),
        ("http://[2001:db8::1]:81/", "http://[2001:db8::1]:81/"),
    ],
)
def test_addresses_on_the_network(text: str, url: str):
    assert read_url(text) == url
    assert read_url(url) == url


@pytest.mark.parametrize(
    "text",
    ["", "https://x", "ftp://x", "x:0", "x:99999", "a b", "x/../y", "x?y", "x#y", "u@x", "[::1", "http://", "x\r\ny"],
)
def test_what_is_no_address_on_the_network(text: str):
    with pytest.raises(vol.Invalid):
        read_url(text)


def test_passwords():
    assert read_password(" 0042 ") == 42
    for wrong_password in (None, "", "-1", "²", "1.5", "9" * 11, str(2**31)):
        with pytest.raises(vol.Invalid) as caught:
            read_password(wrong_password)
        assert not wrong_password or wrong_password not in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [{}, {"link": "cloud"}, {"link": "lan"}, {"link": "ble", "url": "http://x/"}, {"link": "lan", "url": "https://x"},
     {"link": "lan", "url": "x", "cells": 0}, {"link": "lan", "url": "x", "datum": {"lat": 90, "lon": 0}},
     {"link": "lan", "url": "x", "areas": "nonsense"}, {"link": "lan", "url": "x", "colour": "red"}],
)  # fmt: skip
def test_entries_that_cannot_load(data):
    with pytest.raises(EntryError):
        ArdumowerSettings.of(Entry(entry_id=EntryId("e1"), domain="ardumower", unique_id=None, title="x", data=data))


# -- the folder


async def test_it_loads():
    assert [str(link) for link in manifest().links] == ["lan", "ble"]
    loaded = await Loader().load("ardumower")
    assert loaded.flow_class is ArdumowerFlow


def test_every_word_of_the_forms_has_a_text():
    strings = json.loads((FOLDER / "strings.json").read_text())["config"]
    for step, schema in (("lan", LAN_SCHEMA), ("password", PASSWORD_SCHEMA), ("reauth", REAUTH_SCHEMA)):
        assert {field["name"] for field in serialize_schema(schema)} == set(strings["step"][step]["data"])
    fields = {field["name"] for schema in (BLE_RECONFIGURE_SCHEMA, LAN_SCHEMA) for field in serialize_schema(schema)}
    assert fields - {"name"} == set(strings["step"]["reconfigure"]["data"])
