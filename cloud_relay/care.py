"""What the relay does by itself, again and again: closing silent commands, forgetting what is over, retention."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """Work that is repeated `every_s` seconds after it has ended; one round takes `limit_s` at most."""

    name: str
    every_s: float
    work: Callable[[], Awaitable[object]]
    limit_s: float = 60.0


async def run_chores(chores: Sequence[Chore], sleep: Sleep = asyncio.sleep) -> None:
    """Runs until cancelled. A chore that fails is tried again at its next turn; the others never notice."""
    async with asyncio.TaskGroup() as group:
        for chore in chores:
            group.create_task(_repeat(chore, sleep), name=f"chore-{chore.name}")


async def _repeat(chore: Chore, sleep: Sleep) -> None:
    is_failing = False
    while True:
        await sleep(chore.every_s)
        try:
            async with asyncio.timeout(chore.limit_s):
                await chore.work()
        except Exception as err:  # fire door: a chore must not end the relay; it is logged once and tried again
            if not is_failing:
                log.exception("chore failed, goes on", chore=chore.name, error=str(err))
            is_failing = True
        else:
            if is_failing:
                log.info("chore works again", chore=chore.name)
            is_failing = False
