"""`mowdeck watch`: it outlives tokens, broken connections and restarts of the host, and ends with the sign-in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from core.command_line.watch import _messages
from core.domain.errors import UnauthenticatedError
from tests.core.command_line.conftest import Terminal
from tests.core.command_line.fake_host import MOWERS, FakeHost, fake_host

STATE = {"type": "state", "mower_id": "01abc", "state": {"activity": "mowing", "observed_at": "2026-06-01T08:00:00Z"}}


async def subscribe(socket: web.WebSocketResponse) -> None:
    message = await socket.receive_json()
    assert message == {"type": "subscribe", "mower_ids": ["01abc", "01abd"]}


async def collect(messages: AsyncIterator[dict[str, Any]], is_last: Callable[[dict[str, Any]], bool]) -> list[str]:
    """Kinds of all messages up to the last."""
    found: list[str] = []
    async with asyncio.timeout(10), aclosing(messages):  # type: ignore[type-var]
        async for message in messages:
            found.append(message["type"])
            if is_last(message):
                return found
    return found


async def watching(host: FakeHost, home: Path, token: str | None = None) -> AsyncIterator[dict[str, Any]]:
    with host.client(home, token=token) as client:
        async with aclosing(_messages(client, MOWERS, retry_s=0.01)) as messages:
            async for message in messages:
                yield message


async def test_it_subscribes_and_connects_again_after_a_break(tmp_path: Path, host: FakeHost):
    async def talk(socket: web.WebSocketResponse, connection: int) -> None:
        await subscribe(socket)
        await socket.send_json(STATE if connection == 3 else {"type": "pong"})

    host.sign_in(tmp_path)
    host.talk = talk
    found = await collect(watching(host, tmp_path), lambda m: m["type"] == "state")
    assert found == ["ready", "pong", "connection"] * 2 + ["ready", "state"]


async def test_the_token_is_renewed_before_it_ends(tmp_path: Path, host: FakeHost):
    async def talk(socket: web.WebSocketResponse, connection: int) -> None:
        await subscribe(socket)
        await host.authenticate(socket, timedelta(minutes=10))  # the second `auth` of the same connection
        await socket.send_json(STATE)

    host.sign_in(tmp_path)
    host.talk = talk
    first = host.authenticate

    async def brief(socket: web.WebSocketResponse, lifetime: timedelta = timedelta(seconds=31)) -> bool:
        return await first(socket, lifetime)

    host.authenticate = brief  # type: ignore[method-assign]
    found = await collect(watching(host, tmp_path), lambda m: m["type"] == "state")
    assert found == ["ready", "ready", "state"]
    assert [body["token"] for body in host.asked("ws auth")] == ["access-1", "access-2"]
    assert host.connections == 1


async def test_a_refused_token_is_renewed(tmp_path: Path, host: FakeHost):
    async def talk(socket: web.WebSocketResponse, connection: int) -> None:
        await subscribe(socket)
        await socket.send_json(STATE)

    host.sign_in(tmp_path)
    host.valid, host.talk = set(), talk
    found = await collect(watching(host, tmp_path), lambda m: m["type"] == "state")
    assert found == ["connection", "ready", "state"]


async def test_it_ends_with_the_sign_in(tmp_path: Path, host: FakeHost):
    async def talk(socket: web.WebSocketResponse, connection: int) -> None:
        await subscribe(socket)
        host.valid, host.is_ended = set(), True
        await socket.close(code=4401)

    host.sign_in(tmp_path)
    host.talk = talk
    with pytest.raises(UnauthenticatedError):
        await collect(watching(host, tmp_path), lambda _: False)


async def test_a_service_token_that_is_refused_ends_it(tmp_path: Path, host: FakeHost):
    messages = watching(host, tmp_path, token="gone")
    with pytest.raises(UnauthenticatedError, match="ended the session"):
        await collect(messages, lambda _: False)
    assert host.connections == 2


async def test_a_restart_of_the_host_is_waited_out(tmp_path: Path):
    async def talk(socket: web.WebSocketResponse, connection: int) -> None:
        await subscribe(socket)
        await socket.send_json(STATE)

    with fake_host() as before:
        before.sign_in(tmp_path)
        before.talk = talk
        messages = watching(before, tmp_path)
        assert (await anext(messages))["type"] == "ready"
        assert (await anext(messages))["type"] == "state"
    lost = [await anext(messages) for _ in range(3)]
    assert {message["type"] for message in lost} == {"connection"}
    with fake_host(before.url) as after:
        after.talk, after.valid, after.issued = talk, before.valid, before.issued
        assert (await collect(messages, lambda m: m["type"] == "state"))[-2:] == ["ready", "state"]


def test_json_is_a_message_a_line_until_the_time_is_up(terminal: Terminal, host: FakeHost):
    async def talk(socket: web.WebSocketResponse, connection: int) -> None:
        await subscribe(socket)
        await socket.send_json(STATE)
        await socket.receive()

    host.talk = talk
    result = terminal.run("watch", "--json", "--seconds", "0.5")
    assert result.exit_code == 0, result.output
    assert [line.partition(",")[0] for line in result.stdout.splitlines()] == ['{"type": "ready"', '{"type": "state"']


def test_the_table_shows_states_results_and_events(terminal: Terminal, host: FakeHost):
    async def talk(socket: web.WebSocketResponse, connection: int) -> None:
        assert (await socket.receive_json())["mower_ids"] == ["01abc"]
        await socket.send_json(STATE)
        await socket.send_json({"type": "command_result", "mower_id": "01abc", "status": "failed", "reason": "[x]"})
        await socket.send_json({"type": "event", "mower_id": "01abc", "event": {"kind": "error_raised"}})
        await socket.receive()

    host.talk = talk
    result = terminal.run("watch", "shaun", "--seconds", "0.7")
    assert result.exit_code == 0, result.output
    assert "mowing" in result.stdout
    assert "Shaun: command failed ([x])" in result.stdout
    assert "Shaun: error_raised" in result.stdout
