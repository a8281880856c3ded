"""Every fault of the design by a word that a person types, and what cannot be understood changes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bleak import BleakClient, BleakScanner
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from core.domain.errors import InvalidInputError
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.command_line import app
from edge_agent.virtual_radio.peer_faults import PeerFaults
from edge_agent.virtual_radio.peer_host import HostedPeer
from edge_agent.virtual_radio.typed_faults import LINE_BYTES, WORDS, TypedLines, check_fault, do_fault, may_read
from tests.edge_agent.virtual_radio.echo_mower import ADDRESS, EchoMower

FIRMWARE: dict[str, Callable[[PeerFaults], object]] = {
    "closed": lambda faults: faults.is_pairing_closed,
    "drop": lambda faults: faults.hang_up_after == 1,
    "drop 2": lambda faults: faults.hang_up_after == 2,
    "lose 3": lambda faults: faults.lose_notifications == 3,
    "garble": lambda faults: faults.corrupt_notifications == 1,
    "merge": lambda faults: faults.is_merging,
    "slow 0.5": lambda faults: faults.answer_delay_s == 0.5,
    "mute": lambda faults: faults.is_mute,
    "taken": lambda faults: faults.is_occupied,
}


@pytest.fixture
async def mower(air: VirtualAir) -> HostedPeer:
    await air.add_adapter("hci0")
    return await air.add_peer(EchoMower(security="encrypted"))


@pytest.mark.parametrize("line", FIRMWARE)
async def test_a_fault_of_the_firmware_begins_and_is_healed(air: VirtualAir, mower: HostedPeer, line: str) -> None:
    assert not FIRMWARE[line](mower.faults)
    await do_fault(air, line)
    assert FIRMWARE[line](mower.faults)
    await do_fault(air, "heal")
    assert mower.faults == PeerFaults()


async def test_closed_and_taken_have_their_own_ends(air: VirtualAir, mower: HostedPeer) -> None:
    for line in ("closed", "taken", "open", "free"):
        await do_fault(air, line)
    assert mower.faults == PeerFaults()


async def test_weak_and_away_also_for_a_box_that_comes_later(air: VirtualAir, mower: HostedPeer) -> None:
    for line in ("weak", "away"):
        await do_fault(air, line)
    await air.add_adapter("late")
    for name in ("hci0", "late"):
        assert (air.path(name, mower.name).rssi_dbm, air.path(name, mower.name).is_out_of_range) == (-91, True)
    await do_fault(air, "back")
    assert (air.path("late", mower.name).rssi_dbm, air.path("late", mower.name).is_out_of_range) == (-91, False)
    await do_fault(air, "heal")
    await air.add_adapter("later")
    assert {air.path(name, mower.name).rssi_dbm for name in ("hci0", "late", "later")} == {-60}


async def test_bonds_are_lost_and_power_comes_back(air: VirtualAir) -> None:
    reboots: list[float] = []

    class Mower(EchoMower):
        def rebooted(self) -> None:
            reboots.append(asyncio.get_running_loop().time())

    mower = await air.add_peer(Mower(security="encrypted"))
    box = await air.add_adapter("hci0")
    async with asyncio.timeout(60):
        device = await BleakScanner.find_device_by_address(ADDRESS, backend=box.scanner)
        assert device is not None
        client = BleakClient(device, backend=box.client)
        await client.connect()
        await client.pair()
        assert await mower.key_store.get_all()
        await do_fault(air, "forget")
        assert not await mower.key_store.get_all()
        await do_fault(air, "kick")
        assert not client.is_connected
    began = asyncio.get_running_loop().time()
    await do_fault(air, "reboot 30")
    assert reboots == [pytest.approx(began + 30)]


@pytest.mark.parametrize(
    "line", ["", "dance", "weak strong", "weak -91 2", "weak nan", "weak 10", "mute 1", "lose 0.0"]
)
async def test_what_makes_no_sense_changes_nothing(air: VirtualAir, mower: HostedPeer, line: str) -> None:
    with pytest.raises(InvalidInputError):
        await do_fault(air, line)
    assert mower.faults == PeerFaults()


def test_every_word_is_understood_as_it_stands() -> None:
    for word in WORDS:
        check_fault(word)


@given(st.lists(st.binary(max_size=400)))
def test_lines_come_whole_and_bounded_whatever_is_typed(chunks: list[bytes]) -> None:
    lines = TypedLines()
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    assert all(0 < len(line) <= LINE_BYTES for line in found)
    if all(len(line) <= LINE_BYTES for line in b"".join(chunks).split(b"\n")):
        wanted = [line.decode(errors="replace").strip() for line in b"".join(chunks).split(b"\n")[:-1]]
        assert found == [line for line in wanted if line]


def test_nobody_types_into_what_is_no_pipe_and_no_terminal() -> None:
    with Path(os.devnull).open("rb") as nothing:
        assert not may_read(nothing.fileno())


def test_a_radio_that_cannot_be_served_is_said_in_words(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["husqvarna_ble", "--radio", f"unix:{tmp_path / 'nowhere' / 'radio'}"])
    assert result.exit_code == 2
    assert "No such file" in result.output
    assert "Traceback" not in result.output
