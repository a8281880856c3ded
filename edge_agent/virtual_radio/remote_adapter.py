"""An adapter of this process on the virtual radio of another one (`mowdeck emulate`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bumble.device import Device
from bumble.hci import Address
from bumble.host import Host
from bumble.keys import MemoryKeyStore
from bumble.transport import open_transport

from core.domain.errors import AdapterOffError
from edge_agent.virtual_radio.adapter import VirtualAdapter
from edge_agent.virtual_radio.backend import VirtualBackend, bind
from edge_agent.virtual_radio.radio_spec import RadioSpec

OPEN_DEADLINE_S = 10.0
REMOTE_ADDRESS = "F0:00:00:00:01:01"


@asynccontextmanager
async def open_remote_adapter(
    spec: RadioSpec,
    *,
    name: str = "virtual0",
    address: str = REMOTE_ADDRESS,
    key_store: MemoryKeyStore | None = None,
) -> AsyncIterator[VirtualBackend]:
    """Bonds are kept in `key_store`, or end with the adapter. AdapterOffError when nobody serves a radio there. When the server dies the adapter is off for good, and its
    connections end at once."""
    text = f"unix-client:{spec.path}" if spec.path else f"tcp-client:{spec.host}:{spec.port}"
    try:
        async with asyncio.timeout(OPEN_DEADLINE_S):
            transport = await open_transport(text)
    except (OSError, TimeoutError) as err:
        raise AdapterOffError(f"nobody serves a radio at {spec}") from err
    try:
        host = Host(transport.source, transport.sink)
        adapter = VirtualAdapter(name, Device(name=name, address=Address(address), host=host), key_store=key_store)
        try:
            async with asyncio.timeout(OPEN_DEADLINE_S):
                await adapter.open()
        except TimeoutError as err:
            raise AdapterOffError(f"the radio at {spec} does not answer") from err
        adapter.lost = transport.source.terminated
        transport.source.terminated.add_done_callback(lambda _: adapter.lose())
        try:
            yield bind(adapter)
        finally:
            await adapter.close()
    finally:
        with contextlib.suppress(Exception):
            await transport.close()
