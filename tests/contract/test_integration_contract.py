"""The suite itself: it has to fail for an integration that breaks the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import msgspec
import pytest

from core.domain.capabilities import Capabilities, Simple, Start
from core.domain.clock import SystemClock
from core.domain.commands import Command, EmergencyStop, PauseMow, ResumeMow, StartMow
from core.domain.errors import EntryError, LinkLostError
from core.domain.mower import Activity, LinkKind, MowerDescription, MowerState, Position
from core.platform.integration import ACCEPTED, Integration, IntegrationContext, MowerKey, Outcome, Report
from tests.contract.integration_contract import IntegrationContract, open_context

FAST = Simple(confirm_timeout_s=0.3)
CAPABILITIES = Capabilities(
    start_mow=Start(confirm_timeout_s=0.3), pause_mow=FAST, resume_mow=FAST, emergency_stop=FAST
)
_EFFECTS = {
    StartMow: Activity.MOWING,
    PauseMow: Activity.PAUSED,
    ResumeMow: Activity.MOWING,
    EmergencyStop: Activity.PAUSED,
}
Change = Callable[[MowerState], MowerState]


class TinyLink:
    """An obedient link; its faults are set from outside."""

    capabilities = CAPABILITIES

    def __init__(self, change: Change) -> None:
        self.change = change
        self.is_deaf = self.takes_all = self.moves = False
        self.leaves_task = self.sends_when_closed = self.floods = False
        self.left: list[asyncio.Task[None]] = []
        self._was_run = self._is_open = False
        self._report: Report = lambda _: None

    async def run(self, report: Report) -> None:
        if self._was_run:
            raise LinkLostError
        self._was_run = self._is_open = True
        self._report = report
        self._show(Activity.MOWING if self.moves else Activity.DOCKED)
        if self.leaves_task:
            self.left.append(asyncio.get_running_loop().create_task(asyncio.sleep(60), name="stray"))
        try:
            await asyncio.Event().wait()
        finally:
            self._is_open = False

    async def send(self, command: Command) -> Outcome:
        if not self._is_open and not self.sends_when_closed:
            raise LinkLostError
        if type(command) not in _EFFECTS or (isinstance(command, StartMow) and command.duration_s is not None):
            return ACCEPTED if self.takes_all else Outcome(kind="refused", reason="cannot")
        if not self.is_deaf:
            self._show(_EFFECTS[type(command)])
        return ACCEPTED

    def _show(self, activity: Activity) -> None:
        for _ in range(500 if self.floods else 1):
            self._report(self.change(MowerState(observed_at=SystemClock().now(), activity=activity)))


class TinyIntegration:
    def __init__(self, change: Change, **faults: bool) -> None:
        self.change, self.faults = change, faults
        self.links: list[TinyLink] = []

    async def mowers(self) -> tuple[MowerDescription, ...]:
        return (MowerDescription(vendor="tiny", serial="1", name="Tiny", links=(LinkKind.SIM,)),)

    async def open(self, mower: MowerKey, link: LinkKind) -> TinyLink:
        if mower != "tiny:1":
            raise EntryError
        made = TinyLink(self.change)
        for fault, value in self.faults.items():
            setattr(made, fault, value)
        self.links.append(made)
        return made

    async def close(self) -> None:
        pass


class Suite(IntegrationContract):
    def __init__(self, subject: TinyIntegration) -> None:
        self.subject = subject

    @asynccontextmanager
    async def make(self, context: IntegrationContext) -> AsyncIterator[Integration]:
        yield self.subject


def as_is(state: MowerState) -> MowerState:
    return state


def later(state: MowerState) -> MowerState:
    return msgspec.structs.replace(state, observed_at=state.observed_at + timedelta(hours=1))


def naive(state: MowerState) -> MowerState:
    return msgspec.structs.replace(state, observed_at=datetime(2026, 1, 1))


def at_zero(state: MowerState) -> MowerState:
    return msgspec.structs.replace(state, position=Position(lat=0.0, lon=0.0))


CHECKS = [name for name in vars(IntegrationContract) if name.startswith("test_")]


async def check(name: str, subject: TinyIntegration) -> None:
    """Runs one test of the suite by hand."""
    suite = Suite(subject)
    method = getattr(suite, name)
    if name == "test_leaves_no_task_behind":
        await method()
        return
    async with open_context() as context, suite.make(context) as integration:
        await method(integration, (await integration.mowers())[0])


@pytest.mark.parametrize("name", [n for n in CHECKS if n not in {"test_mowers_have_a_lasting_identity"}])
async def test_an_honest_link_passes(name: str) -> None:
    try:
        await check(name, TinyIntegration(as_is))
    except pytest.skip.Exception:
        assert name == "test_driving_by_hand_has_a_dead_man"


@pytest.mark.parametrize(
    ("name", "change", "fault"),
    [
        ("test_states_are_plausible_and_in_order", later, None),
        ("test_states_are_plausible_and_in_order", naive, None),
        ("test_states_are_plausible_and_in_order", at_zero, None),
        ("test_states_are_plausible_and_in_order", as_is, "floods"),
        ("test_commands_have_a_visible_effect", as_is, "is_deaf"),
        ("test_what_it_cannot_do_is_refused", as_is, "takes_all"),
        ("test_nothing_moves_unless_told", as_is, "moves"),
        ("test_a_link_is_never_reopened", as_is, "sends_when_closed"),
        ("test_leaves_no_task_behind", as_is, "leaves_task"),
    ],
)
async def test_a_breach_is_found(name: str, change: Change, fault: str | None) -> None:
    subject = TinyIntegration(change, **({} if fault is None else {fault: True}))
    with pytest.raises((AssertionError, TypeError, pytest.fail.Exception)):
        await check(name, subject)
    for link in subject.links:
        for task in link.left:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
