"""`mowdeck demo`: a relay, a broker and a box with two simulated mowers on this machine, linked and signed in."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import httpx
import msgspec
import typer

from core.command_line.emulated_mower import EmulatedMower, can_emulate, pair_through_flow
from core.command_line.host_client import HostClient
from core.command_line.host_process import HostProcess
from core.command_line.settings import ClientSettings
from core.command_line.terminal import errors, told
from core.domain.errors import MowdeckError, UnavailableError

USERNAME = "demo"
PASSWORD = "mow the lawn gently"  # noqa: S105  (printed on the screen: it guards simulated mowers on loopback)
MOWERS = ("Shaun", "Timmy")
STEP_S = 60.0
PORTS = "ports.json"
FREE_PORTS = {"listen_port": "0", "broker_port": "0"}


def demo(
    check: Annotated[
        bool, typer.Option("--check", help="Drive one start and dock through the relay, then exit.")
    ] = False,
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Keep the data here; by default it is gone at the end.")
    ] = None,
    relay_port: Annotated[int, typer.Option(help="Port of the relay; 0 takes a free one.")] = 0,
    edge_port: Annotated[int, typer.Option(help="Port of the box; 0 takes a free one.")] = 0,
    emulate: Annotated[
        str | None,
        typer.Option("--emulate", metavar="DOMAIN", help="With an emulated Bluetooth mower of this integration."),
    ] = None,
    time_scale: Annotated[float, typer.Option(help="How much faster than real the lawn is.")] = 10.0,
) -> None:
    """Start everything on this machine and say where to look; Ctrl-C ends it."""
    with told(as_json=False), ExitStack() as stack:
        home = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mowdeck-demo-")))
        home.mkdir(parents=True, exist_ok=True)
        emulated = None if emulate is None else _start_emulated(stack, home, emulate, time_scale)
        relay, edge = _start(stack, home, relay_port, edge_port, emulated)
        _say(f"relay {relay.url}, box {edge.url}")
        on_relay, on_edge = (sign_in_at(stack, home, host) for host in (relay, edge))
        _add_mowers(on_edge, time_scale)
        paired = None if emulated is None else _pair(on_edge, emulated.domain)
        mowers = on_edge.get("/fleet/mowers")["items"]
        link_box(on_edge, on_relay)
        until("the relay knows all mowers", lambda: len(on_relay.get("/fleet/mowers")["items"]) == len(mowers))
        if check:
            asyncio.run(_drive(on_relay, MOWERS[0], {"kind": "start_mow", "area_ids": ["front"]}, "mowing"))
            if paired is not None:
                asyncio.run(_drive(on_relay, paired, {"kind": "start_mow"}, "leaving", "mowing"))
            _say("[bold green]demo check passed[/]")
        else:
            _look_around(relay, edge, home)


def _start_emulated(stack: ExitStack, home: Path, domain: str, time_scale: float) -> EmulatedMower | None:
    if not can_emulate():
        _say("without the emulated Bluetooth mower: pip install 'mowdeck[ble,emulate]' brings it")
        return None
    emulated = EmulatedMower(domain, home, time_scale=time_scale)
    stack.callback(emulated.stop)
    emulated.start()
    return emulated


def _pair(on_edge: HostClient, domain: str) -> str:
    """Pairs the emulated mower unless this folder has it already; its name."""
    known = [m for m in on_edge.get("/fleet/mowers")["items"] if m["domain"] == domain]
    name = str(known[0]["name"]) if known else pair_through_flow(on_edge, domain)
    until(
        f"the Bluetooth mower {name} is there",
        lambda: any(
            m["domain"] == domain and m["capabilities"]["start_mow"] for m in on_edge.get("/fleet/mowers")["items"]
        ),
    )
    return next(str(m["name"]) for m in on_edge.get("/fleet/mowers")["items"] if m["domain"] == domain)


def _start(
    stack: ExitStack, home: Path, relay_port: int, edge_port: int, emulated: EmulatedMower | None
) -> tuple[HostProcess, HostProcess]:
    _say("starting relay and broker, then the box ...")
    log = {"log_format": "console"}
    ports = relay_ports(home)
    if relay_port:
        ports["listen_port"] = str(relay_port)
    relay = HostProcess("relay", home / "relay", {**log, **ports})
    edge = HostProcess(
        "edge",
        home / "edge",
        {
            **log,
            "listen_port": str(edge_port),
            "name": "Demo shed",
            "announce": "false",
            "trust_clock": "true",
            "bluetooth": "off" if emulated is None else f"virtual:{emulated.radio}",
        },
    )
    for host in (relay, edge):
        stack.callback(host.stop)
        host.start()
    keep_relay_ports(home, relay)
    return relay, edge


def relay_ports(home: Path) -> dict[str, str]:
    """The ports that the relay of this folder had before, for its box goes on looking for it there; else free ones."""
    try:
        return msgspec.json.decode((home / PORTS).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return dict(FREE_PORTS)


def keep_relay_ports(home: Path, relay: HostProcess) -> None:
    """For the next run in this folder."""
    ports = {"listen_port": str(httpx.URL(relay.url).port), "broker_port": str(relay.address["broker"]["port"])}
    (home / PORTS).write_bytes(msgspec.json.encode(ports))


def sign_in_at(stack: ExitStack, home: Path, host: HostProcess) -> HostClient:
    settings = ClientSettings(host=host.url, config_dir=home / "client", token=None, password=None)
    client = stack.enter_context(HostClient(settings, host.url))
    body = {"username": USERNAME, "password": PASSWORD}
    try:
        tokens = client.request("POST", "/identity/session", body=body, is_public=True)
    except MowdeckError:  # first start in this folder
        client.request("POST", "/identity/register", body={**body, "account_name": "Demo"}, is_public=True)
        tokens = client.request("POST", "/identity/session", body=body, is_public=True)
    client.keep(tokens, USERNAME, is_last=True)
    return client


def _add_mowers(on_edge: HostClient, time_scale: float) -> None:
    known = {m["name"] for m in on_edge.get("/fleet/mowers")["items"]}
    for seed, name in enumerate(MOWERS, start=1):
        if name not in known:
            flow = on_edge.post("/config/flows", {"domain": "simulator"})
            data = {"name": name, "seed": seed, "mowers": 1, "time_scale": time_scale}
            done = on_edge.post(f"/config/flows/{flow['flow_id']}", {"user_input": data})
            if done["result"]["type"] != "create_entry":
                raise UnavailableError(f"the simulator was not set up: {done}")
    until("the mowers report", lambda: len(on_edge.get("/telemetry/states")["items"]) >= len(MOWERS))


def link_box(on_edge: HostClient, on_relay: HostClient) -> None:
    if on_edge.get("/box/link")["status"] == "linked":
        return
    view = on_edge.post("/box/link", {"relay_url": on_relay.host})
    _say(f"linking with the code {view['user_code']} ...")
    on_relay.post(f"/edges/link/{view['user_code']}/confirm", {})
    until("the box is linked", lambda: on_edge.get("/box/link")["status"] == "linked")


async def _drive(on_relay: HostClient, name: str, start: dict[str, Any], *moving: str) -> None:
    """Starts a mow through the relay, sees it on the relay's socket, docks it."""
    mower = next(m for m in on_relay.get("/fleet/mowers")["items"] if m["name"] == name)
    mower_id = mower["mower_id"]
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{on_relay.host}/api/v1/realtime/ws", heartbeat=20) as socket,
        asyncio.timeout(3 * STEP_S),
    ):
        await socket.send_json({"type": "auth", "token": on_relay.token()})
        await _see(socket, "ready", lambda m: m["type"] == "ready")
        await socket.send_json({"type": "subscribe", "mower_ids": [mower_id]})
        await _see(socket, "its first state", lambda m: m["type"] == "state")
        await _command(on_relay, mower_id, start)
        await _see(socket, f"{name} is {' or '.join(moving)}", _is_activity(*moving))
        await _command(on_relay, mower_id, {"kind": "return_to_dock"})
        await _see(socket, f"{name} is back in the dock", _is_activity("docked", "charging"))


async def _command(client: HostClient, mower_id: str, body: dict[str, Any]) -> None:
    path = f"/fleet/mowers/{mower_id}/commands"
    issued = await asyncio.get_running_loop().run_in_executor(None, client.post, path, {"command": body})
    _say(f"{body['kind']} sent: {issued['status']}")


def _is_activity(*wanted: str) -> Callable[[dict[str, Any]], bool]:
    """A state with one of these activities; a command that came to nothing ends the wait."""

    def check(message: dict[str, Any]) -> bool:
        if message["type"] == "command_result" and message["status"] in {"rejected", "failed", "expired"}:
            raise UnavailableError(f"the command came to nothing: {message['status']} ({message.get('reason')})")
        return bool(message["type"] == "state" and message["state"]["activity"] in wanted)

    return check


async def _see(socket: aiohttp.ClientWebSocketResponse, what: str, is_it: Callable[[dict[str, Any]], bool]) -> None:
    try:
        async with asyncio.timeout(STEP_S):
            async for frame in socket:
                if frame.type is aiohttp.WSMsgType.TEXT and is_it(json.loads(frame.data)):
                    _say(f"seen on the relay's socket: {what}")
                    return
    except TimeoutError as err:
        raise UnavailableError(f"not seen on the relay's socket within {STEP_S:.0f} s: {what}") from err
    raise UnavailableError(f"the relay's socket closed ({socket.close_code}) before: {what}")


def _look_around(relay: HostProcess, edge: HostProcess, home: Path) -> None:
    _say("")
    _say(f"relay   {relay.url}   API: {relay.url}/api/v1/openapi.json")
    _say(f"box     {edge.url}   API: {edge.url}/api/v1/openapi.json")
    _say(f"sign in [bold]{USERNAME}[/] / [bold]{PASSWORD}[/] (on both)")
    _say(f"logs    {relay.log_path}, {edge.log_path}")
    _say("")
    _say("In another terminal (after: . .venv/bin/activate):")
    _say(f"  export MOWDECK_CLIENT_CONFIG_DIR={home / 'client'} MOWDECK_CLIENT_HOST={relay.url}")
    _say("  mowdeck watch")
    _say(f"  mowdeck command {MOWERS[0]} start_mow area_ids=front")
    _say(f"  mowdeck command {MOWERS[0]} stop")
    _say("")
    _say("Ctrl-C ends it.")
    with _asked_to_end() as has_been_asked:
        while not has_been_asked():
            if not (relay.is_running and edge.is_running):
                fallen = edge if relay.is_running else relay
                raise UnavailableError(f"the {fallen.kind} has ended by itself:\n{fallen.log_tail()}")
            time.sleep(0.2)
    _say("stopping ...")


@contextmanager
def _asked_to_end() -> Iterator[Callable[[], bool]]:
    asked: list[int] = []
    before = {s: signal.signal(s, lambda number, _frame: asked.append(number)) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def until(what: str, is_so: Callable[[], bool], timeout_s: float = STEP_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise UnavailableError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(0.1)
    _say(what)


def _say(text: str) -> None:
    errors.print(text, highlight=False, soft_wrap=True)
