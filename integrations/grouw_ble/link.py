"""The link to one mower: connects, asks in the mower's rhythm, lets go while it rests, and passes commands on.

One task does all the talking, and waits for no answer: a stop is written as soon as it is there. The mower answers no
order, so what became of one is seen in the statuses that follow. An order that moves it is written once and never again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

from core.domain.commands import Command, EmergencyStop, confirm_timeout_s, find_mistakes, is_confirmed, kind_of
from core.domain.errors import AuthFailedError, LinkLostError, LinkTimeoutError, MowdeckError
from core.domain.mower import MOVING, Activity, MowerState
from core.platform.bluetooth import BluetoothPort
from core.platform.integration import ACCEPTED, IntegrationContext, Outcome, Report
from integrations.grouw_ble.conversation import Conversation
from integrations.grouw_ble.errands import Errand, Errands
from integrations.grouw_ble.mapping import events_between, needs_status, order_of, state_of, unknown_words
from integrations.grouw_ble.models import CAPABILITIES
from integrations.grouw_ble.protocol import StatusHeard
from integrations.grouw_ble.rhythm import Rhythm, rhythm_of
from integrations.grouw_ble.settings import PIN, MowerSettings
from integrations.grouw_ble.wire import Order

CONFIRM_POLL_S = 1.0
"""After a command the mower is asked this often, until its effect shows or its time is over."""
TRIES = 3
"""A status is asked for so often until the link is given up."""
STOP_TRIES = 3
STOP_AGAIN_S = 2.0
"""A mower that still moves so long after a stop is told to stop again."""
NEVER = float("-inf")


@dataclass(slots=True, kw_only=True)
class Memory:
    """What is known of a mower from one link to the next."""

    state: MowerState | None = None
    """The newest that is not unknown."""
    activity: Activity | None = None
    activity_since: float = 0.0
    """Monotonic."""
    logged_words: set[str] = field(default_factory=set)
    is_signed_in: bool = False


@dataclass(slots=True, kw_only=True)
class _Watch:
    """A command whose effect is looked for. `told_at` is the date of its last telling."""

    command: Command
    before: MowerState | None
    until: float
    told_at: datetime
    again_at: float
    tries_left: int


class GrouwLink:
    """A MowerLink. `run` once; `send` only while it runs."""

    def __init__(
        self, *, settings: MowerSettings, bluetooth: BluetoothPort, context: IntegrationContext, memory: Memory
    ) -> None:
        self.capabilities = CAPABILITIES
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
        self._polled_at = NEVER
        self._newest: StatusHeard | None = None
        """Of this connection."""
        self._silences = 0
        self._rhythm = Rhythm(interval_s=0.0, stays=True)

    async def run(self, report: Report) -> None:
        """Reports until it is cancelled, or until the connection fails. AuthFailedError when the mower has another PIN
        than ours (where the entry wants that checked)."""
        if self._was_run:
            raise LinkLostError("this link has ended; open a new one")
        self._was_run = self._is_open = True
        try:
            while True:
                await self._visit(report)
                await self._rest()
        finally:
            self._is_open = False
            self._errands.drop_all()

    # One connection

    def _share(self) -> None:
        self._is_wanted = True
        self._wake.set()

    async def _visit(self, report: Report) -> None:
        """Connects, and stays as long as the mower's rhythm wants it."""
        failure: MowdeckError | None = None
        self._is_wanted = False
        async with self._bluetooth.connect(
            self._settings.address, on_wanted=self._share, is_urgent=lambda: self._errands.has_stop
        ) as connection:
            talk = Conversation(connection, clock=self._clock, answer_s=self._settings.answer_s, on_news=self._wake.set)
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(talk.watch(), name=f"connection to {self._settings.address}")
                try:
                    await talk.open()
                    await self._check_pin(talk)
                    await self._stay(talk, report)
                except MowdeckError as err:
                    failure = err  # out of the group as it is, not as a group
                finally:
                    watcher.cancel()
        if failure is not None:
            raise failure

    async def _check_pin(self, talk: Conversation) -> None:
        """Once after each set-up, without a beep: a mower that does not tell its PIN that way is left in peace."""
        if self._memory.is_signed_in or not self._settings.verifies_sign_in:
            return
        told = await talk.ask_pin(None)
        if told is None or told.pin is None:
            self._log.info("the mower does not tell its PIN now; it is not checked")
        elif told.pin != self._secrets.get(PIN):
            raise AuthFailedError("the mower has another PIN now", hint="Enter the PIN that the mower has now.")
        self._memory.is_signed_in = True

    async def _stay(self, talk: Conversation, report: Report) -> None:
        self._polled_at, self._newest, self._silences = NEVER, None, 0
        while True:
            self._wake.clear()
            await self._serve(talk)
            talk.check()
            if heard := talk.take_heard():
                self._take(heard, report)
                await self._insist(talk)
                continue
            now, waiting_since = self._clock.monotonic(), talk.waiting_since
            due_at = self._due_at() if waiting_since is None else self._polled_at + self._settings.answer_s
            if now >= due_at:
                await self._poll(talk)
            elif waiting_since is None and self._may_leave:
                return
            else:
                await self._pause(due_at - now)

    @property
    def _may_leave(self) -> bool:
        """Whether nothing depends on the connection until the next poll."""
        return (self._is_wanted or not self._rhythm.stays) and self._watch is None and not self._errands

    def _due_at(self) -> float:
        """Monotonic time of the next poll, when none is under way."""
        if self._waits_for_status():
            return NEVER
        return self._polled_at + (CONFIRM_POLL_S if self._watch is not None else self._rhythm.interval_s)

    async def _poll(self, talk: Conversation) -> None:
        """Asks for a status; LinkTimeoutError when the mower has been silent too often."""
        if talk.waiting_since is not None:
            self._silences += 1
            if self._silences >= TRIES:
                raise LinkTimeoutError(f"the mower was silent {TRIES} times")
        self._polled_at = self._clock.monotonic()
        await talk.ask_status()

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

    # What the mower says

    def _take(self, heard: list[StatusHeard], report: Report) -> None:
        self._silences = 0
        for one in heard:
            self._newest = one
            self._log_unknown(one)
            state = self._publish(one, report)
            self._look_after(state)
            unchanged_s = self._clock.monotonic() - self._memory.activity_since
            self._rhythm = rhythm_of(state, unchanged_s=unchanged_s, settings=self._settings)

    def _publish(self, heard: StatusHeard, report: Report) -> MowerState:
        """A state is as old as the request for it: what the mower was told meanwhile shows in the next one."""
        before = self._memory.state
        advertised = self._bluetooth.latest(self._settings.address)
        ble_dbm = advertised.rssi_dbm if advertised is not None else None
        state = state_of(heard.status, observed_at=heard.asked.began_at, ble_dbm=ble_dbm)
        if self._memory.activity is not state.activity:
            self._memory.activity = state.activity
            self._memory.activity_since = self._clock.monotonic()
        for event in events_between(before, state):
            report(event)
        report(state)
        # An unknown activity is no news: what comes after it is compared with what was before.
        if state.activity is not Activity.UNKNOWN:
            self._memory.state = state
        return state

    def _log_unknown(self, heard: StatusHeard) -> None:
        for word in unknown_words(heard.status):
            if word not in self._memory.logged_words:
                self._memory.logged_words.add(word)
                self._log.warning("the mower says something that is not known: %s", word)

    def _look_after(self, state: MowerState) -> None:
        """Ends the watch over a command whose effect shows, or whose time is over."""
        watch = self._watch
        if watch is None:
            return
        shows = state.observed_at >= watch.told_at and is_confirmed(watch.command, watch.before, state)
        if shows or self._clock.monotonic() >= watch.until:
            self._watch = None

    async def _insist(self, talk: Conversation) -> None:
        """Says an emergency stop again to a mower that still moves: a lost one is not noticed otherwise."""
        watch, newest = self._watch, self._newest
        if watch is None or newest is None or not isinstance(watch.command, EmergencyStop) or watch.tries_left <= 0:
            return
        is_news = newest.asked.began_at >= watch.told_at
        moves = self._memory.activity in MOVING
        if is_news and moves and self._clock.monotonic() >= watch.again_at:
            watch.tries_left -= 1
            watch.again_at = self._clock.monotonic() + STOP_AGAIN_S
            self._log.warning("the mower still moves after an emergency stop; it is told again")
            await talk.tell(Order.PAUSE)
            watch.told_at = self._clock.now()

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
        self._wake.set()
        try:
            return await errand.outcome
        finally:
            self._errands.remove(errand)

    def _waits_for_status(self) -> bool:
        """Whether the next command is held back until a status is there that was asked for after it came."""
        errand = self._errands.head(self._clock.monotonic())
        if errand is None or not needs_status(errand.command):
            return False
        return self._newest is None or self._newest.asked.at < errand.asked_at

    async def _serve(self, talk: Conversation) -> None:
        """Passes on all that waits, up to what is held back."""
        while (errand := self._errands.head(self._clock.monotonic())) is not None and not self._waits_for_status():
            talk.check()
            self._errands.remove(errand)
            await self._tell(talk, errand)

    async def _tell(self, talk: Conversation, errand: Errand) -> None:
        """One command. From its first byte on, a failure means that nobody knows."""
        status = self._newest.status if self._newest is not None else None
        order = order_of(errand.command, status)
        if isinstance(order, str):
            errand.settle(Outcome(kind="refused", reason=order))
            return
        try:
            await talk.tell(order)
            errand.settle(ACCEPTED)
        finally:  # also when the link is being closed
            errand.settle(Outcome(kind="unknown", reason="the connection failed while the mower was told"))
            self._watch_for(errand.command)

    def _watch_for(self, command: Command) -> None:
        timeout_s = confirm_timeout_s(command, self.capabilities) or 0.0
        now = self._clock.monotonic()
        self._watch = _Watch(
            command=command,
            before=self._memory.state,
            until=now + timeout_s,
            told_at=self._clock.now(),
            again_at=now + STOP_AGAIN_S,
            tries_left=STOP_TRIES - 1,
        )
        self._polled_at = min(self._polled_at, now - CONFIRM_POLL_S)
