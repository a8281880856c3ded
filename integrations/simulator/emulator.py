"""The integration is its own emulated mower: this module only offers it to the contract, with the faults of a lawn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from core.domain.errors import InvalidInputError
from core.domain.ids import EntryId
from core.platform.contract.fault import Bench, Fault, faults_of
from core.platform.integration import Entry, Integration, IntegrationContext, key_of
from integrations.simulator.integration import Simulator
from integrations.simulator.wire import MOVING
from integrations.simulator.wire import Fault as MachineFault

_QUICK = {"time_scale": 50.0, "report_interval_s": 0.05}
_MADE = frozenset({Fault.STUCK, Fault.RAIN, Fault.NO_RTK})
_NO_WIRE = "the machine is part of the link: there is no wire, nobody signs in, and nothing answers late"
NO_SUCH_FAULT: Mapping[Fault, str] = {fault: _NO_WIRE for fault in faults_of(()) if fault not in _MADE}


def entry_for(**data: object) -> Entry:
    """An entry as the config flow makes it, whose time runs fast."""
    return Entry(
        entry_id=EntryId("emulated"),
        domain="simulator",
        unique_id=None,
        title="Lawn",
        data={"seed": 3, **data},
        options=_QUICK,
    )


@asynccontextmanager
async def contract_world(context: IntegrationContext) -> AsyncIterator[Integration]:
    """Two fresh machines in their docks."""
    yield Simulator(context, entry_for(mowers=2))


@asynccontextmanager
async def contract_fault(context: IntegrationContext, fault: Fault) -> AsyncIterator[Bench]:
    """One fresh machine, and one fault of its lawn."""
    simulator = Simulator(context, entry_for())
    machine = simulator.machine(key_of((await simulator.mowers())[0]))

    def begin() -> None:
        match fault:
            case Fault.STUCK:
                machine.fail(MachineFault.STUCK)
            case Fault.RAIN:
                machine.rain(is_raining=True)
            case Fault.NO_RTK:
                machine.chassis.receiver.is_jammed = True
            case _:
                raise InvalidInputError.of("fault", f"{fault} is none of a lawn")

    def end() -> None:
        machine.clear_fault()
        machine.rain(is_raining=False)
        machine.chassis.receiver.is_jammed = False

    yield Bench(
        integration=simulator,
        begin=begin,
        end=end,
        is_moving=lambda: machine.phase in MOVING,
        starts=lambda: machine.jobs,
        tells_news_only=True,
    )
