"""The box's Bluetooth service and emulated ESPHome proxies; the real client libraries between them, over real sockets."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from core.domain.clock import SystemClock
from core.platform.secret_store import SecretStore
from edge_agent.bluetooth.bond_book import BondBook
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.proxies.book import ProxyBook
from edge_agent.proxies.desk import ProxyDesk
from edge_agent.proxies.pace import Pace
from edge_agent.proxies.record import ProxyStatus
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.box_adapter import box_adapter
from edge_agent.virtual_radio.emulated_proxy import EmulatedProxy

KEY = "bW93ZGVjayBwcm94eSBrZXkgb2YgMzIgYnl0ZXMgISE="
DEADLINE_S = 20.0


class World:
    """A box without an adapter of its own, and proxies on the air of its mowers."""

    def __init__(self, air: VirtualAir, folder: Path, stack: AsyncExitStack) -> None:
        self.air = air
        self.folder = folder
        self.bonds = BondBook()
        self.pace = Pace(connect_s=2.0, retry_first_s=0.05, retry_max_s=0.1, person_s=0.5, confirm_s=0.3)
        self._stack = stack
        self._numbers = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def proxy(self, name: str, **options: Any) -> EmulatedProxy:
        self._numbers += 1
        backend = await self.air.add_adapter(name)
        mac = f"A0:B7:65:00:00:{self._numbers:02X}"
        return await self._stack.enter_async_context(EmulatedProxy(backend, mac=mac, **options))

    async def start(self, *adapters: str) -> None:
        """The box, with local adapters of these names."""
        own = [box_adapter(await self.air.add_adapter(name)) for name in adapters]
        clock = SystemClock()
        self.secrets = SecretStore(self.folder, clock)
        self.secrets.load()
        self._stack.callback(self.secrets.close)
        self.service = await self._stack.enter_async_context(BluetoothService(own, clock=clock, bonds=self.bonds))
        self.book = ProxyBook(self.folder, self.secrets, clock)
        self.book.load()
        self._stack.push_async_callback(self.stop_desk)
        self.use_book(self.book)
        await asyncio.sleep(0)

    def set_pace(self, **seconds: float) -> None:
        self.pace = dataclasses.replace(self.pace, **seconds)

    def use_book(self, book: ProxyBook) -> None:
        """A new life of the desk."""
        self.desk = self._make_desk(book, self.service)

    def _make_desk(self, book: ProxyBook, service: BluetoothService) -> ProxyDesk:
        desk = ProxyDesk(book, service, clock=SystemClock(), draw=lambda: 0.0, pace=self.pace)
        self._tasks.append(asyncio.create_task(desk.run(), name="desk"))
        return desk

    async def stop_desk(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()

    async def second_box(self) -> ProxyDesk:
        """Another program that wants the same proxies."""
        service = await self._stack.enter_async_context(BluetoothService([], clock=SystemClock(), bonds=BondBook()))
        self._stack.push_async_callback(self.stop_desk)
        book = ProxyBook(self.folder / "second", self.secrets, SystemClock())
        desk = self._make_desk(book, service)
        await asyncio.sleep(0)
        return desk

    async def join(self, proxy: EmulatedProxy, key: str | None = None) -> ProxyStatus:
        """Added by a person, and up."""
        status = await self.desk.add("127.0.0.1", proxy.port, key)
        return await self.see(status.record.proxy_id, lambda now: now.state in ("connected", "passive"))

    def status(self, proxy_id: str) -> ProxyStatus:
        return next(one for one in self.desk.statuses() if one.record.proxy_id == proxy_id)

    async def see(self, proxy_id: str, is_it: Callable[[ProxyStatus], bool]) -> ProxyStatus:
        await until(lambda: is_it(self.status(proxy_id)))
        return self.status(proxy_id)

    async def heard_by(self, address: str, *sources: str) -> None:
        """Until every one of them hears the mower."""
        seen = self.service._sightings
        await until(lambda: {path.source for path in seen.paths(address, SystemClock().monotonic())} >= set(sources))


async def until(is_it: Callable[[], object]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_it():
            await asyncio.sleep(0.01)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        air = await stack.enter_async_context(VirtualAir(seed=7, supervision_s=0.5))
        yield World(air, tmp_path, stack)
