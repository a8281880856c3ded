"""The parts of the box that move mowers, put together: commands, and driving by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.access.authorizer import Authorizer
from core.domain.capabilities import Capabilities
from core.domain.ids import EdgeId, MowerId
from core.domain.mower import Area
from core.web.drive_desk import DrivingDesk
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.runtime.admission import AccountOf, Admission
from edge_agent.runtime.command_desk import LocalCommandDesk
from edge_agent.runtime.commander import Commander, OnResult
from edge_agent.runtime.drive_desk import LocalDriveHost
from edge_agent.runtime.ledger import Ledger, SafeLedger
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.supervisor import Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Commanding:
    """`commander` has to be run; the desks are for the box's own API."""

    commander: Commander
    desk: LocalCommandDesk
    drives: DrivingDesk


def make_commanding(
    *,
    ledger: Ledger,
    clock: ClockKeeper,
    live: LiveStates,
    supervisor: Supervisor,
    account_of: AccountOf,
    edge_id: Callable[[], EdgeId],
    capabilities: Callable[[MowerId], Capabilities | None],
    areas: Callable[[MowerId], Sequence[Area]],
    authorizer: Authorizer,
    on_result: OnResult,
) -> Commanding:
    """`capabilities` and `areas` are those that the API shows; whether a command may run is judged by the open link's."""
    safe = SafeLedger(ledger)
    commander = Commander(
        ledger=safe,
        admission=Admission(clock=clock, account_of=account_of, capabilities=supervisor.capabilities),
        clock=clock,
        live=live,
        find_links=supervisor.open_links,
        areas=areas,
        on_result=on_result,
    )
    desk = LocalCommandDesk(
        commander=commander,
        ledger=safe,
        clock=clock,
        edge_id=edge_id,
        capabilities=capabilities,
        authorizer=authorizer,
    )
    host = LocalDriveHost(commander.seats, account_of)
    return Commanding(commander=commander, desk=desk, drives=DrivingDesk(host=host, authorizer=authorizer, clock=clock))
