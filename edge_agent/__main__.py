"""The box as a program: what `mowdeck edge run` becomes, and what a service unit starts."""

from __future__ import annotations

import sys

from core.command_line.host_daemon import run_host
from edge_agent.settings import EdgeSettings, load_settings


async def _main(settings: EdgeSettings) -> None:
    from edge_agent.process import main  # a wrong setting is told without loading the box

    await main(settings)


sys.exit(run_host("edge", load_settings, _main))
