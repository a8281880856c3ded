"""`mowdeck survey` as a process of its own, at a whole box with an emulated mower on the virtual radio."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.radio_server import RadioServer
from edge_agent.virtual_radio.radio_spec import RadioSpec
from integrations.husqvarna_ble.emulator import make_emulated_peer
from tests.core.survey.test_nmea import gga
from tests.edge_agent.whole_box import Person, running_box, settings_for, until

ADDRESS = "C0:00:00:00:00:01"


@asynccontextmanager
async def owner_of(tmp_path: Path) -> AsyncIterator[Person]:
    """The owner of a box that hears one mower."""
    spec = RadioSpec(path=str(tmp_path / "radio"))
    async with VirtualAir(supervision_s=1.0) as air, RadioServer(air.link, spec):
        await air.add_peer(make_emulated_peer(ADDRESS, {"pin": "4711"}))
        settings = settings_for(tmp_path / "box", bluetooth=(f"virtual:unix:{spec.path}",))
        async with running_box(settings) as box:
            owner = await box.person().register()

            async def heard() -> Any:
                return (await owner.ask("GET", "/box/bluetooth"))["nearby"]

            await until(heard)
            yield owner


@asynccontextmanager
async def receiver() -> AsyncIterator[int]:
    """A GPS receiver that walks east, on a port of this machine."""
    walking: set[asyncio.Task[None]] = set()

    async def walk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        walking.add(asyncio.current_task())  # type: ignore[arg-type]
        step = 0
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while True:
                writer.write(gga(48.137, 11.575 + step * 1e-5))
                await writer.drain()
                step += 1
                await asyncio.sleep(0.2)
        writer.transport.abort()

    server = await asyncio.start_server(walk, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in walking:
            task.cancel()
        await asyncio.gather(*walking)


async def start(person: Person, *words: str) -> Process:
    own = {"MOWDECK_CLIENT_HOST": person.url, "MOWDECK_CLIENT_TOKEN": person.token, "COLUMNS": "200", "NO_COLOR": "1"}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "core.command_line", "survey", "--json", *words),
        env={**os.environ, **own},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )


async def samples(process: Process, count: int) -> list[dict[str, Any]]:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return [json.loads(await process.stdout.readline()) for _ in range(count)]


async def ended(process: Process) -> dict[str, Any]:
    """The summary: the last line of a survey that ended in peace."""
    said, complaints = await process.communicate()
    assert process.returncode == 0, (said, complaints)
    return dict(json.loads(said.splitlines()[-1]))


async def test_a_walk_with_a_receiver_ends_by_ctrl_c_and_goes_on_after_a_crash(tmp_path: Path) -> None:
    async with owner_of(tmp_path) as person:
        output = str(tmp_path / "garden")
        async with receiver() as port:
            process = await start(person, "--output", output, "--nmea", f"127.0.0.1:{port}")
            found = await samples(process, 4)
            process.kill()  # a flat battery
            await process.wait()
            assert not (tmp_path / "garden.geojson").exists()
            assert all(one["adapter"] and one["rssi_dbm"] < 0 for one in found)

            again = await start(person, "--output", output)
            assert "is there already" in json.loads((await again.communicate())[0])["error"]["detail"]

            process = await start(person, "--output", output, "--nmea", f"127.0.0.1:{port}", "--resume")
            await samples(process, 3)
            process.send_signal(signal.SIGINT)
            summary = await ended(process)
        assert summary["type"] == "summary"
        assert summary["best"]["samples"] >= 3
        collection = json.loads((tmp_path / "garden.geojson").read_text())
        assert len(collection["features"]) >= 7
        assert [one["properties"]["at"] for one in collection["features"]][:4] == [one["at"] for one in found]
        located = [one for one in collection["features"] if one["geometry"] is not None]
        assert len(located) >= 3
        for one in located:
            lon, lat = one["geometry"]["coordinates"]
            assert abs(lat - 48.137) < 1e-6
            assert 11.5749 < lon < 11.58
        assert collection["summary"]["without_place"] == len(collection["features"]) - len(located)
        with Image.open(tmp_path / "garden.png") as picture:
            assert picture.format == "PNG"


async def test_marks_by_hand_end_with_the_list(tmp_path: Path) -> None:
    async with owner_of(tmp_path) as person:
        process = await start(person, "--output", str(tmp_path / "s"), "--spot", "gate=1,2")
        assert process.stdin is not None
        await samples(process, 1)
        process.stdin.write(b"\n")
        summary = await ended(process)
        marked = [one["properties"] for one in json.loads((tmp_path / "s.geojson").read_text())["features"]]
        assert {(one["spot"], one["x_m"], one["y_m"]) for one in marked if "via" in one} == {("gate", 1.0, 2.0)}
        assert summary["without_place"] >= 1  # heard on the way to the spot
        assert (tmp_path / "s.png").exists()


async def test_a_gpx_track_gives_the_places_afterwards(tmp_path: Path) -> None:
    async with owner_of(tmp_path) as person:
        output = str(tmp_path / "s")
        process = await start(person, "--output", output)
        await samples(process, 2)
        process.send_signal(signal.SIGINT)
        assert (await ended(process))["without_place"] > 0
        assert not (tmp_path / "s.png").exists()
        ats = [one["properties"]["at"] for one in json.loads((tmp_path / "s.geojson").read_text())["features"]]
        points = "".join(f'<trkpt lat="48.1" lon="11.5"><time>{at}</time></trkpt>' for at in ats)
        (tmp_path / "walk.gpx").write_text(f"<gpx><trk><trkseg>{points}</trkseg></trk></gpx>")
        process = await start(
            person, "--output", output, "--resume", "--seconds", "0", "--positions", str(tmp_path / "walk.gpx")
        )
        summary = await ended(process)
        assert (summary["without_place"], (tmp_path / "s.png").exists()) == (0, True)


async def test_a_mower_that_mows_says_where_it_is(tmp_path: Path) -> None:
    async with owner_of(tmp_path) as person:
        mower = await person.add_simulator(lat=48.137, lon=11.575)
        await person.command(mower["mower_id"], "start_mow")
        process = await start(person, "--output", str(tmp_path / "s"), "--track", mower["name"])
        found = [one for one in await samples(process, 3) if one.get("place")]
        assert found
        process.send_signal(signal.SIGTERM)
        await ended(process)
        assert all(one["adapter"] == "state" and one["wifi_dbm"] < 0 and one["rssi_dbm"] is None for one in found)
        assert all(abs(one["place"]["lat"] - 48.137) < 0.01 for one in found)
