"""A whole radio in one process: adapters, emulated mowers and the air between them.

async with VirtualAir() as air:
    box = await air.add_adapter("hci0")
    mower = await air.add_peer(MyMower("C0:00:00:00:00:01"))
    air.path("hci0", mower.name).rssi_dbm = -80
    async with BleakClient(mower.name, backend=box.client) as client: ...
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from bumble.device import Device
from bumble.hci import Address
from bumble.host import Host
from bumble.keys import MemoryKeyStore
from bumble.transport.common import AsyncPipeSink

from core.platform.emulation import CONNECTION_TIMEOUT, EmulatedPeer
from edge_agent.virtual_radio.adapter import VirtualAdapter
from edge_agent.virtual_radio.backend import VirtualBackend, bind
from edge_agent.virtual_radio.peer_host import HostedPeer
from edge_agent.virtual_radio.radio_controller import RadioController
from edge_agent.virtual_radio.radio_link import SUPERVISION_S, RadioLink
from edge_agent.virtual_radio.radio_path import RadioPath

ADAPTER_ADDRESS = "F0:00:00:00:00:{:02X}"


class VirtualAir:
    """Stations are known by name: an adapter by the name it was given, a mower by its address."""

    def __init__(self, *, seed: int = 0, supervision_s: float = SUPERVISION_S) -> None:
        self.link = RadioLink(seed=seed, supervision_s=supervision_s)
        self.adapters: dict[str, VirtualBackend] = {}
        self.peers: dict[str, HostedPeer] = {}
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes everything down: mowers, adapters, timers."""
        await self._close()
        # The group learns of a cancellation, which may be its own doing; other failures are not its to wrap.
        is_cancelled = isinstance(err, asyncio.CancelledError)
        await self._group.__aexit__(*((kind, err, trace) if is_cancelled else (None, None, None)))

    async def _close(self) -> None:
        for name in list(self.peers):
            await self.remove_peer(name)
        for name in list(self.adapters):
            await self.remove_adapter(name)
        self.link.close()

    async def add_adapter(self, name: str = "hci0", *, address: str | None = None) -> VirtualBackend:
        """A powered adapter on this air, with its own empty set of bonds."""
        own = address or ADAPTER_ADDRESS.format(len(self.adapters) + 1)
        device, _ = self._station(name, own)
        backend = bind(VirtualAdapter(name, device))
        await backend.adapter.open()
        self.adapters[name] = backend
        return backend

    async def remove_adapter(self, name: str) -> None:
        """Unplugged: its connections end, later calls raise that Bluetooth is not available."""
        backend = self.adapters.pop(name, None)
        if backend is None:
            return
        station = self.link.station(name)
        if station is not None:
            self.link.remove_controller(station)
        await backend.adapter.close()

    async def add_peer(self, peer: EmulatedPeer, *, key_store: MemoryKeyStore | None = None) -> HostedPeer:
        """A mower on the air, with the bonds of `key_store` or none; returns when it advertises."""
        device, controller = self._station(peer.address, peer.address)
        hosted = HostedPeer(peer, device, self.link, controller, self._spawn, key_store=key_store)
        self.peers[hosted.name] = hosted
        await hosted.open()
        return hosted

    async def remove_peer(self, address: str) -> None:
        """The mower is gone, as if its battery had been taken out."""
        hosted = self.peers.pop(address.upper(), None)
        if hosted is not None:
            with contextlib.suppress(KeyError):
                await hosted.close()

    def path(self, first: str, second: str) -> RadioPath:
        """The air between two stations; set its fields at will."""
        return self.link.path(first, second)

    def set_out_of_range(self, first: str, second: str, is_out: bool = True) -> None:
        """Connections between the two end after the supervision timeout unless they meet again before."""
        self.link.set_out_of_range(first, second, is_out)

    def cut(self, first: str, second: str, reason: int = CONNECTION_TIMEOUT) -> bool:
        """Ends their connection at once, with what is on its way. Whether there was one."""
        return self.link.cut(first, second, reason)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return self._group.create_task(work, name=name)

    def _station(self, name: str, address: str) -> tuple[Device, RadioController]:
        if self.link.station(name) is not None:
            raise ValueError(f"{name} is on the air already")
        controller = RadioController(name, link=self.link)
        host = Host(controller, AsyncPipeSink(controller))
        return Device(name=name, address=Address(address), host=host), controller
