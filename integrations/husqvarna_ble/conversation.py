"""Talking to a mower over one open connection: requests with a deadline, signing in, keeping alive.

Only the task that made it may ask. The PIN is never logged, and never sent twice by itself to a mower that refused it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from core.domain.clock import Clock
from core.domain.errors import IntegrationError, LinkLostError, LinkTimeoutError, NotReadyError, WrongPinError
from core.platform.bluetooth import GattConnection
from integrations.husqvarna_ble import wire
from integrations.husqvarna_ble.frames import WRITE_BYTES, pieces
from integrations.husqvarna_ble.protocol import Answer, Heard, Ready, Session
from integrations.husqvarna_ble.wire import MalformedAnswerError, Operation, Result

T = TypeVar("T")

ANSWER_S = 10.0
KEEP_ALIVE_S = 15.0
"""The mower ends a connection on which it has heard nothing for about a minute."""
HURRY_S = 1.0
"""An answer that is not there by then is not waited for while something urgent waits."""
BLOCKED_S = 60.0
"""Pause after "locked" when the mower does not say how long."""


class RefusedError(IntegrationError):
    """The mower answered that it does not do what was asked; `result` is its number."""

    code = "husqvarna-refused"
    hint = "The mower does not do that now, or not at all."

    def __init__(self, operation: Operation, result: int) -> None:
        super().__init__(f"{operation.name}: {wire.word(Result, result)}")
        self.operation = operation
        self.result = result


class HurriedError(LinkTimeoutError):
    """An answer was given up, because something urgent waits. The connection is as good as before."""

    code = "husqvarna-hurried"


def _ignore() -> None:
    """Nobody wants to know."""


class Conversation:
    """Made for an open connection; dies with it. All waiting ends with LinkLostError when the connection does."""

    def __init__(
        self,
        connection: GattConnection,
        channel: int,
        *,
        clock: Clock,
        settle_s: float,
        answer_s: float = ANSWER_S,
        on_news: Callable[[], None] = _ignore,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._settle_s = settle_s
        self._answer_s = answer_s
        self._on_news = on_news
        self._session = Session(channel)
        self._waiter: asyncio.Future[Ready | Answer] | None = None
        self._deadline: asyncio.Timeout | None = None
        self._is_hurried = False
        self._is_lost = False
        self._pin: str | None = None
        self.spoke_at = clock.monotonic()
        """Monotonic time of the last word to the mower."""
        self.has_news = False
        """The mower has said something unasked; whoever looks after it, clears it."""

    @property
    def strays(self) -> int:
        """Frames and bytes that were passed over, for diagnostics."""
        return self._session.strays + self._session.skipped

    async def watch(self) -> None:
        """Returns when the connection has ended, after everybody who waits has been told."""
        await self._connection.wait_closed()
        self._is_lost = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(LinkLostError("the connection ended"))
        self._on_news()

    def check(self) -> None:
        """LinkLostError when the connection has ended."""
        if self._is_lost or not self._connection.is_open:
            raise LinkLostError("the connection ended")

    async def open(self) -> None:
        """Subscribes, gives the mower its moment, and takes a channel."""
        await self._connection.subscribe(wire.RESPONSES, self._hear)
        await asyncio.sleep(self._settle_s)
        await self._exchange(self._session.open(), "channel", self._answer_s)
        await self._exchange(self._session.take_channel(), "handshake", self._answer_s)

    def _hear(self, data: bytes) -> None:
        for said in self._session.feed(data):
            if isinstance(said, Heard):
                self.has_news = True
                self._on_news()
            elif self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(said)

    def hurry(self) -> None:
        """Something urgent waits: whoever waits for an answer now gets HurriedError soon, unless it comes."""
        if self._deadline is None:
            return
        soon = asyncio.get_running_loop().time() + HURRY_S
        until = self._deadline.when()
        if until is None or soon < until:
            self._is_hurried = True
            self._deadline.reschedule(soon)

    async def _exchange(self, data: bytes, what: str, answer_s: float) -> Ready | Answer:
        self.check()
        self.spoke_at = self._clock.monotonic()
        waiter: asyncio.Future[Ready | Answer] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        try:
            async with asyncio.timeout(answer_s) as self._deadline:
                for piece in pieces(data, WRITE_BYTES):
                    await self._connection.write(wire.REQUESTS, piece, with_response=False)
                return await waiter
        except TimeoutError as err:
            if self._is_hurried:
                raise HurriedError(f"{what}: not waited for") from err
            raise LinkTimeoutError(f"{what}: no answer within {answer_s:g} s") from err
        finally:
            self._waiter = self._deadline = None
            self._is_hurried = False
            if self._session.asked is not None:
                self._session.give_up()

    async def ask(
        self, operation: Operation, payload: bytes = b"", *, tries: int = 1, answer_s: float | None = None
    ) -> Answer:
        """The mower's answer, whatever its result. Sent `tries` times at most while none comes; more than once only
        what sets nothing in motion. LinkTimeoutError (HurriedError), LinkLostError, BluetoothErrors."""
        wait_s = self._answer_s if answer_s is None else min(answer_s, self._answer_s)
        while True:
            tries -= 1
            try:
                answer = await self._exchange(self._session.ask(operation, payload), operation.name, wait_s)
            except HurriedError:
                raise
            except LinkTimeoutError:
                if tries <= 0:
                    raise
                continue
            if isinstance(answer, Answer):
                return answer
            raise LinkLostError("the mower answered something else")

    async def read(self, operation: Operation, decode: Callable[[bytes], T], payload: bytes = b"") -> T:
        """A value. RefusedError, MalformedAnswerError and what `ask` raises."""
        answer = await self.ask(operation, payload, tries=2)
        if not answer.is_ok:
            raise RefusedError(operation, answer.result)
        try:
            return decode(answer.payload)
        except MalformedAnswerError as err:
            raise MalformedAnswerError(f"{operation.name}: {err.detail}") from err

    async def keep_alive(self) -> None:
        """A word so that the mower does not hang up."""
        await self.ask(Operation.KEEP_ALIVE, tries=2)

    # Signing in

    async def sign_in(self, pin: str) -> None:
        """WrongPinError when the mower refuses it; NotReadyError while it is locked or busy."""
        answer = await self.ask(Operation.ENTER_OPERATOR_PIN, wire.write_u16(int(pin)))
        match answer.result:
            case Result.OK:
                self._pin = pin
            case Result.UNKNOWN_ERROR | Result.INVALID_PIN:
                raise WrongPinError("the mower refused the PIN")
            case Result.MOWER_BLOCKED:
                raise await self._blocked()
            case _:
                raise NotReadyError(f"the mower takes no PIN now ({answer.result_word})")

    async def _blocked(self) -> NotReadyError:
        try:
            blocked_s = await self.read(Operation.GET_BLOCKED_TIME, wire.read_u32)
        except (RefusedError, MalformedAnswerError):
            blocked_s = 0
        return MowerBlockedError(
            "the mower is locked after wrong PINs", retry_after_s=float(min(blocked_s, 3_600)) or BLOCKED_S
        )

    async def ensure_signed_in(self) -> bool:
        """Whether the mower had forgotten us; then the PIN that it took before has been entered again."""
        try:
            if await self.read(Operation.IS_OPERATOR_LOGGED_IN, wire.read_bool):
                return False
        except (RefusedError, MalformedAnswerError):
            return False  # it does not tell; whether it obeys is seen from its answers
        if self._pin is None:
            raise NotReadyError("nobody has signed in yet")
        await self.sign_in(self._pin)
        return True


class MowerBlockedError(NotReadyError):
    """The mower takes no PIN for a while, because somebody entered wrong ones."""

    code = "husqvarna-blocked"
    hint = "Wait until the mower is no longer locked, then enter the PIN once more."
