"""Keeps a link to a mower up as the box does, and holds what it says against what is true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from core.domain.clock import Clock
from core.domain.errors import MowdeckError
from core.domain.events import MowerEvent
from core.domain.limits import CLOSE_DEADLINE_S
from core.domain.mower import MOVING, Activity, MowerState
from core.platform.contract.breach import BreachError, require
from core.platform.contract.fault import Bench
from core.platform.contract.plausible import require_plausible
from core.platform.contract.surroundings import scope
from core.platform.fire_door import text_of
from core.platform.integration import MowerLink, key_of

BOUND_S = 60.0
"""Within this time something has to happen: a new state, or the end of the link."""
HONEST_S = 3.0
"""So long after it has stopped a mower may still be said to move: the answer was on its way."""
_LOOK_S = 0.02
_REST_S = 0.05
_NEVER = float("-inf")


class Steward:
    """The life of one mower's link. A link that fails is opened again, but where only a person can help it waits for
    `go_on`, as the box does."""

    def __init__(self, bench: Bench, clock: Clock, *, takes_motion_as_said: bool) -> None:
        self.link: MowerLink | None = None
        self.states: list[MowerState] = []
        self.ends: list[str] = []
        """Why each link has ended."""
        self.said: list[str] = []
        """All texts that a person may come to see."""
        self._silent_since: datetime | None = None
        self._bench = bench
        self._clock = clock
        self._takes_motion_as_said = takes_motion_as_said
        self._breach: str | None = None
        self._moved_at = _NEVER
        self._news = asyncio.Event()
        self._is_helped = asyncio.Event()

    async def live(self) -> None:
        """Until it is cancelled."""
        while True:
            self._is_helped.clear()
            error = await self._keep_one()
            self.link = None
            self.ends.append("it returned" if error is None else text_of(error))
            self.said.append(self.ends[-1])
            self._news.set()
            if error is not None and not error.retryable:
                await self._is_helped.wait()
            await asyncio.sleep(_REST_S)

    async def _keep_one(self) -> MowdeckError | None:
        """One link from its opening to its end; how it failed."""
        integration = self._bench.integration
        try:
            mower = (await integration.mowers())[0]
            self.link = await integration.open(key_of(mower), mower.links[0])
            await self.link.run(self._hear)
        except MowdeckError as err:
            return err
        except asyncio.CancelledError:
            raise
        except BaseException as err:  # noqa: BLE001  (that it is no error of ours is the finding)
            self.fail(f"an error that is not of the tree: {text_of(err)}")
            return MowdeckError("not of the tree")
        return None

    async def look(self) -> None:
        """Watches the emulated mower itself, until it is cancelled."""
        while True:
            self._see()
            await asyncio.sleep(_LOOK_S)

    def _see(self) -> None:
        if self._bench.is_moving():
            self._moved_at = self._clock.monotonic()

    def _hear(self, item: MowerState | MowerEvent) -> None:
        if isinstance(item, MowerState):
            self._judge(item)
            self.states.append(item)
            self._news.set()
        self.said.append(repr(item))

    def _judge(self, state: MowerState) -> None:
        self._see()
        try:
            require_plausible(state, self._clock.now())
        except BreachError as err:
            self.fail(str(err))
        moves = state.activity in MOVING or state.blades_on is True
        if moves and not self._takes_motion_as_said and self._clock.monotonic() - self._moved_at > HONEST_S:
            self.fail(f"it is said to be {state.activity}, blades {state.blades_on}, and stands")
        since = self._silent_since
        if (
            since is not None
            and state.observed_at > since + timedelta(seconds=1)
            and state.activity is not Activity.UNKNOWN
        ):
            self.fail(f"it says nothing, and is said to be {state.activity}")

    def fail(self, text: str) -> None:
        """Something is wrong; the first of it counts."""
        self._breach = self._breach or text
        self._news.set()

    def expect_silence(self, *, is_silent: bool) -> None:
        """From now on nothing can be known of the mower, or it can."""
        self._silent_since = self._clock.now() if is_silent else None

    def check(self) -> None:
        """BreachError for whatever was wrong up to now."""
        if self._breach is not None:
            raise BreachError(self._breach)

    def go_on(self) -> None:
        """A person has helped."""
        self._is_helped.set()

    async def until(self, is_so: Callable[[], bool], what: str, timeout_s: float = BOUND_S) -> None:
        """BreachError when it does not become so in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not is_so():
                    self.check()
                    self._news.clear()
                    try:
                        async with asyncio.timeout(_LOOK_S):
                            await self._news.wait()
                    except TimeoutError:
                        continue
        except TimeoutError as err:
            last = f"{self.states[-1].activity} of {self.states[-1].observed_at:%H:%M:%S}" if self.states else "none"
            ends = f"; links ended: {', '.join(self.ends[-3:])}" if self.ends else ""
            raise BreachError(f"{what}: not within {timeout_s:g} s; the last state is {last}{ends}") from err
        self.check()

    async def news(self, what: str) -> None:
        """A state that was asked for from now on, or the end of a link."""
        now, ends = self._clock.now(), len(self.ends)
        await self.until(lambda: len(self.ends) > ends or self.link is None or self._is_current(now), what)

    async def fresh_state(self, what: str) -> None:
        """A state that was asked for from now on."""
        now = self._clock.now()
        await self.until(lambda: self._is_current(now), what)

    def _is_current(self, at: datetime) -> bool:
        """Whether the newest state tells of that time; one that still holds does, where only news is told."""
        if not self.states:
            return False
        return self.states[-1].observed_at > at or (self._bench.tells_news_only and self.link is not None)

    async def agreement(self) -> None:
        """What is said of the mower is what it does."""

        def agrees() -> bool:
            return bool(self.states) and (self.states[-1].activity in MOVING) == self._bench.is_moving()

        await self.until(agrees, f"moving or not ({self._bench.is_moving()}) is not what is said")


@asynccontextmanager
async def keep_up(bench: Bench, clock: Clock, *, takes_motion_as_said: bool = False) -> AsyncIterator[Steward]:
    """A steward at work; `takes_motion_as_said` for a mower that lies about itself. Its tasks end with the block, or are named."""
    steward = Steward(bench, clock, takes_motion_as_said=takes_motion_as_said)
    tasks = scope("link under test", lambda err: steward.fail(text_of(err.__cause__ or err)))
    tasks.spawn(steward.live(), "live")
    tasks.spawn(steward.look(), "look")
    try:
        yield steward
    finally:
        late = await tasks.close()
    require(not late, f"run() did not end within {CLOSE_DEADLINE_S:g} s of its cancellation")
    steward.check()
