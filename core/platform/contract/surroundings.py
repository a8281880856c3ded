"""What a box gives to an integration, for a check: secrets in memory, a budget without end, an HTTP session."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp

from core.domain.clock import Clock, SystemClock
from core.domain.errors import MowdeckError
from core.platform.contract.breach import BreachError
from core.platform.integration import IntegrationContext
from core.platform.plugin_tasks import PluginTasks

HTTP_DEADLINE_S = 10.0


class PlainSecrets:
    """Secrets in memory."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        return self._values.get(name)

    def put(self, name: str, value: str) -> None:
        self._values[name] = value


class FreeBudget:
    """A budget without end that counts."""

    def __init__(self) -> None:
        self.spent = 0

    async def spend(self, requests: int = 1) -> None:
        self.spent += requests


@asynccontextmanager
async def open_context(
    on_fault: Callable[[MowdeckError], None] | None = None, *, clock: Clock | None = None
) -> AsyncIterator[IntegrationContext]:
    """A context as the box gives it: tasks that a plugin spawns end with it, and so does the HTTP session.
    `on_fault` hears of a spawned task that failed. BreachError when tasks would not end."""
    session: list[aiohttp.ClientSession] = []
    tasks = scope("integration under test", on_fault)

    async def http() -> aiohttp.ClientSession:
        if not session:
            session.append(aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=HTTP_DEADLINE_S)))
        return session[0]

    stubborn: tuple[str, ...] = ()
    try:
        yield IntegrationContext(
            clock=clock or SystemClock(),
            log=logging.LoggerAdapter(logging.getLogger("integrations.under_test"), {}),
            secrets=PlainSecrets(),
            budget=FreeBudget(),
            spawn=tasks.spawn,
            http=http,
        )
    finally:
        stubborn = await tasks.close()
        for one in session:
            await one.close()
    if stubborn:
        raise BreachError(f"spawned tasks do not end: {', '.join(stubborn)}")


def scope(owner: str, on_fault: Callable[[MowdeckError], None] | None = None) -> PluginTasks:
    """Tasks of a plugin as the box owns them: contained, ended within the deadline or named."""
    return PluginTasks(owner, on_fault=on_fault or _ignore, redact=_keep)


def _ignore(_: MowdeckError) -> None:
    """The log has it."""


def _keep(text: str) -> str:
    return text
