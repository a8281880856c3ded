"""The box's alerts: made here from the parts that they look at."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from core.domain.events import MowerEvent
from core.domain.ids import MowerId
from core.storage.record_book import RecordBook
from edge_agent.alerts.surroundings import Outlook
from edge_agent.alerts.watch import AlertWatch
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.household.roster import Roster
from edge_agent.people import People
from edge_agent.plugins import Plugins
from edge_agent.runtime.intake import EventSink
from edge_agent.runtime.supervisor import Supervisor
from edge_agent.settings import EdgeSettings
from edge_agent.uplink.relay_line import RelayLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """The watch and what it sees."""

    watch: AlertWatch
    outlook: Outlook

    def lives(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What the box has to run for it, by name."""
        return {"alerts": self.watch.run(), "alert outlook": self.outlook.run()}


def make_alerting(
    *,
    settings: EdgeSettings,
    book: RecordBook,
    clock: ClockKeeper,
    people: People,
    plugins: Plugins,
    supervisor: Supervisor,
    roster: Roster,
    line: RelayLine,
    event_sinks: Sequence[EventSink],
) -> Alerting:
    """`watch.put` has to hear of every state."""

    def is_relay_reached() -> bool:
        status = line.status()
        return status is not None and status.is_online

    def tell(mower_id: MowerId, event: MowerEvent) -> None:
        for sink in event_sinks:
            sink(mower_id, event)

    outlook = Outlook(
        registry=plugins.registry,
        supervisor=supervisor,
        book=book,
        clock=clock,
        account_id=people.account.require,
        database=settings.telemetry_path,
        is_relay_reached=is_relay_reached,
        is_released=plugins.is_released,
    )
    watch = AlertWatch(
        book=book,
        clock=clock,
        account_id=people.account.require,
        look=outlook.look,
        is_known=roster.is_known,
        is_clock_right=lambda: clock.is_trusted,
        on_event=tell,
    )
    return Alerting(watch=watch, outlook=outlook)
