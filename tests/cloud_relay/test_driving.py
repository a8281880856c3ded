"""Driving through the relay: real broker, real sockets, a box that writes down what it is told."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import msgspec
import pytest

from core.domain.capabilities import Drive
from core.domain.commands import CommandStatus, ManualDrive, PauseMow
from core.domain.drive import DriveEnd
from tests.cloud_relay.fake_box import connected_box
from tests.cloud_relay.relay_parts import ABILITIES, item
from tests.cloud_relay.running_relay import PASSWORD, running_relay

M1 = "mower-1"
DRIVABLE = msgspec.structs.replace(ABILITIES, manual_drive=Drive(max_speed_mps=0.5, motor_timeout_s=1.0))
COMMANDS = f"/fleet/mowers/{M1}/commands"
SESSIONS = f"/fleet/mowers/{M1}/drive-sessions"
DRIVE = {"command": {"kind": "manual_drive"}}


class Garden:
    """A relay with one account, its people and its box."""

    def __init__(self, relay, box, owner, account_id) -> None:
        self.relay, self.box, self.owner, self.account_id = relay, box, owner, account_id
        self.assignments: dict[str, str] = {}

    async def member(self, name: str, role: str) -> str:
        """The token of a new sub-user."""
        first = "the first one, to be changed"
        level = {"type": "account", "id": self.account_id}
        body = {"username": name, "password": first, "assignments": [{"role": role, "level": level}]}
        status, user = await self.relay.call(self.owner, "POST", f"/identity/accounts/{self.account_id}/users", body)
        assert status == 201, user
        _, pair = await self.relay.call(None, "POST", "/identity/session", {"username": name, "password": first})
        change = {"current_password": first, "new_password": PASSWORD}
        assert (await self.relay.call(pair["access_token"], "POST", "/identity/me/password", change))[0] == 204
        _, pair = await self.relay.call(None, "POST", "/identity/session", {"username": name, "password": PASSWORD})
        _, given = await self.relay.call(self.owner, "GET", f"/identity/accounts/{self.account_id}/role-assignments")
        self.assignments |= {a["user_id"]: a["assignment_id"] for a in given["items"]}
        self.assignments[name] = self.assignments[user["user_id"]]
        return str(pair["access_token"])

    async def sit_down(self, token: str) -> str:
        """An open session, as the box would begin it; its id."""
        status, issued = await self.relay.call(token, "POST", COMMANDS, DRIVE)
        assert status == 202, issued
        envelope = await self.box.command(issued["command_id"])
        assert envelope.command == ManualDrive()
        assert (envelope.expires_at - envelope.issued_at).total_seconds() == 2
        await self.box.say_result(envelope, CommandStatus.ACCEPTED)
        await self.relay.until(
            token, SESSIONS, lambda s: [one["session_id"] for one in s["items"]] == [issued["command_id"]]
        )
        return str(issued["command_id"])

    @asynccontextmanager
    async def socket(self, token: str):
        async with self.relay.session.ws_connect(f"{self.relay.url}/api/v1/realtime/ws") as socket:
            await socket.send_json({"type": "auth", "token": token})
            assert (await socket.receive_json(timeout=10))["type"] == "ready"
            yield Stick(socket)


class Stick:
    """A joystick on a socket."""

    def __init__(self, socket) -> None:
        self.socket = socket
        self.sequence = 0

    async def push(self, linear: float = 0.5, **fields) -> None:
        self.sequence += 1
        frame = {"sequence": self.sequence, "linear": linear, "angular": 0.0, **fields}
        await self.socket.send_str(json.dumps({"type": "drive", "mower_id": M1, "frame": frame}))

    async def error(self) -> tuple[str, str]:
        message = await self.socket.receive_json(timeout=10)
        assert message["type"] == "error", message
        return message["code"], message["detail"]


@pytest.fixture
async def garden(tmp_path):
    async with running_relay(tmp_path) as relay:
        owner = await relay.sign_up("anna")
        grant = await relay.link(owner, "fingerprint-of-box-1")
        async with connected_box(grant) as box:
            await box.say_hello(item(M1, abilities=DRIVABLE))
            await relay.until(owner, f"/fleet/mowers/{M1}", lambda m: m["is_edge_online"])
            yield Garden(relay, box, owner, grant.account_id)


async def test_one_person_drives_and_anybody_may_end_it(garden):
    relay, box = garden.relay, garden.box
    olga, otto = await garden.member("olga", "operator"), await garden.member("otto", "operator")
    viewer = await garden.member("vera", "viewer")
    session_id = await garden.sit_down(olga)
    [session] = (await relay.call(viewer, "GET", SESSIONS))[1]["items"]
    assert session["driver"]["display"] == "olga"

    async with garden.socket(olga) as stick, garden.socket(otto) as other, garden.socket(viewer) as looker:
        await stick.push(0.5)
        await stick.push(-1.0, ttl_ms=300)
        told = await box.until_drives(lambda found: len(found) == 2)
        assert {message.session_id for message in told} == {session_id}
        assert [(m.frame.sequence, m.frame.linear, m.frame.ttl_ms) for m in told] == [(1, 0.5, 500), (2, -1.0, 300)]
        assert told[0].frame.sent_ms <= told[1].frame.sent_ms

        status, problem = await relay.call(otto, "POST", COMMANDS, DRIVE)
        assert (status, problem["detail"]) == (409, "olga is driving this mower")
        assert (await relay.call(viewer, "POST", COMMANDS, DRIVE))[0] == 403
        for stranger in (other, looker):
            await stranger.push()
            assert await stranger.error() == ("unauthorized", "no drive session is open")
        await stick.push(1.5)
        assert (await stick.error())[0] == "invalid_message"

        assert (await relay.call(viewer, "DELETE", f"{SESSIONS}/{session_id}"))[0] == 204
        told = await box.until_drives(lambda found: len(found) == 3)
        assert (told[2].end, told[2].detail, told[2].frame) == (DriveEnd.PERSON, "vera", None)
        assert (await relay.call(viewer, "GET", SESSIONS))[1] == {"items": []}
        await stick.push()
        assert await stick.error() == ("unauthorized", "no drive session is open")
        assert (await relay.call(viewer, "DELETE", f"{SESSIONS}/{session_id}"))[0] == 404
    assert len(box.drives()) == 3
    _, commands = await relay.call(olga, "GET", COMMANDS)
    assert [c["status"] for c in commands["items"]] == ["accepted"], "the refused ones left no row"


async def test_frames_pass_only_between_the_boxs_first_and_last_word(garden):
    relay, box = garden.relay, garden.box
    _, issued = await relay.call(garden.owner, "POST", COMMANDS, DRIVE)
    async with garden.socket(garden.owner) as stick:
        await stick.push()
        assert (await stick.error())[0] == "unauthorized"
        envelope = await box.command(issued["command_id"])
        await box.say_result(envelope, CommandStatus.ACCEPTED)
        await relay.until(garden.owner, SESSIONS, lambda s: s["items"])
        await stick.push()
        assert [m.frame.sequence for m in await box.until_drives(lambda found: len(found) == 1)] == [2]
        await box.say_result(envelope, CommandStatus.EXECUTED)
        await relay.until(garden.owner, SESSIONS, lambda s: not s["items"])
        await stick.push()
        assert (await stick.error())[0] == "unauthorized"
    await garden.sit_down(garden.owner)
    assert [m.frame is not None for m in box.drives()] == [True], "a session that is over is not ended once more"


async def test_the_end_of_the_connection_is_told_to_the_box(garden):
    session_id = await garden.sit_down(garden.owner)
    async with garden.socket(garden.owner) as stick:
        await stick.push()
        await garden.box.until_drives(lambda found: len(found) == 1)
        # another command of the mower moves on meanwhile
        _, pause = await garden.relay.call(garden.owner, "POST", COMMANDS, {"command": {"kind": "pause_mow"}})
        envelope = await garden.box.command(pause["command_id"])
        assert envelope.command == PauseMow()
        await garden.box.say_result(envelope, CommandStatus.REJECTED)
        await garden.relay.until(
            garden.owner, f"/fleet/commands/{pause['command_id']}", lambda c: c["status"] == "rejected"
        )
        stick.socket._response.connection.transport.abort()
    told = await garden.box.until_drives(lambda found: len(found) == 2)
    assert (told[1].session_id, told[1].end) == (session_id, DriveEnd.DISCONNECTED)
    assert (await garden.relay.call(garden.owner, "GET", SESSIONS))[1] == {"items": []}


async def test_a_right_that_is_taken_away_ends_the_drive(garden):
    olga = await garden.member("olga", "operator")
    session_id = await garden.sit_down(olga)
    async with garden.socket(olga) as stick:
        await stick.push()
        await garden.box.until_drives(lambda found: len(found) == 1)
        path = f"/identity/accounts/{garden.account_id}/role-assignments/{garden.assignments['olga']}"
        status, answer = await garden.relay.call(garden.owner, "DELETE", path)
        assert status == 204, answer
        await stick.push()
        assert await stick.error() == ("unauthorized", "the driver may not drive any more")
    told = await garden.box.until_drives(lambda found: len(found) >= 2)
    assert [(m.session_id, m.end) for m in told[1:]] == [(session_id, DriveEnd.RIGHT_LOST)]


async def test_more_frames_than_anybody_needs_are_refused(garden):
    await garden.sit_down(garden.owner)
    async with garden.socket(garden.owner) as stick:
        for _ in range(60):
            await stick.push()
        assert await stick.error() == ("limit_exceeded", "too many frames")
        await stick.socket.send_json({"type": "ping", "request_id": "all handled"})
        async with asyncio.timeout(10):
            while (await stick.socket.receive_json())["type"] != "pong":
                pass
    told = await garden.box.until_drives(lambda found: found[-1:] != [] and found[-1].end is not None)
    assert 10 <= len(told) - 1 < 40


async def test_the_same_person_begins_again(garden):
    first = await garden.sit_down(garden.owner)
    second = await garden.sit_down(garden.owner)
    assert first != second
    async with garden.socket(garden.owner) as stick:
        await stick.push()
        told = await garden.box.until_drives(lambda found: len(found) == 1)
        assert told[0].session_id == second


async def test_a_stranger_finds_nothing(garden):
    session_id = await garden.sit_down(garden.owner)
    bert = await garden.relay.sign_up("bert")
    assert (await garden.relay.call(bert, "GET", SESSIONS))[0] == 404
    assert (await garden.relay.call(bert, "DELETE", f"{SESSIONS}/{session_id}"))[0] == 404
    async with garden.socket(bert) as stick:
        await stick.push()
        assert await stick.error() == ("unauthorized", "no drive session is open")
    assert garden.box.drives() == []
