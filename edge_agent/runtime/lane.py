"""The way of one link's reports into the intake: synchronous, bounded, and closed for good with its link."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime

import msgspec

from core.domain import limits
from core.domain.clock import Clock
from core.domain.errors import FloodError, IntegrationError, LinkLostError
from core.domain.events import MowerEvent, ReportedEvent
from core.domain.ids import EntryId, MowerId
from core.domain.mower import Connectivity, LinkKind, MowerState
from core.telemetry.merging import told_by
from edge_agent.runtime.carrier import LinkKey, key_of_link

FLOOD_WINDOW_S = 10.0

_EVENT_TYPES = ReportedEvent.__args__


class ReportRefusedError(IntegrationError):
    """What a link reported is no state and no event."""

    code = "report-refused"
    hint = "The integration has a defect; its author has to correct it."


class Lane:
    """Takes the reports of one link. `failed` is done as soon as the link did something it may not do, also when
    the link swallowed the error that it got for it."""

    def __init__(
        self, mower_id: MowerId, kind: LinkKind, entry_id: EntryId, *, clock: Clock, wake: Callable[[], None]
    ) -> None:
        self.mower_id = mower_id
        self.key: LinkKey = key_of_link(kind, entry_id)
        self.state: MowerState | None = None
        """The newest state that the intake has not taken yet."""
        self.told: frozenset[str] = frozenset()
        """Fields that any report of this link has filled, also one that another replaced."""
        self.said: Connectivity | None = None
        """The connectivity of its newest report; None until it has reported."""
        self.events: deque[MowerEvent] = deque()
        self.heard_at = clock.monotonic()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.fault: IntegrationError | None = None
        self.reports = 0
        self.coalesced = 0
        self._is_open = True
        self._clock = clock
        self._wake = wake
        self._thread = threading.get_ident()
        self._credit = limits.REPORTS_PER_S * FLOOD_WINDOW_S
        self._credit_at = self.heard_at

    def report(self, what: MowerState | MowerEvent) -> None:
        """The link's Report. A state replaces one that is still waiting; an event waits in a bounded queue.

        Raises LinkLostError after the link's end, FloodError for too many, ReportRefusedError for anything that
        is neither a state nor an event, or was called from another thread.
        """
        if threading.get_ident() != self._thread:
            raise ReportRefusedError("reported from another thread; use loop.call_soon_threadsafe")
        if not self._is_open:
            raise LinkLostError("this link has ended; its reports are no longer taken")
        if self.fault is not None:
            raise self.fault
        self._spend()
        checked = _check(what)
        if isinstance(checked, ReportRefusedError):
            raise self._fail(checked)
        if isinstance(checked, MowerState):
            self.coalesced += self.state is not None
            self.told |= told_by(checked)
            if self.state is None or checked.observed_at >= self.state.observed_at:
                self.state, self.said = checked, checked.connectivity
        elif len(self.events) >= limits.EVENT_QUEUE:
            raise self._fail(FloodError(f"more than {limits.EVENT_QUEUE} events at once"))
        else:
            self.events.append(checked)
        self.reports += 1
        self.heard_at = self._clock.monotonic()
        self._wake()

    @property
    def says_offline(self) -> bool:
        """Whether the link is up and says that the mower is out of its reach."""
        return self.said is Connectivity.OFFLINE

    def _spend(self) -> None:
        now = self._clock.monotonic()
        full = limits.REPORTS_PER_S * FLOOD_WINDOW_S
        self._credit = min(full, self._credit + (now - self._credit_at) * limits.REPORTS_PER_S)
        self._credit_at = now
        if self._credit < 1.0:
            raise self._fail(FloodError(f"more than {limits.REPORTS_PER_S} reports a second"))
        self._credit -= 1.0

    def _fail(self, fault: IntegrationError) -> IntegrationError:
        self.fault = fault
        if not self.failed.done():
            self.failed.set_result(None)
        return fault

    def close(self) -> None:
        """No more reports; what still waits is taken by the intake."""
        self._is_open = False
        if not self.failed.done():
            self.failed.cancel()


def _check(what: object) -> MowerState | MowerEvent | ReportRefusedError:
    """The report with every field of the declared type (a Struct does not check itself when it is made)."""
    kind: object = MowerState if isinstance(what, MowerState) else MowerEvent
    if not isinstance(what, (MowerState, *_EVENT_TYPES)):
        return ReportRefusedError(f"reported a {type(what).__name__}, which is neither a state nor an event")
    try:
        plain = msgspec.to_builtins(what, builtin_types=(datetime,))
        checked = msgspec.convert(plain, kind)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as err:
        return ReportRefusedError(f"{type(what).__name__}: {err}")
    at = checked.observed_at if isinstance(checked, MowerState) else checked.at
    if at.tzinfo is None:
        return ReportRefusedError(f"{type(what).__name__}: its time has no time zone")
    return checked  # type: ignore[no-any-return]
