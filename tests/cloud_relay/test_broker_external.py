"""An external Mosquitto with the dynamic security plugin: the same rules as with the relay's own."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloud_relay.broker import dynamic_security
from cloud_relay.broker.external import ExternalMosquitto
from core.domain.errors import InvalidInputError, UnauthenticatedError, UnavailableError
from core.domain.ids import EdgeId
from core.mqtt.session import BrokerAddress, Credential
from core.sync import linking
from tests.cloud_relay.broker_rules import box, check_branches, check_retained
from tests.fakes.mosquitto import Mosquitto, free_port, running_mosquitto

A, B = EdgeId("edge-a"), EdgeId("edge-b")
ADMIN = Credential(username="admin", password="admin word")
PLUGINS = list(Path("/usr/lib").glob("*/mosquitto_dynamic_security.so"))

pytestmark = pytest.mark.skipif(not PLUGINS, reason="the dynamic security plugin is not installed")


def make(port: int, answer_s: float = 10.0) -> ExternalMosquitto:
    return ExternalMosquitto(
        address=BrokerAddress(host="127.0.0.1", port=port),
        credential=ADMIN,
        advertised=linking.BrokerAddress(host="broker.example", port=8883, tls=True),
        random_number=lambda: 0.01,
        answer_s=answer_s,
    )


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    config = tmp_path / "security.json"
    await asyncio.to_thread(
        subprocess.run,
        ["mosquitto_ctrl", "dynsec", "init", str(config), ADMIN.username, ADMIN.password],
        check=True,
        capture_output=True,
    )
    lines = [f"plugin {PLUGINS[0]}", f"plugin_opt_config_file {config}", "per_listener_settings false"]
    async with running_mosquitto(tmp_path, lines=lines) as running:
        yield running


@pytest.fixture
async def broker(server: Mosquitto) -> AsyncIterator[ExternalMosquitto]:
    async with asyncio.TaskGroup() as group:
        made = make(server.port)
        task = group.create_task(made.run(), name="broker")
        async with asyncio.timeout(10):
            await made.wait_ready()
        yield made
        task.cancel()


async def test_a_box_touches_its_own_branch_only(broker: ExternalMosquitto) -> None:
    await broker.put_edge(A, "password a")
    await broker.put_edge(B, "password b")
    await check_branches(broker, (A, "password a"), (B, "password b"))


async def test_retained_registrations_reach_their_box_only(broker: ExternalMosquitto) -> None:
    await broker.put_edge(A, "password a")
    await broker.put_edge(B, "password b")
    await check_retained(broker, (A, "password a"), (B, "password b"))


async def test_a_removed_box_is_out_at_once_and_the_others_stay(broker: ExternalMosquitto) -> None:
    await broker.put_edge(A, "password a")
    await broker.put_edge(B, "password b")
    async with box(broker, A, "password a") as a, box(broker, B, "password b") as b:
        await broker.remove_edge(A)
        await broker.remove_edge(A)  # again: nothing to do
        async with asyncio.timeout(2):
            await a.wait_closed()
        await b.publish(f"mowdeck/v1/edges/{B}/up/hello", b"", qos=1)
    with pytest.raises(UnauthenticatedError):
        async with box(broker, A, "password a"):
            pass


async def test_a_new_password_replaces_the_old_one_and_its_sessions(broker: ExternalMosquitto) -> None:
    await broker.put_edge(A, "password a")
    async with box(broker, A, "password a") as a:
        await broker.put_edge(A, "new")
        async with asyncio.timeout(2):
            await a.wait_closed()
    async with box(broker, A, "new"):
        pass


async def test_the_boxes_are_those_of_the_relay_after_a_sync(broker: ExternalMosquitto) -> None:
    await broker.put_edge(A, "password a")
    await broker.put_edge(B, "password b")
    lost = EdgeId("lost")
    assert await broker.sync_edges({A: None, lost: None}) == {lost}
    async with box(broker, A, "password a"):
        pass
    with pytest.raises(UnauthenticatedError):
        async with box(broker, B, "password b"):
            pass


async def test_boxes_survive_a_killed_broker(server: Mosquitto, broker: ExternalMosquitto) -> None:
    await broker.put_edge(A, "password a")
    await server.kill()
    with pytest.raises(UnavailableError):
        await broker.put_edge(B, "password b")
    await server.start()
    async with box(broker, A, "password a"):
        pass


async def test_the_relays_own_user_is_no_box(broker: ExternalMosquitto) -> None:
    with pytest.raises(InvalidInputError):
        await broker.put_edge(EdgeId(ADMIN.username), "x")
    await broker.remove_edge(EdgeId(ADMIN.username))
    assert await broker.sync_edges({}) == frozenset()


async def test_a_broker_without_the_plugin_is_told_how_to_enable_it(tmp_path: Path) -> None:
    async with running_mosquitto(tmp_path) as plain:
        with pytest.raises(UnavailableError) as caught:
            await make(plain.port, answer_s=0.2).put_edge(A, "x")
    assert "mosquitto_ctrl dynsec init" in caught.value.advice


async def test_a_broker_that_is_away_is_waited_for(tmp_path: Path) -> None:
    broker = make(free_port())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(broker.run(), name="broker")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(broker.wait_ready(), 0.2)
        with pytest.raises(UnavailableError):
            await broker.sync_edges({})
        task.cancel()


def test_commands_are_plain_json() -> None:
    assert json.loads(json.dumps(dynamic_security._edge_rights(A)))[0]["allow"] is True
