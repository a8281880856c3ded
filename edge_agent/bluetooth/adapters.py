"""Which adapters the box uses: the machine's own, named ones, or a virtual radio (`mowdeck emulate`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from core.domain.clock import Clock, SystemClock
from core.domain.errors import InvalidInputError, RequirementMissingError
from edge_agent.bluetooth.adapter import BluetoothAdapter
from edge_agent.bluetooth.machine import ADAPTER, SYSFS, machine_adapters
from edge_agent.bluez.opening import open_bluez

if TYPE_CHECKING:  # loaded only where there is a virtual radio
    from edge_agent.virtual_radio.key_file import KeyFile

VIRTUAL = "virtual:"
PROXIES_ONLY = "proxies"


@asynccontextmanager
async def open_adapters(
    wanted: Sequence[str], *, sysfs: Path = SYSFS, keys: Path | None = None, clock: Clock | None = None
) -> AsyncIterator[list[BluetoothAdapter]]:
    """`auto`: all of the machine; `proxies`: none of them; `hci0`: that one, plugged in or not; `virtual:unix:/path` or
    `virtual:tcp:127.0.0.1:9001`: the radio of `mowdeck emulate`.

    Virtual adapters keep the keys of their bonds in the file `keys`, as BlueZ does for real ones; without it they
    forget them. InvalidInputError; AdapterOffError when nobody serves the virtual radio; RequirementMissingError
    without bumble.
    """
    async with AsyncExitStack() as stack:
        found: dict[str, BluetoothAdapter] = {}
        real: dict[str, None] = {}
        key_file: KeyFile | None = None
        for number, text in enumerate(wanted):
            if text == PROXIES_ONLY:
                continue
            if text == "auto":
                real |= dict.fromkeys(await asyncio.to_thread(machine_adapters, sysfs))
            elif ADAPTER.fullmatch(text):
                real.setdefault(text)
            elif text.startswith(VIRTUAL):
                if key_file is None and keys is not None:
                    key_file = await _open_keys(stack, keys, clock or SystemClock())
                adapter = await _open_virtual(stack, text.removeprefix(VIRTUAL), number, key_file)
                found[adapter.name] = adapter
            else:
                raise InvalidInputError.of(
                    "bluetooth", f"{text!r} is neither auto, nor proxies, nor hci0, nor virtual:..."
                )
        if real:
            make_adapter = await stack.enter_async_context(open_bluez())
            found |= {name: make_adapter(name) for name in real}
        yield list(found.values())


async def _open_keys(stack: AsyncExitStack, path: Path, clock: Clock) -> KeyFile:
    try:
        from edge_agent.virtual_radio.key_file import KeyFile
    except ImportError as err:
        raise RequirementMissingError(f"{err.name} is missing: pip install 'mowdeck[emulate]'") from err
    return await stack.enter_async_context(KeyFile(path, clock))


async def _open_virtual(stack: AsyncExitStack, radio: str, number: int, key_file: KeyFile | None) -> BluetoothAdapter:
    try:
        from edge_agent.virtual_radio.box_adapter import box_adapter
        from edge_agent.virtual_radio.radio_spec import parse_radio_spec
        from edge_agent.virtual_radio.remote_adapter import open_remote_adapter
    except ImportError as err:
        raise RequirementMissingError(f"{err.name} is missing: pip install 'mowdeck[emulate]'") from err
    address = f"F0:00:00:00:01:{number + 1:02X}"
    key_store = None if key_file is None else key_file.store(address)
    remote = open_remote_adapter(parse_radio_spec(radio), name=f"virtual{number}", address=address, key_store=key_store)
    return box_adapter(await stack.enter_async_context(remote))
