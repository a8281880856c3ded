"""Plugin code that is ended when something else happens first: a lane that failed, an emergency stop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from core.domain import limits
from core.domain.errors import MowdeckError
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

    async def settle() -> tuple[T | None, MowdeckError | None]:
        # An error is a value here: a group that fails while its owner is being cancelled would eat the cancellation.
        try:
            return await fire_door.call(
                work, where=where, deadline_s=deadline_s, close_deadline_s=close_deadline_s
            ), None
        except MowdeckError as err:
            return None, err

    async with asyncio.TaskGroup() as group:
        task = group.create_task(settle(), name=f"{where} (leash)")
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        is_stopped = not task.done()
        if is_stopped:
            task.cancel()
    if is_stopped:
        return None
    value, error = task.result()
    if error is not None:
        raise error
    return value
