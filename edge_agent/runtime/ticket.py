"""One command on its way through the box."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from core.domain.commands import CommandResult, CommandStatus
from core.sync.messages import CommandEnvelope

Source = Literal["relay", "local"]
"""Whose command it is, and so whose clock its times are of and whose account it must name."""

CANCELLED_BY_STOP = "cancelled by an emergency stop"
REMOVED = "the mower was removed from the box"
INTERRUPTED = "interrupted"
OFFLINE = "mower is offline"
OLDER_THAN_STOP = "given before an emergency stop"
UNCONFIRMED = "unconfirmed"
CANNOT_BE_DRIVEN = "the mower cannot be driven over this link"
SEEN_ELSEWHERE = "this command id was used for another mower"


async def nobody_asks() -> bool:
    """The right was asked for where the command was signed."""
    return True


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """A command that was admitted, by when (monotonic) it must have been sent, and how far it is."""

    envelope: CommandEnvelope
    deadline: float
    source: Source = "relay"
    """Only the relay takes back what the relay gave."""
    status: CommandStatus = CommandStatus.PENDING
    result: CommandResult | None = None
    """The last transition."""
    cancelled: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the ledger knows the command."""
    cancel_reason: str = CANCELLED_BY_STOP
    is_sent: bool = False
    """Set just before the mower may hear of it: from then on nothing takes it back."""
    find_stranger: Callable[[], str | None] = lambda: None
    """Why the command is not this household's (any more): a link may end while it waits."""
    may_still: Callable[[], Awaitable[bool]] = nobody_asks
    """Whether its giver still has the right: it may be taken away while it waits."""

    def cancel(self, reason: str) -> None:
        """Ends the command as soon as possible; it is not sent any more if it has not been."""
        if not self.cancelled.done():
            self.cancel_reason = reason
            self.cancelled.set_result(None)

    @property
    def is_cancelled(self) -> bool:
        return self.cancelled.done()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What the commander says at once. `result` is None while a new command waits for its turn; a repeated id
    (`is_repeat`) is answered with its last known result and changes nothing."""

    result: CommandResult | None
    is_repeat: bool = False
    is_untold: bool = False
    """The result did not go to the commander's `on_result`: whoever asked has to be told."""
