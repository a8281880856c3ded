"""A person who takes the steps of a real config flow: real director, real entries on disk; the radio is the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from core.domain.clock import SystemClock
from core.domain.ids import FlowId
from core.platform.bluetooth import BluetoothPort
from core.platform.budget import BudgetStore
from core.platform.entries import ConfigEntries
from core.platform.entry_store import EntryStore
from core.platform.flow import (
    AbortResult,
    ConfigFlow,
    CreateEntryResult,
    FlowResult,
    FormResult,
    MenuResult,
    ProgressResult,
)
from core.platform.flow_view import FlowView
from core.platform.flows import FlowDirector
from core.platform.integration import Entry
from core.platform.loader import LoadedIntegration, Loader
from core.platform.secret_store import SecretStore


class HastyLoader(Loader):
    """The integrations of this repository, with their flows in a hurry."""

    def __init__(self, pace: Mapping[str, Any]) -> None:
        super().__init__()
        self._pace = dict(pace)

    async def load(self, domain: str) -> LoadedIntegration:
        loaded = await super().load(domain)
        assert loaded.flow_class is not None
        hasty: type[ConfigFlow] = type("Hasty", (loaded.flow_class,), self._pace)
        return replace(loaded, flow_class=hasty)


class FlowPerson:
    """One integration's flows; entries are added but not set up."""

    def __init__(self, domain: str, entries: ConfigEntries, flows: FlowDirector) -> None:
        self.domain = domain
        self.entries = entries
        self.flows = flows
        self.flow_id = FlowId("")
        self._ended: FlowResult | None = None

    async def start(self, source: Any = "user", **details: Any) -> FlowResult:
        return await self._settle(await self.flows.start(self.domain, source, details))

    async def give(self, **values: Any) -> FlowResult:
        """Answers the step that waits; what comes when the work that follows is done."""
        return await self._settle(await self.flows.advance(self.flow_id, values))

    async def choose(self, step: str) -> FlowResult:
        return await self.give(next_step_id=step)

    async def begin(self, **values: Any) -> None:
        """Answers, and does not wait for the work that follows."""
        view = await self.flows.advance(self.flow_id, values)
        assert isinstance(view.result, ProgressResult), view.result

    async def _settle(self, view: FlowView) -> FlowResult:
        self.flow_id = view.flow_id
        async with asyncio.timeout(10):
            while isinstance(view.result, ProgressResult):
                await asyncio.sleep(0.002)
                view = self.flows.get(self.flow_id)
        return view.result

    async def add(self, entry: Entry, **secrets: str) -> str:
        """An entry that is there already."""
        record = await self.entries.add(
            domain=self.domain,
            title=entry.title,
            source="user",
            unique_id=entry.unique_id,
            data=entry.data,
            options=entry.options,
            secrets=secrets,
        )
        return str(record.entry_id)

    def entry(self) -> Entry:
        """The only one."""
        (record,) = self.entries.records(self.domain)
        return record.entry()

    def secrets(self) -> Mapping[str, str]:
        """Of the only entry."""
        return self.entries.secrets.read(self.entry().entry_id)


@asynccontextmanager
async def running_flows(
    domain: str, folder: Path, bluetooth: BluetoothPort | None, **pace: Any
) -> AsyncIterator[FlowPerson]:
    """The platform on the files of `folder`, without tasks of integrations."""
    loader, clock = HastyLoader(pace), SystemClock()
    async with aiohttp.ClientSession() as session:

        async def http() -> aiohttp.ClientSession:
            return session

        entries = ConfigEntries(
            store=EntryStore(folder / "entries.json", clock),
            secrets=SecretStore(folder, clock, machine_id=folder / "machine-id"),
            budgets=BudgetStore(folder / "budgets.json", clock, asyncio.sleep),
            loader=loader,
            clock=clock,
            http=http,
        )
        flows = FlowDirector(entries=entries, loader=loader, clock=clock, http=http, bluetooth=bluetooth)
        async with entries, flows:
            yield FlowPerson(domain, entries, flows)


def form(result: FlowResult) -> tuple[str, dict[str, str]]:
    """Step and errors of a form."""
    assert isinstance(result, FormResult), result
    return result.step_id, result.errors


def menu(result: FlowResult) -> tuple[str, ...]:
    """The choices of a menu."""
    assert isinstance(result, MenuResult), result
    return result.options


def reason(result: FlowResult) -> str:
    """Why a flow ended."""
    assert isinstance(result, AbortResult), result
    return result.reason


def title(result: FlowResult) -> str:
    """Of the entry that a flow made."""
    assert isinstance(result, CreateEntryResult), result
    return result.title
