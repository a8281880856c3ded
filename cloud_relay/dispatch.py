"""Messages of many boxes, worked off concurrently, but those of one box in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from core.domain.ids import EdgeId

Job = Callable[[], Awaitable[None]]


class Dispatch:
    """At most `concurrency` jobs at one time and one per box, and `per_box` waiting or running of one box. How many
    wait in all is bounded by whoever adds them: the broker sends no more than its inflight limit before a message is
    acknowledged. A job never raises."""

    def __init__(self, group: asyncio.TaskGroup, *, name: str, concurrency: int, per_box: int | None = None) -> None:
        self._group = group
        self._name = name
        self._slots = asyncio.Semaphore(concurrency)
        self._per_box = per_box
        self._waiting: dict[EdgeId, deque[Job]] = {}

    def add(self, edge_id: EdgeId, job: Job) -> bool:
        """Runs `job` after all earlier ones of the box; false, and it never runs, when the box has too many."""
        jobs = self._waiting.get(edge_id)
        if jobs is not None:
            if self._per_box is not None and len(jobs) >= self._per_box:
                return False
            jobs.append(job)
            return True
        self._waiting[edge_id] = deque([job])
        self._group.create_task(self._work(edge_id), name=f"{self._name} {edge_id}")
        return True

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
