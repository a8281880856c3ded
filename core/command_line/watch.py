"""`mowdeck watch`: all mowers live, over the host's realtime socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any

import aiohttp
import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from core.command_line.host_client import RENEW_BEFORE, HostClient
from core.command_line.mowers import find_mower, mower_table
from core.command_line.terminal import HostOption, JsonOption, console, open_host, print_json, told
from core.domain.errors import RateLimitedError, StorageError, UnauthenticatedError, UnavailableError

RETRY_S = 2.0
READY_S = 20.0
"""The host has accepted the token by then, or the connection counts as broken."""
REFUSED = 4401
LINES = 8


def watch(
    mower: Annotated[list[str] | None, typer.Argument(help="Names or ids; by default all mowers.")] = None,
    host: HostOption = None,
    seconds: Annotated[float | None, typer.Option(help="End after this time.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show states and results as they come (Ctrl-C ends); with --json one message a line."""
    with told(as_json=as_json), open_host(host) as client:
        found = [find_mower(client, m) for m in mower] if mower else client.get("/fleet/mowers")["items"]
        asyncio.run(_run(client, found, seconds, as_json=as_json))


async def _run(client: HostClient, found: list[dict[str, Any]], seconds: float | None, *, as_json: bool) -> None:
    try:
        async with asyncio.timeout(seconds):
            async with aclosing(_messages(client, found)) as messages:
                if as_json:
                    async for message in messages:
                        print_json(message)
                else:
                    await _show(messages, found)
    except TimeoutError:
        return


async def _show(messages: AsyncIterator[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    states: dict[str, dict[str, Any]] = {}
    names = {m["mower_id"]: m["name"] for m in found}
    lines: list[str] = []
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        async for message in messages:
            if message["type"] == "state":
                states[message["mower_id"]] = message["state"]
            elif message["type"] in {"command_result", "event", "connection"}:
                lines = [*lines, _line(message, names)][-LINES:]
            table = mower_table(found, states, datetime.now(UTC), are_links_new=False)
            live.update(Group(table, Text(), *[Text(line, style="dim") for line in lines]))


def _line(message: dict[str, Any], names: dict[str, str]) -> str:
    at = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
    name = names.get(message.get("mower_id", ""), "")
    match message["type"]:
        case "command_result":
            reason = f" ({message['reason']})" if message.get("reason") else ""
            return f"{at}  {name}: command {message['status']}{reason}"
        case "event":
            return f"{at}  {name}: {message['event'].get('kind', 'event')}"
        case _:
            return f"{at}  {message['text']}"


class _RefusedError(Exception):
    """The host does not take the token (any more)."""


async def _messages(
    client: HostClient, found: list[dict[str, Any]], *, retry_s: float = RETRY_S
) -> AsyncGenerator[dict[str, Any], None]:
    """Messages of the socket; it is opened again when it breaks, and says so. UnauthenticatedError once the sign-in
    has ended."""
    is_refused = False
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                token = await _token(client, is_refused=is_refused)
                async with aclosing(_one_socket(client, session, [m["mower_id"] for m in found], token)) as messages:
                    async for message in messages:
                        is_refused = False
                        yield message
                why = "connection closed"
            except _RefusedError as err:
                if is_refused:  # it was renewed just now
                    hint = f"Sign in again: mowdeck sign-in {client.host}"
                    raise UnauthenticatedError("the host ended the session", hint=hint) from err
                is_refused, why = True, "the sign-in has to be renewed"
            except (aiohttp.ClientError, OSError) as err:
                why = f"connection lost ({err})"
            yield {"type": "connection", "text": f"{why}, trying again"}
            await asyncio.sleep(retry_s)


async def _token(client: HostClient, *, is_refused: bool) -> str:
    """Blocking work (a file, perhaps a request) off the loop. A host that is away or just starting is an OSError."""
    try:
        return await asyncio.to_thread(lambda: client.token(is_refused=is_refused))
    except (UnavailableError, StorageError, RateLimitedError) as err:
        raise OSError(err.detail) from err


async def _one_socket(
    client: HostClient, session: aiohttp.ClientSession, mower_ids: list[str], token: str
) -> AsyncGenerator[dict[str, Any], None]:
    """One connection; its token is renewed before the host would end it for that."""
    loop = asyncio.get_running_loop()
    is_subscribed = False
    async with session.ws_connect(f"{client.host}/api/v1/realtime/ws", max_msg_size=1 << 20, heartbeat=20) as socket:
        await socket.send_str(json.dumps({"type": "auth", "token": token}))
        renew_at = loop.time() + READY_S
        while True:
            try:
                frame = await socket.receive(timeout=max(0.01, renew_at - loop.time()))
            except TimeoutError:
                if not is_subscribed:
                    raise
                token = await _token(client, is_refused=True)
                await socket.send_str(json.dumps({"type": "auth", "token": token}))
                renew_at = loop.time() + READY_S
                continue
            if frame.type is not aiohttp.WSMsgType.TEXT:
                break
            message = json.loads(frame.data)
            if message["type"] == "ready":
                renew_at = loop.time() + _renew_in_s(message)
                if not is_subscribed:
                    await socket.send_str(json.dumps({"type": "subscribe", "mower_ids": mower_ids}))
                is_subscribed = True
            yield message
        if socket.close_code == REFUSED:
            raise _RefusedError


def _renew_in_s(ready: dict[str, Any]) -> float:
    """By the host's clock, which need not be ours. A service token's end is far away, and then it just ends."""
    left = datetime.fromisoformat(ready["token_expires_at"]) - datetime.fromisoformat(ready["server_time"])
    return max(1.0, left.total_seconds() - RENEW_BEFORE.total_seconds())
