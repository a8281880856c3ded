"""`mowdeck watch`: all mowers live, over the host's realtime socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any

import aiohttp
import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from core.command_line.host_client import HostClient
from core.command_line.mowers import find_mower, mower_table
from core.command_line.terminal import HostOption, JsonOption, console, open_host, print_json, told
from core.domain.errors import UnauthenticatedError, UnavailableError

RETRY_S = 2.0
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
            if as_json:
                async for message in _messages(client, found):
                    print_json(message)
            else:
                await _show(client, found)
    except TimeoutError:
        return


async def _show(client: HostClient, found: list[dict[str, Any]]) -> None:
    states: dict[str, dict[str, Any]] = {}
    names = {m["mower_id"]: m["name"] for m in found}
    lines: list[str] = []
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        async for message in _messages(client, found):
            if message["type"] == "state":
                states[message["mower_id"]] = message["state"]
            elif message["type"] in {"command_result", "event", "connection"}:
                lines = [*lines, _line(message, names)][-LINES:]
            table = mower_table(found, states, datetime.now(UTC))
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


async def _messages(client: HostClient, found: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """Messages of the socket; it is opened again when it breaks, and says so."""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async for message in _one_socket(client, session, found):
                    yield message
            except (aiohttp.ClientError, OSError) as err:
                yield {"type": "connection", "text": f"connection lost ({err}), trying again"}
            else:
                yield {"type": "connection", "text": "connection closed, trying again"}
            await asyncio.sleep(RETRY_S)


async def _one_socket(
    client: HostClient, session: aiohttp.ClientSession, found: list[dict[str, Any]]
) -> AsyncIterator[dict[str, Any]]:
    loop = asyncio.get_running_loop()
    try:
        token = await loop.run_in_executor(None, client.token)
    except UnavailableError as err:
        raise OSError(err.detail) from err
    url = f"{client.host}/api/v1/realtime/ws"
    async with session.ws_connect(url, max_msg_size=1 << 20, heartbeat=20) as socket:
        await socket.send_str(json.dumps({"type": "auth", "token": token}))
        async for frame in socket:
            if frame.type is not aiohttp.WSMsgType.TEXT:
                break
            message = json.loads(frame.data)
            if message["type"] == "ready":
                ids = [m["mower_id"] for m in found]
                await socket.send_str(json.dumps({"type": "subscribe", "mower_ids": ids}))
            yield message
        if socket.close_code == 4401:
            raise UnauthenticatedError("the host ended the session", hint=f"mowdeck sign-in {client.host}")
