"""May this command run here at all? The box's own answer, in the order of 04 section 4.5.

The signature was checked where the command came in, and whether the id was seen before is the commander's to know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from core.domain import limits
from core.domain.capabilities import Capabilities
from core.domain.commands import CommandStatus, EmergencyStop, confirm_timeout_s, find_mistakes, kind_of, time_to_live
from core.domain.ids import AccountId, MowerId
from core.sync.messages import CommandEnvelope
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.runtime.ticket import OFFLINE, OLDER_THAN_STOP, Source

AccountOf = Callable[[MowerId, Source], AccountId | None]
"""The account that a mower has at a source (the registration's, or the box's own); None: no mower of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why not. Only a refusal of this household's own command is written down (`is_ours`)."""

    reason: str
    status: CommandStatus = CommandStatus.REJECTED
    is_ours: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When a command was given and until when it may be sent, on the box's monotonic clock."""

    issued: float
    deadline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StopMark:
    """The newest emergency stop of a mower: nothing given before it may run after it."""

    issued: float
    issued_at: datetime
    source: Source

    def covers(self, envelope: CommandEnvelope, times: Times, source: Source) -> bool:
        """Whether the command is older than the stop. The relay's own two times say so exactly; otherwise the
        monotonic clock does, which no correction of a wall clock moves."""
        if source == "relay" == self.source:
            return envelope.issued_at <= self.issued_at
        return times.issued <= self.issued


class Admission:
    """The rules, given what the box knows."""

    def __init__(
        self,
        *,
        clock: ClockKeeper,
        account_of: AccountOf,
        capabilities: Callable[[MowerId], Capabilities | None],
    ) -> None:
        self._clock = clock
        self._account_of = account_of
        self._capabilities = capabilities

    def find_stranger(self, envelope: CommandEnvelope, source: Source) -> Refusal | None:
        """Refuses what is not for a mower of this box and its account."""
        account_id = self._account_of(envelope.mower_id, source)
        if account_id is None:
            return Refusal(reason="not a mower of this box", is_ours=False)
        if account_id != envelope.account_id:
            return Refusal(reason="the mower belongs to another account", is_ours=False)
        return None

    def times(self, envelope: CommandEnvelope, source: Source) -> Times | None:
        """The envelope's times on the monotonic clock; None when nobody knows what time it is for the relay."""
        monotonic = self._clock.monotonic()
        is_stop = isinstance(envelope.command, EmergencyStop)
        left_s: float | None
        if source == "local":
            left_s = (envelope.expires_at - self._clock.now()).total_seconds()
        else:
            left_s = self._clock.time_left_s(envelope.expires_at, is_late_harmless=is_stop)
        if left_s is None:
            if not is_stop:
                return None
            left_s = time_to_live(envelope.command).total_seconds()  # a stop is not lost for want of a clock
            return Times(issued=monotonic, deadline=monotonic + left_s)
        lifetime_s = (envelope.expires_at - envelope.issued_at).total_seconds()
        # A clock that was set between measuring and signing must not lend a command a longer life than it was given.
        deadline = monotonic + min(left_s, lifetime_s)
        return Times(issued=min(deadline - lifetime_s, monotonic), deadline=deadline)

    def find_refusal(
        self, envelope: CommandEnvelope, times: Times | None, source: Source, mark: StopMark | None
    ) -> Refusal | None:
        """Time, order, capability and values."""
        if times is None:
            return Refusal(reason="the box does not know the time yet")
        monotonic = self._clock.monotonic()
        if times.deadline <= monotonic:
            return Refusal(reason="it came too late", status=CommandStatus.EXPIRED)
        if times.deadline - monotonic > limits.SEEN_COMMANDS.total_seconds():
            return Refusal(reason="it lives longer than the box remembers commands")
        is_stop = isinstance(envelope.command, EmergencyStop)
        if mark is not None and not is_stop and mark.covers(envelope, times, source):
            return Refusal(reason=OLDER_THAN_STOP)
        capabilities = self._capabilities(envelope.mower_id)
        if capabilities is None:
            return Refusal(reason=OFFLINE)
        if confirm_timeout_s(envelope.command, capabilities) is None:
            return Refusal(reason=f"the mower cannot {kind_of(envelope.command)}")
        mistakes = find_mistakes(envelope.command, capabilities)
        return Refusal(reason="; ".join(f"{m.field}: {m.reason}" for m in mistakes)) if mistakes else None
