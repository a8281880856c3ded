"""The relay as a program: what `mowdeck relay run` becomes, and what a service unit starts."""

from __future__ import annotations

import sys

from cloud_relay.settings import RelaySettings, load_settings
from core.command_line.host_daemon import run_host


async def _main(settings: RelaySettings) -> None:
    from cloud_relay.app import run  # a wrong setting is told without loading the relay

    await run(settings)


sys.exit(run_host("relay", load_settings, _main))
