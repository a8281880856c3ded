"""One request at a time, in the order of who may not wait, with the greeting whenever the key is not known.

An order is written once and never again: without an answer nobody knows whether it was heard. A stop waits for nobody:
it breaks off whatever is under way, and orders that waited for their turn are never sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from core.domain.errors import AuthFailedError, LinkTimeoutError
from integrations.ardumower.line import Answer, Line
from integrations.ardumower.orders import STAND_STILL, STATUS
from integrations.ardumower.protocol import Damage, Reply, Session
from integrations.ardumower.wire import Status, Version, read_status

PASSWORD_TRIES = 3
"""So often a greeted mower may be silent to the first shifted request before the password is called wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an answer may take (seconds)."""

    greeting_s: float = 3.0
    question_s: float = 3.0
    order_s: float = 4.0
    drive_s: float = 0.6


PATIENCE = Patience()


class BrokenOffError(Exception):
    """A request gave way to a stop: it may have been heard, and its answer is not waited for. Never leaves the link."""


class OvertakenError(Exception):
    """An order waited when a stop was given: it was not sent and never will be. Never leaves the link."""


class Exchange:
    """All that is said over one line."""

    def __init__(self, line: Line, session: Session, patience: Patience) -> None:
        self.session = session
        self._line = line
        self._patience = patience
        self._lock = asyncio.Lock()
        self._limit: asyncio.Timeout | None = None
        self._stops_given = 0
        self._stops_waiting = 0

    async def open(self) -> tuple[Version, Status]:
        """The first words: proves that this is a Sunray mower and that the password is right. LinkTimeoutError for
        silence, AuthFailedError when it hears greetings and nothing else."""
        for _ in range(PASSWORD_TRIES):
            async with self._lock:
                await self._greet()
                answer = await self._say(STATUS, "S", self._patience.question_s)
            version = self.session.version
            if isinstance(answer, Reply) and version is not None:
                return version, read_status(answer.fields)
            if isinstance(answer, Damage):
                raise LinkTimeoutError(f"the mower's answer is damaged: {answer.reason}")
            if not self.session.is_shifting:
                break
        if self.session.is_shifting and not self.session.is_proven:
            raise AuthFailedError("the mower does not take the password")
        raise LinkTimeoutError("the mower greets and then says nothing")

    async def greet(self) -> Version:
        """Only the greeting, which needs no password. LinkTimeoutError when nothing sensible comes back."""
        async with self._lock:
            await self._greet()
        version = self.session.version
        if version is None:
            raise LinkTimeoutError("an answer to the greeting that makes no sense")
        return version

    async def question(self, body: str, name: str) -> Reply:
        """Asks for something that changes nothing. LinkTimeoutError without a sound answer; BrokenOffError when it
        gave way."""
        async with self._lock:
            if self._stops_waiting:
                raise BrokenOffError
            async with self._breakable():
                await self._greet_if_needed()
                answer = await self._say(body, name, self._patience.question_s)
        if isinstance(answer, Reply):
            return answer
        raise LinkTimeoutError("no answer" if answer is None else f"a damaged answer: {answer.reason}")

    async def order(self, body: str) -> bool:
        """Tells the mower to do something, once; whether it answered. OvertakenError when a stop was given before it
        was sent, LinkTimeoutError when the mower could not even be greeted: then nothing was sent either."""
        stops_given = self._stops_given
        async with self._lock:
            if self._stops_given == stops_given:
                try:
                    async with self._breakable():
                        await self._greet_if_needed()
                except BrokenOffError:
                    pass  # it was only greeted: seen below
            if self._stops_given != stops_given:
                raise OvertakenError
            try:
                async with self._breakable():
                    return isinstance(await self._say(body, "C", self._patience.order_s), Reply)
            except BrokenOffError:
                return False

    async def stop(self, body: str, *, is_driven: bool) -> bool:
        """An order to stop: it breaks off what is under way, and what waits is not sent any more. A mower that is
        driven by hand is told to stand first, for an order to stand idle changes nothing for one that does."""
        self._stops_given += 1
        self._stops_waiting += 1
        self.break_off()
        try:
            async with self._lock:
                await self._greet_if_needed()
                if is_driven:
                    await self._line.ask(self.session.request(STAND_STILL), "M", self._patience.drive_s)
                return isinstance(await self._say(body, "C", self._patience.order_s), Reply)
        finally:
            self._stops_waiting -= 1

    async def drive(self, body: str, deadline_s: float | None = None) -> bool:
        """One drive request, once; whether it answered. Not sent at all while the key is in doubt (to stand still may
        be said with a doubtful one), or when a stop was given meanwhile."""
        stops_given = self._stops_given
        async with self._lock:
            is_sure = self.session.is_greeted or (body == STAND_STILL and self.session.has_key)
            if not is_sure or self._stops_given != stops_given:
                return False
            patience_s = self._patience.drive_s if deadline_s is None else min(deadline_s, self._patience.drive_s)
            try:
                async with self._breakable():
                    # Silence to it proves nothing and costs no greeting: the next question finds out.
                    answer = await self._line.ask(self.session.request(body), "M", patience_s)
            except BrokenOffError:
                return False
            return isinstance(answer, Reply)

    def break_off(self) -> None:
        """Ends the wait for an answer that is under way, if it is one that may be given up."""
        limit, self._limit = self._limit, None
        if limit is not None:
            limit.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def _breakable(self) -> AsyncIterator[None]:
        """What a stop may break off: BrokenOffError then. The line itself keeps the deadlines."""
        try:
            async with asyncio.timeout(None) as limit:
                self._limit = limit
                yield
        except TimeoutError as err:
            raise BrokenOffError from err
        finally:
            self._limit = None

    async def _greet_if_needed(self) -> None:
        if not self.session.is_greeted:
            await self._greet()

    async def _greet(self) -> None:
        answer = await self._line.ask(self.session.greeting(), "V", self._patience.greeting_s)
        if answer is None:
            raise LinkTimeoutError("no answer to the greeting")
        if isinstance(answer, Damage):
            raise LinkTimeoutError(f"a damaged answer to the greeting: {answer.reason}")
        if not self.session.take_greeting(answer):
            raise LinkTimeoutError("an answer to the greeting that makes no sense")

    async def _say(self, body: str, name: str, deadline_s: float) -> Answer:
        """Writes one request. After silence the mower is greeted again before the next one: it may be another key."""
        answer = await self._line.ask(self.session.request(body), name, deadline_s)
        if isinstance(answer, Reply):
            self.session.is_proven = True
        elif answer is None:
            self.session.doubt()
        return answer
