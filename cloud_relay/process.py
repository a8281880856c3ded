"""The relay as a process: ended by signals, and what it says when a part fails."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

from core.domain.errors import MowdeckError


def ending_by_signal() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second one finds the system's own handlers again."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def end() -> None:
        ending.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, end)
    return ending


def failures_of(group: BaseExceptionGroup[BaseException]) -> Iterator[MowdeckError]:
    """The expected failures within a group, in order."""
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from failures_of(one)
        elif isinstance(one, MowdeckError):
            yield one
