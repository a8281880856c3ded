"""A link that runs, what it has reported, and whether it obeys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from core.domain.clock import SystemClock
from core.domain.commands import Command, confirm_timeout_s, is_confirmed, kind_of
from core.domain.errors import LinkTimeoutError
from core.domain.events import MowerEvent
from core.domain.limits import CLOSE_DEADLINE_S
from core.domain.mower import MowerDescription, MowerState
from core.platform.contract.breach import BreachError, require
from core.platform.contract.surroundings import scope
from core.platform.fire_door import text_of
from core.platform.integration import Integration, MowerLink, Outcome, key_of

FIRST_STATE_S = 10.0
QUIET_S = 0.6
"""How long a check watches for what must not happen."""


@dataclass
class Running:
    """A link that runs, and all that it has reported."""

    link: MowerLink
    states: list[MowerState] = field(default_factory=list)
    events: list[MowerEvent] = field(default_factory=list)
    is_over: bool = False
    error: BaseException | None = None
    """Why the link has ended by itself."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def report(self, item: MowerState | MowerEvent) -> None:
        """What the link calls."""
        if isinstance(item, MowerState):
            self.states.append(item)
        elif isinstance(item, MowerEvent):
            self.events.append(item)
        else:
            raise BreachError(f"report() takes states and events, not a {type(item).__name__}")
        self._news.set()

    async def run(self) -> None:
        """Runs the link to its end."""
        try:
            await self.link.run(self.report)
        except asyncio.CancelledError:
            raise
        except BaseException as err:
            self.error = err
            raise
        finally:
            self.is_over = True
            self._news.set()

    @property
    def latest(self) -> MowerState:
        return self.states[-1]

    async def until(self, is_so: Callable[[MowerState], bool], timeout_s: float, what: str) -> MowerState:
        """The newest state once it is so; BreachError after the deadline, or when the link has ended before."""
        try:
            async with asyncio.timeout(timeout_s):
                while not (self.states and is_so(self.latest)):
                    if self.is_over:
                        raise BreachError(f"{what}: the link ended before ({_why(self)})") from self.error
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as err:
            last = self.latest if self.states else None
            raise BreachError(f"{what}: not within {timeout_s:g} s; the last state is {last}") from err
        return self.latest

    async def watch(self, seconds: float = QUIET_S) -> list[MowerState]:
        """The states of the next seconds: for what must not happen."""
        first = len(self.states)
        await asyncio.sleep(seconds)
        return self.states[first:]


def _why(running: Running) -> str:
    return "it returned" if running.error is None else text_of(running.error)


@asynccontextmanager
async def run_link(integration: Integration, mower: MowerDescription) -> AsyncIterator[Running]:
    """An open link with its first state there; it is cancelled at the end and must end in time."""
    running = Running(await integration.open(key_of(mower), mower.links[0]))
    tasks = scope("link under test")
    tasks.spawn(running.run(), "run")
    try:
        await running.until(lambda _: True, FIRST_STATE_S, "a first state")
        yield running
        if running.error is not None:
            raise BreachError(f"the link failed by itself: {_why(running)}") from running.error
    finally:
        late = await tasks.close()
    require(not late, f"run() did not end within {CLOSE_DEADLINE_S:g} s of its cancellation")


async def obeyed(running: Running, command: Command, *, may_refuse: bool = False) -> Outcome:
    """Sends the command; unless it was refused, its effect shows within the mower's own confirm timeout."""
    kind = kind_of(command)
    timeout_s = confirm_timeout_s(command, running.link.capabilities)
    if timeout_s is None:
        raise BreachError(f"{kind}: the mower cannot")
    before, sent_at = running.latest, SystemClock().now()
    try:
        async with asyncio.timeout(timeout_s):
            outcome = await running.link.send(command)
    except TimeoutError as err:
        raise LinkTimeoutError(f"{kind}: send() gave no outcome within {timeout_s:g} s") from err
    if outcome.kind == "refused":
        require(outcome.reason, f"{kind} was refused without a reason")
        require(may_refuse, f"{kind} was refused: {outcome.reason}")
        return outcome
    require(outcome.kind == "accepted", f"{kind}: {outcome}")

    def shows(state: MowerState) -> bool:
        is_fresh = state.observed_at >= sent_at or state is before
        return is_fresh and is_confirmed(command, before, state)

    await running.until(shows, timeout_s, f"the effect of {kind}")
    return outcome
