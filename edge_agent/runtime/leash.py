"""Plugin code that is ended when something else happens first: a lane that failed, an emergency stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from core.domain import limits
from core.platform import fire_door

T = TypeVar("T")


async def run_until(
    stop: asyncio.Future[Any],
    work: Callable[[], Awaitable[T]],
    *,
    where: str,
    deadline_s: float | None = None,
    close_deadline_s: float = limits.CLOSE_DEADLINE_S,
) -> T | None:
    """The result of `work()` behind the fire door (MowdeckErrors only), or None when `stop` was done first; the
    work is then cancelled, and abandoned when it does not end within `close_deadline_s`."""
    call = fire_door.call(work, where=where, deadline_s=deadline_s, close_deadline_s=close_deadline_s)
    task = asyncio.create_task(call, name=f"{where} (leash)")
    try:
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_stopped = not task.done()
        if is_stopped:
            task.cancel()
            await asyncio.wait({task})
    if is_stopped:
        if not task.cancelled():
            task.exception()
        return None
    return task.result()
