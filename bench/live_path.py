"""How long a state takes from the box's intake to a socket of the relay, and what the box costs.

Real processes: relay with its supervised Mosquitto, box with five simulated mowers, one socket that watches all.
Latency of a state is the time of arrival minus its `observed_at` (one machine, one clock). The baseline in the same
run is the bare path: publish a payload of the same size to the same kind of broker, receive it, send it on over a
bare WebSocket.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import aiomqtt
import psutil
from aiohttp import web

from core.command_line.demo import link_box, sign_in_at, until
from core.command_line.host_process import HostProcess

MOWERS = 5
PAYLOAD_BYTES = 600


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def summary(values: list[float]) -> dict[str, float]:
    """Milliseconds: median, p99, count."""
    return {
        "p50_ms": round(1000 * statistics.median(values), 2),
        "p99_ms": round(1000 * percentile(values, 0.99), 2),
        "count": len(values),
    }


async def bare_path(host: str, port: int, seconds: float, rate: float) -> dict[str, float]:
    """Publish -> broker -> subscribe -> WebSocket -> client, without any of our code."""
    arrived: list[float] = []
    payload = b"x" * PAYLOAD_BYTES
    sockets: list[web.WebSocketResponse] = []

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        sockets.append(socket)
        async for _ in socket:
            pass
        return socket

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    ws_port = runner.addresses[0][1]

    async def forward(client: aiomqtt.Client) -> None:
        async for message in client.messages:
            for socket in sockets:
                await socket.send_bytes(message.payload)

    async def watch(socket: aiohttp.ClientWebSocketResponse) -> None:
        async for frame in socket:
            arrived.append(time.monotonic() - float(frame.data[:20]))

    async with (
        aiomqtt.Client(host, port) as publisher,
        aiomqtt.Client(host, port) as subscriber,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{ws_port}/") as socket,
        asyncio.TaskGroup() as group,
    ):
        await subscriber.subscribe("bare")
        tasks = [group.create_task(forward(subscriber), name="forward"), group.create_task(watch(socket), name="watch")]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stamp = f"{time.monotonic():020.6f}".encode()
            await publisher.publish("bare", stamp + payload)
            await asyncio.sleep(1 / rate)
        for task in tasks:
            task.cancel()
    await runner.cleanup()
    return summary(arrived)


async def watch_states(url: str, token: str, mower_ids: list[str], seconds: float) -> list[float]:
    """Latencies of all states that arrive, in seconds; the first ten seconds are not counted."""
    found: list[float] = []
    async with aiohttp.ClientSession() as session, session.ws_connect(f"{url}/api/v1/realtime/ws") as socket:
        await socket.send_json({"type": "auth", "token": token})
        end = time.monotonic() + seconds + 10
        async for frame in socket:
            at = datetime.now(UTC)
            message: dict[str, Any] = json.loads(frame.data)
            if message["type"] == "ready":
                await socket.send_json({"type": "subscribe", "mower_ids": mower_ids})
            if message["type"] == "state" and time.monotonic() > end - seconds:
                found.append((at - datetime.fromisoformat(message["state"]["observed_at"])).total_seconds())
            if time.monotonic() > end:
                break
    return found


def run(seconds: float) -> dict[str, Any]:
    """All figures."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mowdeck-bench-")))
        relay = HostProcess("relay", home / "relay", {"listen_port": "0", "broker_port": "0", "log_level": "warning"})
        options = {"listen_port": "0", "announce": "false", "trust_clock": "true", "log_level": "warning"}
        edge = HostProcess("edge", home / "edge", options)
        cold: dict[str, float] = {}
        for host in (relay, edge):
            stack.callback(host.stop)
            begun = time.monotonic()
            host.start()
            cold[host.kind] = round(time.monotonic() - begun, 2)
        on_relay, on_edge = (sign_in_at(stack, home, host) for host in (relay, edge))
        flow = on_edge.post("/config/flows", {"domain": "simulator"})
        data = {"name": "Bench", "seed": 1, "mowers": MOWERS, "time_scale": 1.0}
        on_edge.post(f"/config/flows/{flow['flow_id']}", {"user_input": data})
        until("the mowers report", lambda: len(on_edge.get("/telemetry/states")["items"]) == MOWERS)
        link_box(on_edge, on_relay)
        until("the relay knows them", lambda: len(on_relay.get("/fleet/mowers")["items"]) == MOWERS)
        ids = [m["mower_id"] for m in on_relay.get("/fleet/mowers")["items"]]
        for mower_id in ids:
            on_relay.post(f"/fleet/mowers/{mower_id}/commands", {"command": {"kind": "start_mow"}})
        process = psutil.Process(edge.pid)
        before, begun = process.cpu_times(), time.monotonic()
        latencies = asyncio.run(watch_states(relay.url, on_relay.token(), ids, seconds))
        after, wall = process.cpu_times(), time.monotonic() - begun
        cpu = (after.user + after.system - before.user - before.system) / wall
        rss = process.memory_info().rss
        threads = process.num_threads()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mowdeck-bench-")))
        bare = asyncio.run(_bare(home, min(seconds, 10.0)))
    live = summary(latencies)
    return {
        "live_path": live,
        "bare_path": bare,
        "live_over_bare_p50": round(live["p50_ms"] / bare["p50_ms"], 1),
        "box": {
            "mowers": MOWERS,
            "rss_mib": round(rss / 2**20, 1),
            "cpu_percent_of_a_core": round(100 * cpu, 2),
            "threads": threads,
        },
        "cold_start_s": cold,
    }


async def _bare(home: Path, seconds: float) -> dict[str, float]:
    config = home / "mosquitto.conf"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\npersistence false\n")
    broker = await asyncio.create_subprocess_exec("mosquitto", "-c", str(config), stderr=asyncio.subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                _reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                break
        return await bare_path("127.0.0.1", port, seconds, rate=MOWERS)
    finally:
        broker.terminate()
        await broker.wait()


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = run(arguments.seconds)
    print(json.dumps(figures, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
