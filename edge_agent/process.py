"""The box as a process: ended by signals, and leaving also when a plugin will not."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence

import structlog

from core.platform import fire_door
from edge_agent.app import run
from edge_agent.settings import EdgeSettings

log = structlog.get_logger(__name__)


async def main(settings: EdgeSettings) -> None:
    """Runs the box until SIGTERM or SIGINT. MowdeckError when it cannot start."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    try:
        await run(settings, ending)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    leave(fire_door.abandoned())


def leave(abandoned: Sequence[str]) -> None:
    """Everything of ours is closed. Tasks of plugins that refuse to end would keep `asyncio.run` for ever, so the
    process ends without them."""
    if abandoned:
        log.warning("tasks of plugins would not end; leaving without them", tasks=list(abandoned))
        os._exit(0)
