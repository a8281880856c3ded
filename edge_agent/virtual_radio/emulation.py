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
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from core.domain.clock import SystemClock
from core.domain.errors import InvalidInputError, NotFoundError, RequirementMissingError
from core.platform.emulation import EmulatedPeer
from edge_agent.proxies.book import check_key
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.key_file import KeyFile
from edge_agent.virtual_radio.radio_control import RadioControl
from edge_agent.virtual_radio.radio_server import RadioServer
from edge_agent.virtual_radio.radio_spec import RadioSpec, parse_radio_spec
from edge_agent.virtual_radio.typed_faults import check_fault, do_fault, help_text, typed

if TYPE_CHECKING:  # aioesphomeapi is loaded only where a proxy is wanted
    from edge_agent.virtual_radio.emulated_proxy import EmulatedProxy

FIRST_ADDRESS = "C0:00:00:00:00:01"
PROXY_ADDRESS = "F0:00:00:00:02:01"
ADDRESS = re.compile(r"([0-9A-F]{2}:){5}[0-9A-F]{2}")
TYPED_MAX = 32
"""Typed lines that wait for their turn."""
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
    proxy: str = "",
    proxy_key_file: Path | None = None,
    faults: Sequence[str] = (),
    typed_fd: int | None = None,
) -> None:
    """Until SIGINT or SIGTERM. With `keys` the mowers know their bonded boxes again after a restart; with `proxy`
    (tcp:127.0.0.1:6053) an emulated ESPHome proxy is on the radio too. `faults` are there from
    the beginning; more may be typed at `typed_fd` (`typed_faults.py`)."""
    for line in faults:
        check_fault(line)
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
        if proxy:
            running = await stack.enter_async_context(open_proxy(air, parse_radio_spec(proxy), proxy_key_file))
            say(f"PROXY tcp:{running.host}:{running.port}")
        ready = f"READY {server.spec}"
        if control:
            controller = await stack.enter_async_context(RadioControl(air, parse_radio_spec(control)))
            ready += f" {controller.spec}"
        for line in faults:
            await do_fault(air, line)
        lines: asyncio.Queue[str] = asyncio.Queue(TYPED_MAX)
        if typed_fd is not None:
            stack.enter_context(typed(typed_fd, lambda line: None if lines.full() else lines.put_nowait(line)))
        say(ready)
        await _obey(air, lines, say, stop)


async def _obey(air: VirtualAir, lines: asyncio.Queue[str], say: Callable[[str], None], stop: asyncio.Event) -> None:
    """Does what is typed, one after the other, until `stop`. What comes too fast is dropped."""

    async def work() -> None:
        while True:
            line = await lines.get()
            if line in ("help", "?"):
                say(help_text())
                continue
            try:
                await do_fault(air, line)
                say(f"OK {line}")
            except InvalidInputError as err:
                say(f"NO {err.detail or err}; `help` shows all")

    async with asyncio.TaskGroup() as group:
        working = group.create_task(work(), name="typed faults")
        await stop.wait()
        working.cancel()


@asynccontextmanager
async def open_proxy(air: VirtualAir, spec: RadioSpec, key_file: Path | None) -> AsyncIterator[EmulatedProxy]:
    """An ESPHome Bluetooth proxy beside the mowers. InvalidInputError, RequirementMissingError."""
    try:
        from edge_agent.virtual_radio.emulated_proxy import EmulatedProxy
    except ImportError as err:
        raise RequirementMissingError(f"{err.name} is missing: pip install 'mowdeck[ble,emulate]'") from err
    if spec.path is not None:
        raise InvalidInputError.of("proxy", "a proxy is served over TCP: tcp:127.0.0.1:6053")
    key = None
    if key_file is not None:
        try:
            key = (await asyncio.to_thread(key_file.read_text)).strip()
        except (OSError, UnicodeDecodeError) as err:
            raise InvalidInputError.of("proxy_key_file", f"{key_file} cannot be read") from err
        check_key(key)
    backend = await air.add_adapter("emulated-proxy", address=PROXY_ADDRESS)
    async with EmulatedProxy(backend, key=key, host=spec.host, port=spec.port) as proxy:
        yield proxy


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
