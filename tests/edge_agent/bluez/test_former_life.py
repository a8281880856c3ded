"""The box's plugins on BlueZ: what a former life has left is closed at start, for the mowers of entries only."""

from __future__ import annotations

from pathlib import Path

from core.domain.clock import SystemClock
from edge_agent.plugins import open_plugins
from edge_agent.settings import EdgeSettings
from tests.edge_agent.bluez.conftest import ADDRESS
from tests.fakes.fake_bluez import FakeBluez, Peer

NEIGHBOUR = "C0:00:00:00:00:02"


async def test_at_start_the_connections_of_entries_are_closed(bluez: FakeBluez, tmp_path: Path) -> None:
    settings = EdgeSettings(data_dir=tmp_path, bluetooth=("hci0",))
    async with open_plugins(settings, SystemClock()) as plugins:
        data = {"address": ADDRESS, "name": "Mower"}
        await plugins.entries.add(domain="grouw_ble", title="Mower", source="user", unique_id=ADDRESS, data=data)
    bluez.remember(Peer(address=ADDRESS, is_on_air=False), connected=True)
    bluez.remember(Peer(address=NEIGHBOUR, is_on_air=False), connected=True)
    async with open_plugins(settings, SystemClock()):
        assert not bluez.device(ADDRESS)["Connected"]
        assert bluez.device(NEIGHBOUR)["Connected"]
