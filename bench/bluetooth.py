"""Bluetooth mowers: how long from "connect" to the first state, a command's way there and back, and what polling costs.

One process puts five emulated mowers on a virtual radio. In a process of its own each, one after the other: our
integration over the box's Bluetooth service; a public client library of the same brand (GPL: a peer of tests and
benches, nothing that ships imports it) over the same backend of bleak; and the whole box (`mowdeck edge run`), which
also scans, records and serves. Both clients ask the same ten questions a poll, the ones that the library knows.

Both wait before the first word, because real mowers want it: we 3 s (a setting), the library 5 s (fixed). The waits
are taken out of the comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import bleak
import psutil

from core.command_line.demo import sign_in_at, until
from core.command_line.emulated_mower import PIN, pair_through_flow
from core.command_line.host_process import HostProcess
from core.domain import commands
from core.domain.clock import SystemClock
from core.domain.ids import EntryId
from core.domain.mower import Activity
from core.platform.contract.running import Running, run_link
from core.platform.contract.surroundings import open_context
from core.platform.integration import Entry, IntegrationContext
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.backend import VirtualBackend
from edge_agent.virtual_radio.box_adapter import box_adapter
from edge_agent.virtual_radio.radio_server import RadioServer
from edge_agent.virtual_radio.radio_spec import parse_radio_spec
from edge_agent.virtual_radio.remote_adapter import open_remote_adapter
from integrations.husqvarna_ble.emulated_machine import Traits
from integrations.husqvarna_ble.emulator import HusqvarnaPeer
from integrations.husqvarna_ble.integration import HusqvarnaBle

MOWERS = 5
DOMAIN = "husqvarna_ble"
CHANNEL = 1197489078
SETTLE_S = 3.0
LIBRARY_SETTLE_S = 5.0
POLL_S = 10.0
QUESTIONS = (
    "GetState",
    "GetActivity",
    "GetError",
    "GetMode",
    "GetBatteryLevel",
    "IsCharging",
    "GetOverride",
    "GetRestrictionReason",
    "GetNextStartTime",
    "IsOperatorLoggedIn",
)


def address_of(number: int) -> str:
    """Of the emulated mower with this number."""
    return f"C0:00:00:00:00:{number + 1:02X}"


def serial_of(number: int) -> int:
    """Its serial number."""
    return 230_500_000 + number


# The mowers


async def serve_peers(radio: str) -> None:
    """Five mowers on the air, until the process is ended."""
    async with VirtualAir() as air:
        for number in range(MOWERS):
            traits = Traits(name=f"Bench {number}", serial=serial_of(number), mowing_s=36_000.0)
            await air.add_peer(HusqvarnaPeer(address_of(number), pin=int(PIN), traits=traits))
        async with RadioServer(air.link, parse_radio_spec(radio)):
            print("READY", flush=True)
            await asyncio.Event().wait()


@contextmanager
def on_the_air(home: Path) -> Iterator[str]:
    """The radio that the mowers are on; a fresh one each time, so that nobody finds a bond."""
    radio = f"unix:{home / 'radio'}"
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.bluetooth", "--role", "peers", "--radio", radio], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert b"READY" in process.stdout.readline()
        yield radio
    finally:
        process.terminate()
        process.wait()


# The two clients


def cpu_s() -> float:
    """CPU seconds of this process."""
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


async def measure(poll: Callable[[], Awaitable[None]], seconds: float) -> dict[str, float]:
    """CPU while `poll` runs every POLL_S."""
    before, begun, polls = cpu_s(), time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        await poll()
        polls += 1
        await asyncio.sleep(POLL_S)
    wall = time.monotonic() - begun
    return {"cpu_percent_of_a_core": round(100 * (cpu_s() - before) / wall, 2), "polls": polls}


def figures(first: list[float], trips: list[float], settle_s: float) -> dict[str, Any]:
    """Medians."""
    return {
        "connect_to_first_state_s": round(statistics.median(first), 2),
        "without_the_wait_s": round(statistics.median(first) - settle_s, 2),
        "command_round_trip_ms": round(1000 * statistics.median(trips), 1),
    }


async def run_ours(radio: str, seconds: float) -> dict[str, Any]:
    """Our integration, without the rest of the box."""
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(open_remote_adapter(parse_radio_spec(radio)))
        service = BluetoothService([box_adapter(backend, slots=MOWERS)], clock=SystemClock(), bonds=BondBook())
        bluetooth = await stack.enter_async_context(service)
        context = replace(await stack.enter_async_context(open_context()), bluetooth=bluetooth)
        context.secrets.put("pin", PIN)
        first: list[float] = []
        links: list[Running] = []
        for number in range(MOWERS):
            async with bluetooth.connect(address_of(number), bond="pair", deadline_s=20.0):
                pass
            begun = time.monotonic()
            links.append(await stack.enter_async_context(_our_link(context, number)))
            first.append(time.monotonic() - begun)
        trips = [await _our_trip(links[0], turn) for turn in range(11)]
        for link in links[1:]:
            await link.link.send(commands.StartMow())

        async def poll() -> None:
            """The links ask by themselves."""

        before = sum(len(link.states) for link in links)
        cost = await measure(poll, seconds)
        return {**figures(first, trips, SETTLE_S), **cost, "polls": sum(len(link.states) for link in links) - before}


@asynccontextmanager
async def _our_link(context: IntegrationContext, number: int) -> AsyncIterator[Running]:
    data = {
        "address": address_of(number),
        "channel": CHANNEL,
        "serial": str(serial_of(number)),
        "name": f"Bench {number}",
        "device_type": Traits().model.device_type,
        "variant": Traits().model.variant,
    }
    entry = Entry(
        entry_id=EntryId(f"e{number}"),
        domain=DOMAIN,
        unique_id=address_of(number),
        title=f"Bench {number}",
        data=data,
        options={"poll_moving_s": POLL_S, "poll_standing_s": POLL_S, "releases": False, "settle_s": SETTLE_S},
    )
    integration = HusqvarnaBle(context, entry)
    mower = (await integration.mowers())[0]
    async with run_link(integration, mower) as running:
        yield running


async def _our_trip(link: Running, turn: int) -> float:
    """Seconds until the mower has answered a command: start, pause, start, ..."""
    command: commands.Command = commands.PauseMow() if turn % 2 else commands.StartMow()
    begun = time.monotonic()
    outcome = await link.link.send(command)
    spent = time.monotonic() - begun
    assert outcome.kind == "accepted", outcome
    wanted = {Activity.PAUSED} if turn % 2 else {Activity.LEAVING, Activity.MOWING}
    await link.until(lambda state: state.activity in wanted, 20, "the effect")
    return spent


async def run_library(radio: str, seconds: float) -> dict[str, Any]:
    """The public library, polling as its users do."""
    from automower_ble.mower import Mower

    async with open_remote_adapter(parse_radio_spec(radio)) as backend:
        _use(backend)
        first: list[float] = []
        mowers: list[Any] = []
        for number in range(MOWERS):
            device = await bleak.BleakScanner.find_device_by_address(address_of(number), timeout=10)
            begun = time.monotonic()
            mower = Mower(CHANNEL, address_of(number), int(PIN))
            assert await mower.connect(device)
            await ask_all(mower)
            first.append(time.monotonic() - begun)
            mowers.append(mower)
        trips = [await _library_trip(mowers[0], turn) for turn in range(11)]
        for mower in mowers[1:]:
            await mower.mower_override(1.0)

        async def poll() -> None:
            for mower in mowers:
                await ask_all(mower)

        cost = await measure(poll, seconds)
        for mower in mowers:
            await mower.disconnect()
        return {**figures(first, trips, LIBRARY_SETTLE_S), **cost, "polls": cost["polls"] * MOWERS}


async def ask_all(mower: Any) -> None:
    """One poll of the library."""
    for question in QUESTIONS:
        await mower.command(question)


async def _library_trip(mower: Any, turn: int) -> float:
    begun = time.monotonic()
    if turn % 2:
        await mower.mower_pause()
    else:
        await mower.mower_override(1.0)
    return time.monotonic() - begun


def _use(backend: VirtualBackend) -> None:
    """The library makes its own BleakClient: bleak is told to take the virtual one."""
    setattr(bleak, "get_platform_client_backend_type", lambda: (backend.client, "virtual"))  # noqa: B010  (mypy: it is a function of theirs)
    setattr(bleak, "get_platform_scanner_backend_type", lambda: (backend.scanner, "virtual"))  # noqa: B010  (mypy: it is a function of theirs)


# The box


def run_box(radio: str, home: Path, seconds: float) -> dict[str, Any]:
    """The whole box with the five mowers, mowing and polled every POLL_S."""
    with ExitStack() as stack:
        settings = {"listen_port": "0", "announce": "false", "trust_clock": "true", "log_level": "warning"}
        box = HostProcess("edge", home / "edge", {**settings, "bluetooth": f"virtual:{radio}"})
        stack.callback(box.stop)
        box.start()
        client = sign_in_at(stack, home, box)
        for _ in range(MOWERS):
            pair_through_flow(client, DOMAIN)
        for entry in client.get("/config/entries")["items"]:
            flow = client.post(
                "/config/flows", {"domain": DOMAIN, "entry_id": entry["entry_id"], "source": "reconfigure"}
            )
            options = {"poll_moving_s": POLL_S, "poll_standing_s": 30.0, "poll_fault_s": 1200.0, "releases": False}
            client.post(f"/config/flows/{flow['flow_id']}", {"user_input": options})
        until("the mowers report", lambda: len(client.get("/telemetry/states")["items"]) == MOWERS, 120.0)
        for mower in client.get("/fleet/mowers")["items"]:
            client.post(f"/fleet/mowers/{mower['mower_id']}/commands", {"command": {"kind": "start_mow"}})
        time.sleep(2 * POLL_S)
        process = psutil.Process(box.pid)
        before, begun = process.cpu_times(), time.monotonic()
        time.sleep(seconds)
        after, wall = process.cpu_times(), time.monotonic() - begun
        cpu = (after.user + after.system - before.user - before.system) / wall
        return {
            "cpu_percent_of_a_core": round(100 * cpu, 2),
            "rss_mib": round(process.memory_info().rss / 2**20, 1),
        }


# All of it


def run_client(role: str, seconds: float) -> dict[str, Any]:
    """One client in a process of its own, on a radio of its own."""
    with tempfile.TemporaryDirectory(prefix="mowdeck-bench-") as folder, on_the_air(Path(folder)) as radio:
        command = [sys.executable, "-m", "bench.bluetooth", "--role", role, "--radio", radio, "--seconds", str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result


def run(seconds: float) -> dict[str, Any]:
    """All figures."""
    ours, library = run_client("ours", seconds), run_client("library", seconds)
    with tempfile.TemporaryDirectory(prefix="mowdeck-bench-") as folder, on_the_air(Path(folder)) as radio:
        box = run_box(radio, Path(folder), seconds)
    per_poll = [one["cpu_percent_of_a_core"] / one["polls"] for one in (ours, library)]
    return {
        "ours": ours,
        "library": library,
        "box": box,
        "first_state_over_library": round(ours["without_the_wait_s"] / library["without_the_wait_s"], 2),
        "round_trip_over_library": round(ours["command_round_trip_ms"] / library["command_round_trip_ms"], 2),
        "cpu_per_poll_over_library": round(per_poll[0] / per_poll[1], 2),
    }


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--role", choices=("peers", "ours", "library"), help=argparse.SUPPRESS)
    parser.add_argument("--radio", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "peers":
        asyncio.run(serve_peers(arguments.radio))
    elif arguments.role is not None:
        client = run_ours if arguments.role == "ours" else run_library
        print(json.dumps(asyncio.run(client(arguments.radio, arguments.seconds))))
    else:
        print(json.dumps(run(arguments.seconds), indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
