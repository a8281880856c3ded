"""What `mowdeck emulate` runs: a radio, its mowers, and a server for boxes of other processes.

An integration offers its emulated mower in `emulator.py`: `make_emulated_peer(address, options)`, or, where there is
nothing to choose, one subclass of EmulatedPeer that takes an address.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType

from core.domain.clock import SystemClock
from core.domain.errors import InvalidInputError, NotFoundError
from core.platform.emulation import EmulatedPeer
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.key_file import KeyFile
from edge_agent.virtual_radio.radio_control import RadioControl
from edge_agent.virtual_radio.radio_server import RadioServer
from edge_agent.virtual_radio.radio_spec import parse_radio_spec

FIRST_ADDRESS = "C0:00:00:00:00:01"
ADDRESS = re.compile(r"([0-9A-F]{2}:){5}[0-9A-F]{2}")
DOMAIN = re.compile(r"[a-z][a-z0-9_]{0,39}")


async def run_emulation(
    domain: str,
    *,
    radio: str,
    control: str,
    addresses: Sequence[str],
    options: Mapping[str, str],
    say: Callable[[str], None],
    keys: Path | None = None,
) -> None:
    """Until SIGINT or SIGTERM. With `keys` the mowers know their bonded boxes again after a restart."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    spec = parse_radio_spec(radio)
    async with AsyncExitStack() as stack:
        key_file = None if keys is None else await stack.enter_async_context(KeyFile(keys, SystemClock()))
        if key_file is not None and key_file.problem is not None:
            say(f"WARNING {key_file.problem}")
        air = await stack.enter_async_context(VirtualAir())
        for address in addresses or [FIRST_ADDRESS]:
            peer = make_peer(domain, address, options)
            await air.add_peer(peer, key_store=None if key_file is None else key_file.store(peer.address))
        server = await stack.enter_async_context(RadioServer(air.link, spec))
        ready = f"READY {server.spec}"
        if control:
            controller = await stack.enter_async_context(RadioControl(air, parse_radio_spec(control)))
            ready += f" {controller.spec}"
        say(ready)
        await stop.wait()


def make_peer(domain: str, address: str, options: Mapping[str, str]) -> EmulatedPeer:
    """The emulated mower of an integration. NotFoundError, InvalidInputError."""
    address = address.upper()
    if not ADDRESS.fullmatch(address):
        raise InvalidInputError.of("address", f"{address!r} is not like {FIRST_ADDRESS}")
    module = _emulator_of(domain)
    make = getattr(module, "make_emulated_peer", None)
    if make is not None:
        made = make(address, options)
        assert isinstance(made, EmulatedPeer)
        return made
    classes = [
        found
        for found in vars(module).values()
        if inspect.isclass(found) and issubclass(found, EmulatedPeer) and found.__module__ == module.__name__
    ]
    if len(classes) != 1:
        raise NotFoundError(f"integrations.{domain}.emulator offers no make_emulated_peer")
    if options:
        raise InvalidInputError.of("option", f"the emulator of {domain} takes none")
    peer: EmulatedPeer = classes[0](address)
    return peer


def _emulator_of(domain: str) -> ModuleType:
    name = f"integrations.{domain}.emulator"
    if not DOMAIN.fullmatch(domain):
        raise InvalidInputError.of("domain", f"{domain!r} is not the name of an integration")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as err:
        if err.name is not None and name.startswith(err.name):
            raise NotFoundError(f"{domain} has no emulator") from err
        raise
