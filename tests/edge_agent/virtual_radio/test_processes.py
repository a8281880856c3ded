"""The radio shared between processes: real sockets, real time, real children."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from bleak import BleakClient, BleakScanner
from bleak.exc import BleakBluetoothNotAvailableError

from core.domain.clock import SystemClock
from core.domain.errors import AdapterOffError, BondLostError, InvalidInputError, NotFoundError
from edge_agent.bluetooth.adapters import open_adapters
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.opening import open_bluetooth
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.backend import VirtualBackend
from edge_agent.virtual_radio.emulation import make_peer
from edge_agent.virtual_radio.radio_control import RadioControl
from edge_agent.virtual_radio.radio_server import RadioServer
from edge_agent.virtual_radio.radio_spec import RadioSpec, parse_radio_spec
from edge_agent.virtual_radio.remote_adapter import open_remote_adapter
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, COMMAND, NAME, EchoMower

FREE = RadioSpec()
CHILD = """
import asyncio, pathlib, signal, sys
from edge_agent.virtual_radio import emulation
from tests.edge_agent.virtual_radio.echo_mower import EchoMower
emulation.make_peer = lambda domain, address, options: EchoMower(address, security="encrypted")
asyncio.run(emulation.run_emulation("echo", radio=sys.argv[1], control="tcp::0", addresses=[], options={},
    keys=pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None, say=lambda text: print(text, flush=True)))
"""


@pytest.fixture(params=["tcp", "unix"])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[VirtualAir, RadioServer]]:
    spec = FREE if request.param == "tcp" else RadioSpec(path=str(tmp_path / "radio.sock"))
    async with VirtualAir(supervision_s=0.3) as air, RadioServer(air.link, spec) as server:
        yield air, server


async def connect(box: VirtualBackend) -> BleakClient:
    device = await BleakScanner.find_device_by_address(ADDRESS, backend=box.scanner, timeout=10)
    assert device is not None
    client = BleakClient(device, backend=box.client)
    await client.connect()
    return client


async def test_a_box_in_another_process_pairs_and_talks(served: tuple[VirtualAir, RadioServer]) -> None:
    air, server = served
    mower = EchoMower(security="encrypted")
    await air.add_peer(mower)
    async with open_remote_adapter(server.spec) as box:
        client = await connect(box)
        await client.pair()
        await client.write_gatt_char(COMMAND, b"x", response=True)
        await client.disconnect()
        client = await connect(box)
        await client.write_gatt_char(COMMAND, b"y", response=True)
        await client.disconnect()
    assert mower.written == [b"x", b"y"]


async def test_a_box_that_dies_is_noticed_by_supervision(served: tuple[VirtualAir, RadioServer]) -> None:
    air, server = served
    mower = EchoMower()
    hosted = await air.add_peer(mower)
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        box = await stack.enter_async_context(open_remote_adapter(server.spec))
        await connect(box)
        assert len(hosted.sessions) == 1
        started = loop.time()
        for client in server.clients.values():
            assert client.transport is not None
            client.transport.abort()
        async with asyncio.timeout(5):
            while hosted.sessions:
                await asyncio.sleep(0.01)
        assert loop.time() - started > 0.25
    async with open_remote_adapter(server.spec) as box:
        client = await connect(box)
        assert await client.read_gatt_char(NAME) == b"Echo"
        await client.disconnect()


async def test_faults_from_outside(served: tuple[VirtualAir, RadioServer]) -> None:
    air, server = served
    hosted = await air.add_peer(EchoMower())
    async with RadioControl(air, FREE) as control, open_remote_adapter(server.spec) as box:
        client = await connect(box)
        reader, writer = await asyncio.open_connection(control.spec.host, control.spec.port)

        async def ask(**request: object) -> dict[str, object]:
            writer.write(json.dumps(request).encode() + b"\n")
            answer = json.loads(await reader.readline())
            assert isinstance(answer, dict)
            return answer

        assert await ask(do="stations") == {"ok": True, "stations": [ADDRESS, "remote-1"]}
        between = ["remote-1", ADDRESS]
        assert await ask(do="path", between=between, rssi_dbm=-88) == {"ok": True}
        assert air.path("remote-1", ADDRESS).rssi_dbm == -88
        assert await ask(do="faults", mower=ADDRESS, is_mute=True) == {"ok": True}
        assert hosted.faults.is_mute
        assert await ask(do="cut", between=between) == {"ok": True, "was_connected": True}
        assert not (await ask(do="faults", mower=ADDRESS, is_mute=3))["ok"]
        assert not (await ask(do="faults", mower=ADDRESS, nonsense=True))["ok"]
        assert not (await ask(do="path", between=["one"]))["ok"]
        assert not (await ask(do="dance"))["ok"]
        assert not (await ask(do="kick", mower="nobody"))["ok"]
        writer.write(b"not json\n")
        assert not json.loads(await reader.readline())["ok"]
        async with asyncio.timeout(5):
            while client.is_connected:
                await asyncio.sleep(0.01)
        writer.close()


@asynccontextmanager
async def emulator(radio: str, *more: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, RadioSpec]]:
    root = Path(__file__).parents[3]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, radio, *more, cwd=root, stdout=asyncio.subprocess.PIPE, env={**os.environ}
    )
    try:
        assert child.stdout is not None
        async with asyncio.timeout(30):
            word, spec, _ = (await child.stdout.readline()).decode().split()
        assert word == "READY"
        yield child, parse_radio_spec(spec)
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
        child._transport.close()  # type: ignore[attr-defined]


async def test_the_emulator_dies_and_comes_back(tmp_path: Path) -> None:
    radio = f"unix:{tmp_path}/radio.sock"
    loop = asyncio.get_running_loop()
    async with emulator(radio) as (child, spec), open_remote_adapter(spec) as box:
        client = await connect(box)
        await client.pair()
        started = loop.time()
        child.kill()
        async with asyncio.timeout(5):
            while client.is_connected:
                await asyncio.sleep(0.001)
        assert loop.time() - started < 1
        with pytest.raises(BleakBluetoothNotAvailableError):
            await client.connect()
    async with emulator(radio) as (child, spec), open_remote_adapter(spec) as box:
        client = await connect(box)
        assert await client.read_gatt_char(NAME) == b"Echo"
        child.terminate()
        assert await child.wait() == 0


async def test_the_boxs_service_over_the_radio_of_another_process(tmp_path: Path) -> None:
    async with emulator(f"unix:{tmp_path}/radio.sock") as (_, spec), open_adapters([f"virtual:{spec}"]) as adapters:
        assert [adapter.name for adapter in adapters] == ["virtual0"]
        async with BluetoothService(adapters, clock=SystemClock(), bonds=BondBook()) as bluetooth:
            async with bluetooth.connect(ADDRESS, bond="pair", deadline_s=20) as connection:
                await connection.write(COMMAND, b"x")
            async with bluetooth.connect(ADDRESS, bond="existing", deadline_s=20) as connection:
                assert await connection.read(NAME) == b"Echo"


async def test_box_and_mower_start_again_and_need_no_pairing(tmp_path: Path) -> None:
    keys, wanted = str(tmp_path / "mower.json"), [f"virtual:unix:{tmp_path}/radio.sock"]
    for life in range(2):
        async with (
            emulator(wanted[0].removeprefix("virtual:"), keys),
            open_bluetooth(wanted, tmp_path / "box", SystemClock()) as bluetooth,
        ):
            assert bluetooth is not None
            async with bluetooth.connect(ADDRESS, bond="existing" if life else "pair", deadline_s=20) as connection:
                await connection.write(COMMAND, b"x")
    async with (
        emulator(wanted[0].removeprefix("virtual:")),
        open_bluetooth(wanted, tmp_path / "box", SystemClock()) as box,
    ):
        assert box is not None
        with pytest.raises(BondLostError):  # a mower that remembers nobody
            async with box.connect(ADDRESS, bond="existing", deadline_s=20):
                pass


async def test_nobody_serves_a_radio(tmp_path: Path) -> None:
    with pytest.raises(AdapterOffError, match="nobody serves"):
        async with open_remote_adapter(RadioSpec(path=str(tmp_path / "none"))):
            pass


@pytest.mark.parametrize(
    "text", ["", "unix:", "tcp:192.168.1.5:9001", "tcp:host.example:1", "tcp:127.0.0.1:x", "usb:0"]
)
def test_a_radio_is_only_ever_on_this_machine(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_radio_spec(text)


@pytest.mark.parametrize("text", ["unix:/run/x.sock", "tcp:127.0.0.1:9001", "tcp:localhost:0"])
def test_radio_specs(text: str) -> None:
    assert str(parse_radio_spec(text)) == text


def test_emulated_mowers_are_found_by_domain() -> None:
    assert make_peer("husqvarna_ble", "c0:00:00:00:00:09", {}).address == "C0:00:00:00:00:09"
    with pytest.raises(NotFoundError):
        make_peer("nobody", ADDRESS, {})
    for domain, address in (("../x", ADDRESS), ("husqvarna_ble", "nonsense")):
        with pytest.raises(InvalidInputError):
            make_peer(domain, address, {})


async def test_faults_are_typed_at_the_emulator(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "core.command_line", "emulate", "husqvarna_ble", "--radio", f"unix:{tmp_path / 'r'}"),
        *("--fault", "closed"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        async with asyncio.timeout(30):
            assert (await child.stdout.readline()).startswith(b"READY")
            child.stdin.write(b"weak -91\ndance\nhel")
            assert await child.stdout.readline() == b"OK weak -91\n"
            assert (await child.stdout.readline()).startswith(b"NO ")
            child.stdin.write(b"p\n")
            assert b"not in pairing mode" in await child.stdout.readline()
            child.stdin.close()
            child.terminate()
            await child.communicate()
            assert child.returncode == 0
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
