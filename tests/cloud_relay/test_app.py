"""The whole relay with its real broker: a box is linked, says hello, obeys, is stopped, and is unlinked."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import aiohttp
import pytest

from cloud_relay.app import run
from cloud_relay.settings import RelaySettings
from core.domain.commands import CommandStatus, EmergencyStop, Priority, StartMow
from core.domain.errors import SettingsError, StorageError, UnauthenticatedError
from core.domain.mower import Activity, Connectivity, MowerState
from core.sync.topics import DOWN_STOP
from core.web.serving import bind
from tests.cloud_relay.fake_box import connected_box
from tests.cloud_relay.relay_parts import item
from tests.cloud_relay.running_relay import running_relay

M1 = "mower-1"


@pytest.fixture
async def relay(tmp_path):
    async with running_relay(tmp_path) as running:
        yield running


async def see(socket, is_it):
    async with asyncio.timeout(15):
        async for frame in socket:
            message = json.loads(frame.data)
            if is_it(message):
                return message
    raise AssertionError("the socket closed")


async def test_from_link_to_unlink(relay):
    owner, stranger = await relay.sign_up("anna"), await relay.sign_up("bert")
    grant = await relay.link(owner, "fingerprint-of-box-1")
    async with connected_box(grant) as box:
        await box.registrations(lambda r: r.mowers == ())
        await box.say_hello(item(M1))
        adopted = await box.registrations(lambda r: len(r.mowers) == 1)
        assert (adopted.mowers[0].mower_id, adopted.account_id) == (M1, grant.account_id)
        mower = await relay.until(owner, f"/fleet/mowers/{M1}", lambda m: m["is_edge_online"])
        assert (mower["serial"], mower["edge_id"]) == ("S1", grant.edge_id)

        async with relay.session.ws_connect(f"{relay.url}/api/v1/realtime/ws") as socket:
            await socket.send_json({"type": "auth", "token": owner})
            await see(socket, lambda m: m["type"] == "ready")
            await socket.send_json({"type": "subscribe", "mower_ids": [M1]})
            await see(socket, lambda m: m["type"] == "subscribed")
            state = MowerState(
                observed_at=datetime.now(UTC), activity=Activity.DOCKED, connectivity=Connectivity.ONLINE
            )
            await box.say_state(M1, state)
            seen = await see(socket, lambda m: m["type"] == "state")
            assert seen["state"]["activity"] == "docked"

            path = f"/fleet/mowers/{M1}/commands"
            body = {"command": {"kind": "start_mow", "area_ids": ["front"]}}
            status, accepted = await relay.call(owner, "POST", path, body)
            assert (status, accepted["status"]) == (202, "pending")
            envelope = await box.command(accepted["command_id"])
            assert envelope.command == StartMow(area_ids=("front",))
            assert (envelope.account_id, envelope.edge_id) == (grant.account_id, grant.edge_id)
            await box.say_result(envelope, CommandStatus.ACCEPTED)
            await box.say_result(envelope, CommandStatus.EXECUTED)
            for word in ("accepted", "executed"):
                heard = await see(socket, lambda m: m["type"] == "command_result")
                assert heard["status"] == word
            _, view = await relay.call(owner, "GET", f"/fleet/commands/{accepted['command_id']}")
            assert view["status"] == "executed"

            status, stop = await relay.call(owner, "POST", path, {"command": {"kind": "emergency_stop"}})
            assert status == 202
            stopping = await box.command(stop["command_id"], DOWN_STOP)
            assert (stopping.command, stopping.priority) == (EmergencyStop(), Priority.EMERGENCY)
            assert await box.command(stop["command_id"]) == stopping

            assert (await relay.call(stranger, "GET", f"/fleet/mowers/{M1}"))[0] == 404
            assert (await relay.call(stranger, "POST", path, body))[0] == 404

            assert (await relay.call(owner, "DELETE", f"/fleet/edges/{grant.edge_id}"))[0] == 204
            await box.registrations(lambda r: not r.is_linked)
            await box.wait_closed()
    with pytest.raises(UnauthenticatedError):
        async with connected_box(grant):
            pass
    _, mower = await relay.call(owner, "GET", f"/fleet/mowers/{M1}")
    assert mower["edge_id"] is None
    again = await relay.link(owner, "fingerprint-of-box-1")
    async with connected_box(again) as box:
        await box.say_hello(item(M1))
        await relay.until(owner, f"/fleet/mowers/{M1}", lambda m: m["edge_id"] == again.edge_id)


async def test_the_box_ends_the_link_and_its_last_will_is_heard(relay):
    owner = await relay.sign_up("anna")
    grant = await relay.link(owner, "fingerprint-of-box-1")
    path = f"/fleet/edges/{grant.edge_id}"
    async with connected_box(grant) as box:
        await box.say_hello()
        await relay.until(owner, path, lambda e: e["is_online"] and e["mowdeck_version"] == "0.1.0")
        box.cut()
    await relay.until(owner, path, lambda e: e["is_online"] is False)
    end = {"edge_id": grant.edge_id, "credential": grant.credential}
    assert (await relay.call(None, "DELETE", "/edges/link", end))[0] == 204
    assert (await relay.call(owner, "GET", path))[0] == 404


async def test_registered_mower_is_set_up_by_the_box_and_removed_again(relay):
    owner = await relay.sign_up("anna")
    grant = await relay.link(owner, "fingerprint-of-box-1")
    body = {"name": "Shaun", "edge_id": grant.edge_id, "domain": "simulator", "connection": {"time_scale": 30}}
    status, mower = await relay.call(owner, "POST", "/fleet/mowers", body)
    assert status == 201
    async with connected_box(grant) as box:  # offline until now: the list is retained
        registered = await box.registrations(lambda r: len(r.mowers) == 1)
        assert registered.mowers[0].connection == {"time_scale": 30}
        await box.say_hello(item(mower["mower_id"]))
        await relay.until(owner, f"/fleet/mowers/{mower['mower_id']}", lambda m: m["serial"] == "S1")
        assert (await relay.call(owner, "DELETE", f"/fleet/mowers/{mower['mower_id']}"))[0] == 204
        await box.registrations(lambda r: r.removed == (mower["mower_id"],))


async def test_sockets_hear_that_the_relay_ends(tmp_path):
    async with aiohttp.ClientSession() as session:
        async with running_relay(tmp_path) as relay:
            token = await relay.sign_up("anna")
            socket = await session.ws_connect(f"{relay.url}/api/v1/realtime/ws")
            await socket.send_json({"type": "auth", "token": token})
            await see(socket, lambda m: m["type"] == "ready")
            hearing = asyncio.create_task(socket.receive())
        async with asyncio.timeout(10):
            await hearing
        assert socket.close_code == 1001
        await socket.close()
    assert not (tmp_path / "relay" / "relay.address").exists()


async def test_what_was_linked_survives_a_restart(tmp_path):
    async with running_relay(tmp_path) as relay:
        owner = await relay.sign_up("anna")
        grant = await relay.link(owner, "fingerprint-of-box-1")
        async with connected_box(grant) as box:
            await box.say_hello(item(M1))
            await relay.until(owner, f"/fleet/mowers/{M1}", lambda m: m["is_edge_online"])
    async with running_relay(tmp_path) as relay:
        port = relay.relay._broker.address.port
        moved = grant.__class__(
            edge_id=grant.edge_id,
            account_id=grant.account_id,
            broker=type(grant.broker)(host="127.0.0.1", port=port, tls=False),
            credential=grant.credential,
            relay_keys=grant.relay_keys,
            relay_url=relay.url,
        )
        async with connected_box(moved) as box:
            await box.say_hello(item(M1))
            await relay.until(owner, f"/fleet/mowers/{M1}", lambda m: m["is_edge_online"])
            path = f"/fleet/mowers/{M1}/commands"
            _, accepted = await relay.call(owner, "POST", path, {"command": {"kind": "pause_mow"}})
            await box.command(accepted["command_id"])  # signed with the key that was pinned before


async def test_one_clear_error_for_a_part_that_cannot_start(tmp_path):
    settings = RelaySettings(data_dir=tmp_path, listen_port=0, broker_port=0, broker_binary="no-such-program")
    with pytest.raises(SettingsError, match="no-such-program"):
        await run(settings)
    with bind("127.0.0.1", 0, section="relay") as taken:
        taken.listen()
        with pytest.raises(SettingsError, match="cannot listen"):
            await run(RelaySettings(data_dir=tmp_path, listen_port=taken.getsockname()[1], broker_port=0))


async def test_a_second_relay_on_the_same_folder_does_not_touch_the_first(tmp_path):
    async with running_relay(tmp_path) as first:
        with pytest.raises(StorageError, match="another relay runs on"):
            await run(RelaySettings(data_dir=tmp_path / "relay", listen_port=0, broker_port=0))
        assert (await first.call(None, "GET", "/identity/register"))[0] == 200
        assert first.relay._gateway.is_connected


async def test_readiness_costs_next_to_nothing(tmp_path):
    """It needs no token: counting all rows for it would let strangers keep the readers of the store busy."""
    async with running_relay(tmp_path) as relay:
        counted = relay.relay._store.counts
        asked = []

        async def counts():
            asked.append(True)
            return await counted()

        relay.relay._store.counts = counts
        async with relay.session.get(f"{relay.url}/health/ready") as answer:
            assert answer.status == 200
        assert asked == []
