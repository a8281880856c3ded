"""A box's plugin platform in a temporary folder, with a clock that a test owns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.domain.ids import EntryId
from core.platform.budget import BudgetStore
from core.platform.entries import ConfigEntries
from core.platform.entry import EntryRecord, EntryState
from core.platform.entry_store import EntryStore
from core.platform.flows import FlowDirector
from core.platform.integration import Integration
from core.platform.loader import Loader
from core.platform.secret_store import SecretStore
from tests.fakes.clock import ManualClock
from tests.fakes.misbehaving_folder import install_misbehaving


class Naps:
    """A sleep that ends when the test says so; `naps` are the waits asked for."""

    def __init__(self) -> None:
        self.naps: list[float] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._asked = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.naps.append(seconds)
        nap = asyncio.get_running_loop().create_future()
        self._waiting.append(nap)
        self._asked.set()
        await nap

    async def asked(self, count: int) -> float:
        """Waits until so many naps were asked for; the last one's length."""
        async with asyncio.timeout(5):
            while len(self.naps) < count:
                self._asked.clear()
                await self._asked.wait()
        return self.naps[count - 1]

    def wake(self) -> None:
        """Ends all naps."""
        waiting, self._waiting = self._waiting, []
        for nap in waiting:
            if not nap.done():
                nap.set_result(None)


class Platform:
    """What the tests need of a running platform."""

    def __init__(self, entries: ConfigEntries, flows: FlowDirector, loader: Loader, naps: Naps) -> None:
        self.entries = entries
        self.flows = flows
        self.loader = loader
        self.naps = naps
        self.seen: list[tuple[EntryId, EntryState]] = []
        self.integrations: dict[EntryId, Integration] = {}
        self._changed = asyncio.Event()
        entries.observe(self._note)

    def _note(self, record: EntryRecord, state: EntryState, integration: Integration | None) -> None:
        self.seen.append((record.entry_id, state))
        if integration is not None:
            self.integrations[record.entry_id] = integration
        self._changed.set()

    async def until(self, is_true: Callable[[], Any]) -> None:
        """Waits until something holds, looking at every change of an entry and at every turn of the loop."""
        async with asyncio.timeout(5):
            while not is_true():
                await asyncio.sleep(0)

    async def settled(self, entry_id: EntryId) -> EntryState:
        """The state once the set-up is over."""
        await self.until(lambda: self.state(entry_id) not in (EntryState.SETUP, EntryState.NOT_LOADED))
        return self.state(entry_id)

    def state(self, entry_id: EntryId) -> EntryState:
        return self.entries.view(entry_id).state

    async def add(self, fault: str = ":", **data: Any) -> EntryId:
        """A misbehaving entry, set up as far as it gets."""
        record = await self.entries.add(
            domain="misbehaving", title=fault, source="user", data={"fault": fault, "stubborn_s": 0.8, **data}
        )
        await self.settled(record.entry_id)
        return record.entry_id


async def no_http() -> Any:
    raise AssertionError("nothing here needs HTTP")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    return install_misbehaving(tmp_path / "custom")


@asynccontextmanager
async def running_platform(folder: Path, custom: Path, clock: ManualClock):
    """The platform on the files of `folder`; everything started has ended afterwards."""
    naps = Naps()
    loader = Loader(builtin=folder / "builtin", custom=custom)
    entries = ConfigEntries(
        store=EntryStore(folder / "entries.json", clock),
        secrets=SecretStore(folder, clock, machine_id=folder / "machine-id"),
        budgets=BudgetStore(folder / "budgets.json", clock, naps),
        loader=loader,
        clock=clock,
        http=no_http,
        random=lambda: 0.0,
        sleep=naps,
        setup_deadline_s=0.15,
        close_deadline_s=0.1,
    )
    flows = FlowDirector(
        entries=entries, loader=loader, clock=clock, http=no_http, step_deadline_s=0.15, close_deadline_s=0.1
    )
    async with entries, flows:
        yield Platform(entries, flows, loader, naps)


@pytest.fixture
async def platform(tmp_path: Path, custom: Path, clock: ManualClock):
    (tmp_path / "builtin").mkdir()
    async with running_platform(tmp_path, custom, clock) as running:
        yield running
