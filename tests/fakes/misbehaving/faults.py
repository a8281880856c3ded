"""What can go wrong with a plugin, by name. `apply(how)` is awaited at the place that a test asked for."""

from __future__ import annotations

import asyncio
import time

from core.domain.errors import (
    AuthFailedError,
    EntryError,
    LinkLostError,
    LinkTimeoutError,
    NotReadyError,
    OutOfRangeError,
    RateLimitedError,
)


class OddError(BaseException):
    """No Exception: gets past every `except Exception`."""


class UnprintableError(Exception):
    """Cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text for you")

    __repr__ = __str__


RAISES: dict[str, object] = {
    "raise": lambda: ValueError("a bug, password=hunter2"),
    "unprintable": UnprintableError,
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "generator_exit": GeneratorExit,
    "stop_iteration": StopAsyncIteration,
    "cancelled": asyncio.CancelledError,
    "odd": OddError,
    "memory": MemoryError,
    "recursion": RecursionError,
    "group": lambda: ExceptionGroup("several", [ValueError("a"), AuthFailedError("refused")]),
    "connection": lambda: ConnectionResetError("peer"),
    "timeout": TimeoutError,
    "not_ready": lambda: NotReadyError("later"),
    "not_ready_long": lambda: NotReadyError("much later", retry_after_s=3000.0),
    "auth_failed": lambda: AuthFailedError("wrong password"),
    "entry_error": lambda: EntryError("cannot work"),
    "out_of_range": lambda: OutOfRangeError("not heard"),
    "link_lost": lambda: LinkLostError("gone"),
    "link_timeout": lambda: LinkTimeoutError("silent"),
    "rate_limited": lambda: RateLimitedError(retry_after_s=30.0),
}
"""How -> maker of what is raised."""

HANGS = ("hang", "stubborn", "block")
"""`hang` waits for ever, `stubborn` does so and swallows cancellation, `block` stops the whole loop for 0.2 s."""


def raise_fault(how: str) -> None:
    """Raises what `how` names; returns for every other fault."""
    make = RAISES.get(how)
    if make is not None:
        raise make()  # type: ignore[operator]
    if how == "block":
        time.sleep(0.2)


async def apply(how: str, stubborn_s: float) -> None:
    """Raises or hangs as `how` says; returns for every other fault."""
    raise_fault(how)
    if how == "hang":
        await asyncio.Event().wait()
    if how == "stubborn":
        await swallow_cancellation(stubborn_s)


async def swallow_cancellation(seconds: float) -> None:
    """Goes on for so long whoever cancels it (and then ends, so that a test's loop can close)."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
