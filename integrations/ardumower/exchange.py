"""One request at a time, in the order of who may not wait, with the greeting whenever the key is not known.

A question (a status) may be broken off by something more urgent. An order is written once and never again: without
an answer nobody knows whether it was heard.
"""

from __future__ import annotations

import asyncio
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


class InterruptedByUrgentError(Exception):
    """A question gave way to something more urgent. Never leaves the link."""


class Exchange:
    """All that is said over one line."""

    def __init__(self, line: Line, session: Session, patience: Patience) -> None:
        self.session = session
        self._line = line
        self._patience = patience
        self._lock = asyncio.Lock()
        self._question: asyncio.Timeout | None = None
        self._urgent = 0
        self._calm = asyncio.Event()
        self._calm.set()

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
        """Asks for something that changes nothing. LinkTimeoutError without a sound answer; InterruptedByUrgentError
        when it gave way."""
        await self._calm.wait()
        async with self._lock:
            if self._urgent:
                raise InterruptedByUrgentError
            # Two clocks: `limit` is how the urgent breaks it off, the line itself keeps the deadline.
            answer: Answer = None
            try:
                async with asyncio.timeout(None) as limit:
                    self._question = limit
                    await self._greet_if_needed()
                    answer = await self._say(body, name, self._patience.question_s)
            except TimeoutError as err:
                raise InterruptedByUrgentError from err
            finally:
                self._question = None
        if isinstance(answer, Reply):
            return answer
        raise LinkTimeoutError("no answer" if answer is None else f"a damaged answer: {answer.reason}")

    async def order(self, body: str, name: str = "C") -> bool:
        """Tells the mower to do something, once; whether it answered. LinkTimeoutError when it could not even be
        greeted; then nothing was sent."""
        await self._calm.wait()
        async with self._lock:
            await self._greet_if_needed()
            return isinstance(await self._say(body, name, self._patience.order_s), Reply)

    async def stop(self, body: str, *, is_driven: bool) -> bool:
        """An order to stop, which waits for no question. A mower that is driven by hand is told to stand first, for
        changing from standing to standing does not end a drive request."""
        self._urgent += 1
        self._calm.clear()
        self.interrupt()
        try:
            async with self._lock:
                await self._greet_if_needed()
                if is_driven:
                    await self._line.ask(self.session.request(STAND_STILL), "M", self._patience.drive_s)
                return isinstance(await self._say(body, "C", self._patience.order_s), Reply)
        finally:
            self._urgent -= 1
            if not self._urgent:
                self._calm.set()

    async def drive(self, body: str, deadline_s: float | None = None) -> bool:
        """One drive request, once; whether it answered. Not sent at all while the key is not known, or while
        something urgent waits."""
        async with self._lock:
            if not self.session.is_greeted or self._urgent:
                return False
            patience_s = self._patience.drive_s if deadline_s is None else min(deadline_s, self._patience.drive_s)
            # Silence to it proves nothing and costs no greeting: the next question finds out.
            answer = await self._line.ask(self.session.request(body), "M", patience_s)
            return isinstance(answer, Reply)

    def interrupt(self) -> None:
        """Breaks off the question that is under way, if there is one."""
        limit, self._question = self._question, None
        if limit is not None:
            limit.reschedule(asyncio.get_running_loop().time())

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
            self.session.forget()
        return answer
