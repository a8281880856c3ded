"""The plugin platform of the box: loader, entries, flows and registry, opened and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from core.domain.clock import Clock
from core.platform.budget import BudgetStore
from core.platform.entries import ConfigEntries
from core.platform.entry_store import EntryStore
from core.platform.flows import FlowDirector
from core.platform.loader import Loader
from core.platform.registry import MowerRegistry
from core.platform.secret_store import SecretStore
from edge_agent.settings import EdgeSettings

BUILTIN = "integrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """The parts. No entry is set up before `entries.start()`."""

    loader: Loader
    registry: MowerRegistry
    entries: ConfigEntries
    flows: FlowDirector


@asynccontextmanager
async def open_plugins(settings: EdgeSettings, clock: Clock) -> AsyncIterator[Plugins]:
    """Reads the files of the data folder. DatabaseNewerError; a corrupt file is moved aside and named."""
    folder = settings.data_dir
    loader = Loader(builtin=BUILTIN, custom=settings.custom_integrations)
    registry = MowerRegistry(folder / "mowers.json", clock)
    await asyncio.to_thread(registry.load)
    async with aiohttp.ClientSession() as session:

        async def http() -> aiohttp.ClientSession:
            return session

        entries = ConfigEntries(
            store=EntryStore(folder / "entries.json", clock),
            secrets=SecretStore(folder, clock),
            budgets=BudgetStore(folder / "budgets.json", clock),
            loader=loader,
            clock=clock,
            http=http,
        )
        async with entries, FlowDirector(entries=entries, loader=loader, clock=clock, http=http) as flows:
            yield Plugins(loader=loader, registry=registry, entries=entries, flows=flows)
