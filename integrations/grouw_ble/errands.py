"""Commands that wait for the mower, each with whoever waits for its outcome. What makes it stand still goes before all
others, and what was asked before it and would move the mower does not come after it."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from core.domain.commands import Command, EmergencyStop, PauseMow, starts_motion
from core.domain.errors import LinkLostError
from core.domain.limits import COMMAND_QUEUE
from core.platform.integration import Outcome

OVERTAKEN = Outcome(kind="refused", reason="overtaken by a pause or a stop")
TOO_MANY = Outcome(kind="refused", reason="too many commands are waiting")
TOO_LATE = Outcome(kind="refused", reason="the mower could not be reached in time")
LATE_S = 20.0
"""A command that would move the mower and has waited longer than this is not passed on any more."""


@dataclass(slots=True, kw_only=True, eq=False)
class Errand:
    """A command, and who waits for it. `asked_at` is monotonic."""

    command: Command
    asked_at: float
    outcome: asyncio.Future[Outcome]

    @property
    def is_stop(self) -> bool:
        return isinstance(self.command, EmergencyStop | PauseMow)

    def settle(self, outcome: Outcome) -> None:
        """Whoever waits is told; the first word counts."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, detail: str) -> None:
        """It was certainly not told to the mower."""
        if not self.outcome.done():
            self.outcome.set_exception(LinkLostError(detail))


class Errands:
    """The queue; bounded, and blocking nobody: what does not fit is refused. A stop always fits."""

    def __init__(self) -> None:
        self._waiting: deque[Errand] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def has_stop(self) -> bool:
        """Whether something waits that makes the mower stand still."""
        return any(errand.is_stop for errand in self._waiting)

    def add(self, command: Command, now: float) -> Errand:
        """Puts a command in its place. It may be settled at once: refused."""
        errand = Errand(command=command, asked_at=now, outcome=asyncio.get_running_loop().create_future())
        if errand.is_stop:
            self._overtake()
        if isinstance(command, EmergencyStop):
            self._waiting.appendleft(errand)
        elif len(self._waiting) < COMMAND_QUEUE:
            self._waiting.append(errand)
        else:
            errand.settle(TOO_MANY)
        return errand

    def _overtake(self) -> None:
        for errand in [one for one in self._waiting if starts_motion(one.command)]:
            self._waiting.remove(errand)
            errand.settle(OVERTAKEN)

    def head(self, now: float) -> Errand | None:
        """The next one that may still be told; it stays until it is removed."""
        while self._waiting:
            errand = self._waiting[0]
            if now - errand.asked_at <= LATE_S or not starts_motion(errand.command):
                return errand
            self._waiting.popleft()
            errand.settle(TOO_LATE)
        return None

    def remove(self, errand: Errand) -> None:
        """It is told now, or whoever asked has gone: it is not passed on later."""
        if errand in self._waiting:
            self._waiting.remove(errand)

    def drop_all(self) -> None:
        """Nobody is left waiting."""
        while self._waiting:
            self._waiting.popleft().fail("the link ended before the command was sent")
