"""Talking to a mower over one open connection. Nothing here waits for a status: it is asked for, and heard later.

Only the task that made it may tell and ask. What the mower tells of its PIN is logged nowhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import datetime

from core.domain.clock import Clock
from core.domain.errors import LinkLostError, LinkTimeoutError
from core.platform.bluetooth import GattConnection
from integrations.grouw_ble import codec, wire
from integrations.grouw_ble.protocol import Asked, Session, StatusHeard, pieces
from integrations.grouw_ble.wire import Order, PinTold

_HEARD_MAX = 32
"""Statuses that nobody has looked at; the newest win."""


def _ignore() -> None:
    """Nobody wants to know."""


class Conversation:
    """Made for an open connection; dies with it."""

    def __init__(
        self, connection: GattConnection, *, clock: Clock, answer_s: float, on_news: Callable[[], None] = _ignore
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._answer_s = answer_s
        self._on_news = on_news
        self._session = Session()
        self._heard: deque[StatusHeard] = deque(maxlen=_HEARD_MAX)
        self._pin: PinTold | None = None
        self._news = asyncio.Event()
        self._is_lost = False
        self.waiting_since: float | None = None
        """Monotonic time of the first request for a status since one was heard."""

    async def watch(self) -> None:
        """Returns when the connection has ended, after everybody who waits has been told."""
        await self._connection.wait_closed()
        self._is_lost = True
        self._tell_news()

    def check(self) -> None:
        """LinkLostError when the connection has ended."""
        if self._is_lost or not self._connection.is_open:
            raise LinkLostError("the connection ended")

    async def open(self) -> None:
        """Listens to the mower."""
        await self._connection.subscribe(wire.CONTROL, self._hear)

    def _hear(self, data: bytes) -> None:
        for heard in self._session.feed(data, self._clock.monotonic()):
            if isinstance(heard, PinTold):
                self._pin = heard
            else:
                self._heard.append(heard)
                self.waiting_since = None
            self._tell_news()

    def _tell_news(self) -> None:
        self._news.set()
        self._on_news()

    async def _write(self, data: bytes) -> None:
        self.check()
        for piece in pieces(data, self._connection.mtu - 3):
            await self._connection.write(wire.CONTROL, piece)

    async def tell(self, order: Order) -> None:
        """An order. That it has been written is all that is known: the mower answers none."""
        await self._write(codec.order(order))

    async def ask_status(self) -> None:
        """Its answer comes out of `take_heard`."""
        now = self._clock.monotonic()
        if self.waiting_since is None:
            self.waiting_since = now
        await self._write(self._session.ask_status(Asked(at=now, began_at=self._clock.now())))

    def take_heard(self) -> list[StatusHeard]:
        """What was heard since the last time, the oldest first."""
        heard = list(self._heard)
        self._heard.clear()
        return heard

    # For the flow, which does one thing after the other

    async def status(self, *, tries: int = 2) -> StatusHeard:
        """Asks and waits. LinkTimeoutError when no answer comes, LinkLostError."""
        for _ in range(tries):
            await self.ask_status()
            if await self._wait(lambda: bool(self._heard)):
                return self.take_heard()[-1]
        raise LinkTimeoutError(f"no answer within {tries * self._answer_s:g} s")

    async def ask_pin(self, local_time: datetime | None) -> PinTold | None:
        """The mower's PIN; None when it does not tell. With a `local_time` (the garden's) a mower that does not answer
        at once is asked again as its app does it: it beeps, and sets its clock."""
        self._pin = None
        await self._write(codec.pin_request())
        if not await self._wait(lambda: self._pin is not None) and local_time is not None:
            await self._write(codec.session_start(local_time))
            await self._write(codec.pin_request())
            await self._wait(lambda: self._pin is not None)
        return self._pin

    async def _wait(self, is_there: Callable[[], bool]) -> bool:
        try:
            async with asyncio.timeout(self._answer_s):
                while not is_there():
                    self.check()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True
