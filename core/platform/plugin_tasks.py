"""The tasks of one plugin scope (a config entry, a flow): named, bounded, contained, ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import Any

import structlog

from core.domain.errors import IntegrationError, MowdeckError
from core.domain.limits import CLOSE_DEADLINE_S, PLUGIN_TASKS
from core.platform.containment import context_of
from core.platform.fire_door import end_tasks, enter

log = structlog.get_logger(__name__)

MAX_INNER_TASKS = 1024
"""Tasks that a plugin and its libraries make by themselves."""


class PluginTasks:
    """`on_fault` is told of a spawned task that failed. With `containing_tasks` on the loop, tasks that the plugin
    makes behind the box's back belong here too."""

    def __init__(
        self,
        owner: str,
        *,
        on_fault: Callable[[MowdeckError], None],
        redact: Callable[[str], str],
        deadline_s: float = CLOSE_DEADLINE_S,
    ) -> None:
        self._owner = owner
        self._on_fault = on_fault
        self._redact = redact
        self._deadline_s = deadline_s
        self._spawned: set[asyncio.Task[None]] = set()
        self._alive: set[asyncio.Task[Any]] = set()
        self._outside = copy_context()
        self._is_closed = False

    def context(self) -> Context:
        """For code of this plugin (see `fire_door.call`)."""
        return context_of(self)

    def redact(self, text: str) -> str:
        """The text without the plugin's secrets."""
        return self._redact(text)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """A task was born in this scope."""
        if len(self._alive) >= MAX_INNER_TASKS:
            task.cancel()
            raise IntegrationError(f"{self._owner} has {MAX_INNER_TASKS} tasks already")
        self._alive.add(task)
        task.add_done_callback(self._alive.discard, context=self._outside)
        if self._is_closed:
            task.cancel()  # a stubborn task goes on making others

    def spawn(self, coroutine: Coroutine[object, object, None], name: str) -> None:
        """Starts a task. IntegrationError when the scope has ended or has too many, or when it is no coroutine."""
        given: object = coroutine
        if not asyncio.iscoroutine(given):
            raise IntegrationError(f"{self._owner}: spawn() takes a coroutine, not a {type(given).__name__}")
        if self._is_closed or len(self._spawned) >= PLUGIN_TASKS:
            coroutine.close()
            why = "has ended" if self._is_closed else f"has {PLUGIN_TASKS} tasks already"
            raise IntegrationError(f"{self._owner} {why}: no task {name!r}")
        where = f"{self._owner} {name}"
        loop = asyncio.get_running_loop()
        task = loop.create_task(enter(lambda: coroutine, where), name=where, context=self.context())
        self._spawned.add(task)
        self._alive.add(task)
        # outside of the plugin's context: what follows is the box's own doing
        task.add_done_callback(partial(self._on_done, coroutine), context=self._outside)

    def _on_done(self, coroutine: Coroutine[object, object, None], task: asyncio.Task[None]) -> None:
        coroutine.close()  # a task that was cancelled before it began never got to it
        self._spawned.discard(task)
        self._alive.discard(task)
        err = None if task.cancelled() else task.exception()
        if isinstance(err, MowdeckError) and not self._is_closed:
            log.warning("plugin task failed", task=task.get_name(), code=err.code, detail=err.detail)
            self._on_fault(err)

    async def close(self) -> tuple[str, ...]:
        """Ends all tasks; the names of those that would not."""
        self._is_closed = True
        return await end_tasks(set(self._alive), self._deadline_s)

    @property
    def is_closed(self) -> bool:
        """Whether the scope has ended, or is about to."""
        return self._is_closed

    @property
    def is_empty(self) -> bool:
        """Whether no task is alive."""
        return not self._alive
