"""The link to one mower: connects, asks in the mower's rhythm, lets go while it rests, and passes commands on.

One task does all the talking. Commands wait for it in a short queue; an emergency stop goes to its front and takes
everything that would move the mower out of it. A command is told to the mower once and never again.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import datetime

from core.domain.commands import Command, confirm_timeout_s, find_mistakes, is_confirmed, kind_of, starts_motion
from core.domain.errors import (
    AuthFailedError,
    BondLostError,
    EntryError,
    LinkLostError,
    LinkTimeoutError,
    MowdeckError,
    WrongPinError,
)
from core.domain.mower import Activity, MowerState
from core.platform.bluetooth import BluetoothPort
from core.platform.integration import ACCEPTED, IntegrationContext, Outcome, Report
from integrations.husqvarna_ble import wire
from integrations.husqvarna_ble.conversation import KEEP_ALIVE_S, Conversation, HurriedError, RefusedError
from integrations.husqvarna_ble.errands import OVERTAKEN, Errand, Errands
from integrations.husqvarna_ble.mapping import (
    Order,
    events_between,
    is_accepted,
    orders_of,
    reason_of,
    state_of,
    unknown_words,
)
from integrations.husqvarna_ble.models import Product
from integrations.husqvarna_ble.protocol import Answer
from integrations.husqvarna_ble.rhythm import Rhythm, rhythm_of
from integrations.husqvarna_ble.settings import PIN, REFUSED_PIN, MowerSettings
from integrations.husqvarna_ble.survey import Survey
from integrations.husqvarna_ble.wire import Operation, Reading, Result

CONFIRM_POLL_S = 1.0
"""After a command the mower is asked this often, until its effect shows or its time is over."""
NEWS_S = 2.0
"""What the mower says unasked makes a poll come, at most this often."""
STOP_TRIES = 3
STOP_ANSWER_S = 2.0


@dataclass(slots=True, kw_only=True)
class Memory:
    """What is known of a mower from one link to the next."""

    state: MowerState | None = None
    error_since: datetime | None = None
    activity: Activity | None = None
    """Of the last poll, unknown or not."""
    activity_since: float = 0.0
    """Monotonic."""
    logged_words: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    command: Command
    before: MowerState | None
    until: float


class HusqvarnaLink:
    """A MowerLink. `run` once; `send` only while it runs."""

    def __init__(
        self,
        *,
        settings: MowerSettings,
        product: Product,
        bluetooth: BluetoothPort,
        context: IntegrationContext,
        memory: Memory,
    ) -> None:
        self.capabilities = product.capabilities
        self._settings = settings
        self._bluetooth = bluetooth
        self._secrets = context.secrets
        self._clock = context.clock
        self._log = context.log
        self._memory = memory
        self._was_run = False
        self._is_open = False
        self._errands = Errands()
        self._wake = asyncio.Event()
        self._is_wanted = False
        """Another mower waits for this connection's slot."""
        self._watch: _Watch | None = None
        self._polled_at = float("-inf")
        self._rhythm = Rhythm(interval_s=0.0, stays=True)
        self._talk: Conversation | None = None
        """The conversation that may be hurried: it is open and signed in."""

    async def run(self, report: Report) -> None:
        """Reports until it is cancelled, or until the connection fails. AuthFailedError for a refused PIN and a lost
        bond: a person has to act."""
        if self._was_run:
            raise LinkLostError("this link has ended; open a new one")
        self._was_run = self._is_open = True
        try:
            while True:
                await self._visit(report)
                await self._rest()
        except WrongPinError as err:
            self._secrets.put(REFUSED_PIN, self._secrets.get(PIN) or "")
            raise AuthFailedError(err.detail, hint=err.advice) from err
        except BondLostError as err:
            raise AuthFailedError(err.detail or "the mower does not know this box any more", hint=err.advice) from err
        finally:
            self._is_open = False
            self._errands.drop_all()

    # One connection

    def _share(self) -> None:
        self._is_wanted = True
        self._wake.set()

    async def _visit(self, report: Report) -> None:
        """Connects, and stays as long as the mower's rhythm wants it."""
        pin = self._pin()
        failure: MowdeckError | None = None
        self._is_wanted = False
        async with self._bluetooth.connect(
            self._settings.address,
            bond="existing",
            on_wanted=self._share,
            is_urgent=lambda: self._errands.has_stop,
        ) as connection:
            talk = Conversation(
                connection,
                self._settings.channel,
                clock=self._clock,
                settle_s=self._settings.settle_s,
                answer_s=self._settings.answer_s,
                on_news=self._wake.set,
            )
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(talk.watch(), name=f"connection to {self._settings.address}")
                try:
                    await self._begin(talk, pin)
                    self._talk = talk
                    await self._stay(talk, report)
                except MowdeckError as err:
                    failure = err  # out of the group as it is, not as a group
                finally:
                    self._talk = None
                    watcher.cancel()
        if failure is not None:
            raise failure

    def _pin(self) -> str:
        pin = self._secrets.get(PIN)
        if pin is None:
            raise AuthFailedError("the PIN of the mower is not known")
        if self._secrets.get(REFUSED_PIN) == pin:
            raise WrongPinError("the mower has refused this PIN before")
        return pin

    async def _begin(self, talk: Conversation, pin: str) -> None:
        """Opens the channel, signs in, and makes sure that it is the right mower."""
        await talk.open()
        is_known = await self._recognise(talk)  # before the PIN: another mower must not count it as a wrong one
        await talk.sign_in(pin)
        if not is_known:
            await self._recognise(talk)

    async def _recognise(self, talk: Conversation) -> bool:
        """Whether the mower tells its serial number; EntryError when it is another one's."""
        try:
            serial = await talk.read(Operation.GET_SERIAL_NUMBER, wire.read_u32)
        except (RefusedError, wire.MalformedAnswerError):
            return False
        if str(serial) != self._settings.serial:
            raise EntryError("another mower answers at this address")
        return True

    async def _stay(self, talk: Conversation, report: Report) -> None:
        async def let_through() -> None:
            await self._serve(talk)

        survey = Survey(talk, clock=self._clock, log=self._log, let_through=let_through)
        self._polled_at = float("-inf")
        while True:
            self._wake.clear()
            await self._serve(talk)
            talk.check()
            now = self._clock.monotonic()
            due_at = self._due_at(talk)
            if now >= due_at:
                await self._poll(talk, survey, report)
            elif (self._is_wanted or not self._rhythm.stays) and self._watch is None and not talk.has_news:
                return
            elif now >= talk.spoke_at + KEEP_ALIVE_S:
                with contextlib.suppress(HurriedError):
                    await talk.keep_alive()
            else:
                await self._pause(min(due_at, talk.spoke_at + KEEP_ALIVE_S) - now)

    async def _pause(self, seconds: float) -> None:
        """Until the time is over, or something has happened."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _rest(self) -> None:
        """Without a connection, until the next poll is due or somebody wants something."""
        while not self._errands:
            self._wake.clear()
            left_s = self._polled_at + self._rhythm.interval_s - self._clock.monotonic()
            if left_s <= 0:
                return
            await self._pause(left_s)

    # Polls

    def _due_at(self, talk: Conversation) -> float:
        """Monotonic time of the next poll."""
        if self._watch is not None:
            return self._polled_at + CONFIRM_POLL_S
        interval_s = min(self._rhythm.interval_s, NEWS_S) if talk.has_news else self._rhythm.interval_s
        return self._polled_at + interval_s

    async def _poll(self, talk: Conversation, survey: Survey, report: Report) -> None:
        watch, began_at = self._watch, self._clock.now()
        is_first = self._polled_at == float("-inf")
        talk.has_news = False
        reading = await survey.take(is_quick=watch is not None and not is_first)
        self._polled_at = self._clock.monotonic()
        self._log_unknown(reading)
        state = self._publish(reading, report, began_at)
        if self._watch is not None and self._watch is watch:
            is_over = self._polled_at >= watch.until
            if is_over or is_confirmed(watch.command, watch.before, state):
                self._watch = None
        elif self._watch is not None:
            self._polled_at = float("-inf")  # a command came while this poll was under way: it shows nothing of it
        unchanged_s = self._clock.monotonic() - self._memory.activity_since
        self._rhythm = rhythm_of(state, unchanged_s=unchanged_s, settings=self._settings)

    def _publish(self, reading: Reading, report: Report, now: datetime) -> MowerState:
        """A state is as old as its first answer: what was asked of the mower meanwhile shows in the next one."""
        before = self._memory.state
        heard = self._bluetooth.latest(self._settings.address)
        ble_dbm = heard.rssi_dbm if heard is not None else None
        state = state_of(reading, observed_at=now, error_since=now, ble_dbm=ble_dbm)
        if state.error is not None:
            was = before.error if before is not None else None
            if was is None or was.code != state.error.code or self._memory.error_since is None:
                self._memory.error_since = now
            state = state_of(reading, observed_at=now, error_since=self._memory.error_since, ble_dbm=ble_dbm)
        else:
            self._memory.error_since = None
        if self._memory.activity is not state.activity:
            self._memory.activity = state.activity
            self._memory.activity_since = self._clock.monotonic()
        # An unknown activity is no news: what comes after it is compared with what was before.
        if state.activity is not Activity.UNKNOWN:
            self._memory.state = state
        for event in events_between(before, state):
            report(event)
        report(state)
        return state

    def _log_unknown(self, reading: Reading) -> None:
        for word in unknown_words(reading):
            if word not in self._memory.logged_words:
                self._memory.logged_words.add(word)
                self._log.warning("the mower says something that is not known: %s", word)

    # Commands

    async def send(self, command: Command) -> Outcome:
        """Told to the mower once. LinkLostError when the link does not run, or ends before it was told."""
        if not self._is_open:
            raise LinkLostError("the link does not run")
        kind = kind_of(command)
        if getattr(self.capabilities, kind) is None:
            return Outcome(kind="refused", reason=f"this mower cannot {kind.replace('_', ' ')}")
        mistakes = find_mistakes(command, self.capabilities)
        if mistakes:
            return Outcome(kind="refused", reason="; ".join(f"{m.field}: {m.reason}" for m in mistakes))
        errand = self._errands.add(command, self._clock.monotonic())
        if errand.is_stop and self._talk is not None:
            self._talk.hurry()
        self._wake.set()
        try:
            return await errand.outcome
        finally:
            self._errands.withdraw(errand)

    async def _serve(self, talk: Conversation) -> None:
        """Passes on all that waits."""
        while (errand := self._errands.take(self._clock.monotonic())) is not None:
            await self._tell(talk, errand)

    async def _tell(self, talk: Conversation, errand: Errand) -> None:
        """One command, order by order. From its first byte on, a failure means that nobody knows."""
        is_told = False
        try:
            if not errand.is_stop and starts_motion(errand.command):
                await talk.ensure_signed_in()
            for order in orders_of(errand.command):
                if not errand.is_stop and self._errands.has_stop:
                    errand.settle(OVERTAKEN)
                    return
                talk.check()
                is_told = True
                answer = await self._order(talk, order, is_stop=errand.is_stop)
                if not is_accepted(order.operation, answer.result):
                    errand.settle(Outcome(kind="refused", reason=reason_of(answer.result)))
                    return
            errand.settle(ACCEPTED)
        except HurriedError:
            if not is_told:
                errand.settle(OVERTAKEN)
                return
        except LinkTimeoutError:
            if not is_told:
                raise
        finally:  # also when the link is being closed
            if is_told:
                errand.settle(Outcome(kind="unknown", reason="the mower did not answer"))
            else:
                errand.fail("the connection failed before the command was sent")
        self._watch_for(errand.command)  # the polls that follow say what has become of it

    async def _order(self, talk: Conversation, order: Order, *, is_stop: bool) -> Answer:
        """Once; but a stop is said again, for that harms nobody."""
        if not is_stop:
            return await talk.ask(order.operation, order.payload)
        answer = await talk.ask(order.operation, order.payload, tries=STOP_TRIES, answer_s=STOP_ANSWER_S)
        if answer.result == Result.NOT_ALLOWED and await talk.ensure_signed_in():
            return await talk.ask(order.operation, order.payload, tries=STOP_TRIES, answer_s=STOP_ANSWER_S)
        return answer

    def _watch_for(self, command: Command) -> None:
        timeout_s = confirm_timeout_s(command, self.capabilities) or 0.0
        until = self._clock.monotonic() + timeout_s
        self._watch = _Watch(command=command, before=self._memory.state, until=until)
        self._polled_at = min(self._polled_at, until - timeout_s - CONFIRM_POLL_S)
