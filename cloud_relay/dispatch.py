"""Messages of many boxes, worked off concurrently, but those of one box in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from core.domain.ids import EdgeId

Job = Callable[[], Awaitable[None]]


class Dispatch:
    """At most `concurrency` jobs at one time and one per box. How many wait is bounded by whoever adds them: the
    broker sends no more than its inflight limit before a message is acknowledged. A job never raises."""

    def __init__(self, group: asyncio.TaskGroup, *, name: str, concurrency: int) -> None:
        self._group = group
        self._name = name
        self._slots = asyncio.Semaphore(concurrency)
        self._waiting: dict[EdgeId, deque[Job]] = {}

    def add(self, edge_id: EdgeId, job: Job) -> None:
        """Runs `job` after all earlier ones of the box."""
        jobs = self._waiting.get(edge_id)
        if jobs is not None:
            jobs.append(job)
            return
        self._waiting[edge_id] = deque([job])
        self._group.create_task(self._work(edge_id), name=f"{self._name} {edge_id}")

    @property
    def waiting(self) -> int:
        """Jobs that wait or run."""
        return sum(len(jobs) for jobs in self._waiting.values())

    async def _work(self, edge_id: EdgeId) -> None:
        jobs = self._waiting[edge_id]
        while jobs:
            async with self._slots:
                await jobs[0]()
            jobs.popleft()
        del self._waiting[edge_id]
