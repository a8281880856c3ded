"""`mowdeck drive` against a host: it begins a session, sends frames while keys come, and always ends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from core.command_line.drive import drive_by_keys
from core.command_line.joystick import Stick
from core.domain.errors import ConflictError
from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import MOWERS, FakeHost, problem

SHAUN = MOWERS[0]
COMMANDS, SESSION = "POST /fleet/mowers/01abc/commands", "DELETE /fleet/mowers/01abc/drive-sessions/c1"
MANUAL = {"type": "state", "mower_id": "01abc", "state": {"activity": "manual"}}


@pytest.fixture
def keyboard() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


class Talk:
    """The host's side of one drive."""

    def __init__(self, writing: int, **last: Any) -> None:
        self.frames: list[dict[str, Any]] = []
        self._writing = writing
        self._last = last

    async def __call__(self, socket: web.WebSocketResponse, _: int) -> None:
        assert (await socket.receive_json())["type"] == "subscribe"
        await asyncio.sleep(0.2)  # the command is on its way meanwhile
        await socket.send_json(MANUAL)
        await self._frame(socket)
        os.write(self._writing, b"w")
        while not self.frames[-1]["linear"]:
            await self._frame(socket)
        os.write(self._writing, b" ")
        while self.frames[-1]["linear"]:
            await self._frame(socket)
        if self._last:
            await socket.send_json({"type": "command_result", "command_id": "c1", **self._last})
        else:
            os.write(self._writing, b"q")
        async for _frame in socket:
            pass

    async def _frame(self, socket: web.WebSocketResponse) -> None:
        message = await socket.receive_json()
        assert (message["type"], message["mower_id"]) == ("drive", "01abc")
        self.frames.append(message["frame"])


async def drive(host: FakeHost, home: Path, keyboard: int) -> str:
    with host.client(home) as client:
        async with asyncio.timeout(10):
            return await drive_by_keys(client, SHAUN, Stick(speed=0.5), keyboard)


async def test_keys_drive_and_q_ends(tmp_path: Path, host: FakeHost, keyboard: tuple[int, int]) -> None:
    host.sign_in(tmp_path)
    host.talk = talk = Talk(keyboard[1])
    host.answers |= {COMMANDS: (202, {"command_id": "c1", "status": "pending"}), SESSION: (204, None)}
    assert await drive(host, tmp_path, keyboard[0]) == "ended by the driver"
    assert host.asked(COMMANDS) == [{"command": {"kind": "manual_drive"}}]
    assert len(host.asked(SESSION)) == 1
    assert {frame["linear"] for frame in talk.frames} == {0.0, 0.5}
    assert [frame["sequence"] for frame in talk.frames] == list(range(1, len(talk.frames) + 1))


async def test_the_host_ends_it(tmp_path: Path, host: FakeHost, keyboard: tuple[int, int]) -> None:
    host.sign_in(tmp_path)
    host.talk = Talk(keyboard[1], status="executed", reason="ended by an emergency stop")
    host.answers |= {
        COMMANDS: (202, {"command_id": "c1", "status": "pending"}),
        SESSION: (404, problem("not-found", "no such drive session")),
    }
    assert await drive(host, tmp_path, keyboard[0]) == "ended by an emergency stop"


async def test_somebody_else_drives(tmp_path: Path, host: FakeHost, keyboard: tuple[int, int]) -> None:
    async def talk(socket: web.WebSocketResponse, _: int) -> None:
        async for _frame in socket:
            pass

    host.sign_in(tmp_path)
    host.talk = talk
    host.answers[COMMANDS] = (409, problem("conflict", "Ben is driving this mower"))
    with pytest.raises(ConflictError, match="Ben is driving"):
        await drive(host, tmp_path, keyboard[0])
    assert host.asked(SESSION) == []


def test_it_needs_a_terminal(terminal: Terminal, host: FakeHost) -> None:
    done = terminal.run("drive", "Shaun", "--host", host.url)
    assert done.exit_code == 2
    assert "terminal" in done.stderr
