"""Cancellation and bumble: its HCI commands must run to their end, and on Python 3.11 it can swallow a cancellation.

`asyncio.wait_for` of 3.11 returns the result when it is cancelled in the very moment in which the answer arrives; the
task that was to end then lives on. Everything that awaits bumble for the box goes through here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


async def run_uncut(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` to its end; a cancellation takes effect after that. `work` has a deadline of its own."""
    task = asyncio.get_running_loop().create_task(work, name="hci command")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise


@asynccontextmanager
async def held(work: Coroutine[Any, Any, T], name: str) -> AsyncIterator[asyncio.Task[T]]:
    """A task that a cancellation of the caller does not reach; it is dead when the block is left."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def cancellation_kept() -> AsyncIterator[None]:
    """A cancellation that was swallowed inside is raised at the end."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    yield
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


def is_being_cancelled() -> bool:
    """Whether somebody wants the current task to end, as opposed to a future that bumble cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
