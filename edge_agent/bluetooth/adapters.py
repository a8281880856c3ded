"""Which adapters the box uses: the machine's own, named ones, or a virtual radio (`mowdeck emulate`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from core.domain.errors import InvalidInputError, RequirementMissingError
from edge_agent.bluetooth.adapter import BluetoothAdapter
from edge_agent.bluetooth.machine import ADAPTER, SYSFS, machine_adapters
from edge_agent.bluez.opening import open_bluez

VIRTUAL = "virtual:"


@asynccontextmanager
async def open_adapters(wanted: Sequence[str], *, sysfs: Path = SYSFS) -> AsyncIterator[list[BluetoothAdapter]]:
    """`auto`: all of the machine; `hci0`: that one, plugged in or not; `virtual:unix:/path` or
    `virtual:tcp:127.0.0.1:9001`: the radio of `mowdeck emulate`.

    InvalidInputError; AdapterOffError when nobody serves the virtual radio; RequirementMissingError without bumble.
    """
    async with AsyncExitStack() as stack:
        found: dict[str, BluetoothAdapter] = {}
        real: dict[str, None] = {}
        for number, text in enumerate(wanted):
            if text == "auto":
                real |= dict.fromkeys(await asyncio.to_thread(machine_adapters, sysfs))
            elif ADAPTER.fullmatch(text):
                real.setdefault(text)
            elif text.startswith(VIRTUAL):
                adapter = await _open_virtual(stack, text.removeprefix(VIRTUAL), number)
                found[adapter.name] = adapter
            else:
                raise InvalidInputError.of("bluetooth", f"{text!r} is neither auto, nor hci0, nor virtual:...")
        if real:
            make_adapter = await stack.enter_async_context(open_bluez())
            found |= {name: make_adapter(name) for name in real}
        yield list(found.values())


async def _open_virtual(stack: AsyncExitStack, radio: str, number: int) -> BluetoothAdapter:
    try:
        from edge_agent.virtual_radio.box_adapter import box_adapter
        from edge_agent.virtual_radio.radio_spec import parse_radio_spec
        from edge_agent.virtual_radio.remote_adapter import open_remote_adapter
    except ImportError as err:
        raise RequirementMissingError(f"{err.name} is missing: pip install 'mowdeck[emulate]'") from err
    address = f"F0:00:00:00:01:{number + 1:02X}"
    remote = open_remote_adapter(parse_radio_spec(radio), name=f"virtual{number}", address=address)
    return box_adapter(await stack.enter_async_context(remote))
