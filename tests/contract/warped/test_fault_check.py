"""The check of a fault itself: it has to find an integration that does not meet it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from core.domain.capabilities import Capabilities, Simple, Start
from core.domain.commands import Command, EmergencyStop, StartMow
from core.domain.errors import LinkLostError, WrongPinError
from core.domain.mower import Activity, LinkKind, MowerDescription, MowerState
from core.platform.contract.breach import BreachError
from core.platform.contract.fault import Bench, Fault
from core.platform.contract.fault_check import is_met
from core.platform.integration import ACCEPTED, IntegrationContext, MowerKey, Outcome, Report
from tests.fakes.warp_loop import LoopClock

SECRET = "hunter-2"


@dataclass
class Machine:
    """The truth."""

    is_moving: bool = False
    is_away: bool = False
    starts: int = 0
    defects: frozenset[str] = frozenset()
    left: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        self.starts += 1
        self.is_moving = True


class TinyLink:
    """Polls a machine that is away while the fault lasts; `defects` is what it does wrong then."""

    capabilities = Capabilities(start_mow=Start(confirm_timeout_s=5.0), emergency_stop=Simple(confirm_timeout_s=5.0))

    def __init__(self, machine: Machine, context: IntegrationContext) -> None:
        self._machine, self._context = machine, context
        self._is_open = False

    def _does(self, defect: str) -> bool:
        return defect in self._machine.defects

    async def run(self, report: Report) -> None:
        self._is_open = True
        if self._does("starts-again") and self._machine.starts:
            self._machine.start()
        try:
            while True:
                await self._poll(report)
                await asyncio.sleep(0.1)
        finally:
            self._is_open = False

    async def _poll(self, report: Report) -> None:
        activity = Activity.MOWING if self._machine.is_moving else Activity.DOCKED
        if self._machine.is_away and not self._does("send-hangs"):
            if self._does("hangs"):
                await asyncio.Event().wait()
            if self._does("raises-foreign"):
                raise KeyError("odd")
            if self._does("tells-secret"):
                self._context.log.debug("login with %s failed", SECRET)
            if self._does("leaks"):
                self._machine.left.append(asyncio.get_running_loop().create_task(asyncio.sleep(10_000)))
            if not self._does("invents-state"):
                raise WrongPinError if self._does("asks-person") else LinkLostError
        if self._does("invents-mowing"):
            activity = Activity.MOWING
        report(MowerState(observed_at=self._context.clock.now(), activity=activity))

    async def send(self, command: Command) -> Outcome:
        if not self._is_open or self._machine.is_away:
            if self._does("send-hangs"):
                await asyncio.Event().wait()
            raise LinkLostError
        if isinstance(command, StartMow):
            self._machine.start()
        elif isinstance(command, EmergencyStop):
            self._machine.is_moving = self._does("deaf") and self._machine.is_moving
        return ACCEPTED


class Tiny:
    def __init__(self, machine: Machine, context: IntegrationContext) -> None:
        self._machine, self._context = machine, context

    async def mowers(self) -> tuple[MowerDescription, ...]:
        return (MowerDescription(vendor="tiny", serial="1", name="Tiny", links=(LinkKind.SIM,)),)

    async def open(self, mower: MowerKey, link: LinkKind) -> TinyLink:
        return TinyLink(self._machine, self._context)

    async def close(self) -> None:
        for task in self._machine.left[1:]:
            task.cancel()


async def check(*defects: str) -> None:
    machines: list[Machine] = []

    @asynccontextmanager
    async def make(context: IntegrationContext, fault: Fault) -> AsyncIterator[Bench]:
        machine = Machine(defects=frozenset(defects))
        machines.append(machine)

        def away(is_away: bool) -> None:
            machine.is_away = is_away

        yield Bench(
            integration=Tiny(machine, context),
            begin=lambda: away(True),
            end=lambda: away(False),
            is_moving=lambda: machine.is_moving,
            starts=lambda: machine.starts,
            secrets=(SECRET,),
            is_silent="send-hangs" not in defects,
        )

    try:
        await is_met(make, Fault.SILENT, LoopClock())
    finally:
        left = [task for machine in machines for task in machine.left]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@pytest.mark.parametrize("defects", [(), ("asks-person",)])
async def test_one_that_is_sound_passes(defects: tuple[str, ...]):
    await check(*defects)


@pytest.mark.parametrize(
    ("defect", "says"),
    [
        ("hangs", "neither reports nor ends"),
        ("send-hangs", "gave no outcome"),
        ("raises-foreign", "not of the tree: KeyError"),
        ("tells-secret", r"a secret is told: login with \*\*\* failed"),
        ("leaks", "left behind"),
        ("invents-state", "it says nothing, and is said to be docked"),
        ("invents-mowing", "and stands"),
        ("starts-again", "the start was sent again"),
        ("deaf", "it moves on after an emergency stop"),
    ],
)
async def test_a_defect_is_found(defect: str, says: str):
    with pytest.raises(BreachError, match=says):
        await check(defect)
