"""A private message bus (a real dbus-daemon), a fake bluetoothd on it, and bleak's own way to BlueZ over both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from bleak.backends.bluezdbus.version import BlueZFeatures

from core.domain.clock import Clock, SystemClock
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.bluez.opening import open_bluez
from tests.fakes.dbus_daemon import DbusDaemon, running_dbus_daemon
from tests.fakes.fake_bluez import FakeBluez, Peer, running_fake_bluez

ADDRESS = "C0:00:00:00:00:01"
PATH = "/org/bluez/hci0/dev_C0_00_00_00_00_01"
NAME = "98bd0004-0b0e-421a-84e5-ddbf75dc6de4"

OpenBox = Callable[..., AbstractAsyncContextManager[BluetoothService]]


@pytest.fixture
async def daemon(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DbusDaemon]:
    async with running_dbus_daemon() as running:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", running.address)
        monkeypatch.setattr(BlueZFeatures, "checked_bluez_version", True)  # no bluetoothctl is asked for its version
        before = asyncio.all_tasks()
        yield running
        await running.stop()
        left = (
            asyncio.all_tasks() - before - {asyncio.current_task()}
        )  # bleak's watcher of its connection ends with the bus
        if left:
            await asyncio.wait(left, timeout=10)
        assert [task for task in left if not task.done()] == []


@pytest.fixture
async def bluez(daemon: DbusDaemon) -> AsyncIterator[FakeBluez]:
    async with running_fake_bluez(daemon.address) as running:
        yield running


@pytest.fixture
def mower(bluez: FakeBluez) -> Peer:
    """On the air, and unknown to BlueZ."""
    peer = bluez.peers[ADDRESS] = Peer(address=ADDRESS)
    return peer


@pytest.fixture
def open_box(bluez: FakeBluez) -> OpenBox:
    """The box's Bluetooth over the adapter hci0, as after a start."""

    @asynccontextmanager
    async def opened(clock: Clock | None = None) -> AsyncIterator[BluetoothService]:
        async with (
            open_bluez() as make_adapter,
            BluetoothService(
                [make_adapter("hci0")], clock=clock or SystemClock(), bonds=BondBook(), stuck_rest_s=0.05
            ) as service,
        ):
            yield service

    return opened


@pytest.fixture
async def box(open_box: OpenBox) -> AsyncIterator[BluetoothService]:
    async with open_box() as service:
        yield service
