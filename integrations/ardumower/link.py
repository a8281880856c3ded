"""One connection to one mower: polls its status, passes orders on, and lets a person drive.

One loop does one thing at a time: a stop that is due, a drive request, a status. Orders come from other tasks and
take their turn in the exchange. Nothing that sets the mower in motion is ever sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from core.domain import commands
from core.domain.capabilities import Capabilities
from core.domain.clock import Clock
from core.domain.commands import Command, EmergencyStop, ManualDrive, PauseMow
from core.domain.drive import DriveFrame
from core.domain.errors import (
    AuthFailedError,
    BondLostError,
    EntryError,
    LinkLostError,
    LinkTimeoutError,
    MowdeckError,
)
from core.domain.mower import MOVING, Activity, LinkKind
from core.platform.integration import ACCEPTED, IntegrationContext, Outcome, Report
from integrations.ardumower.exchange import PATIENCE, BrokenOffError, Exchange, OvertakenError, Patience
from integrations.ardumower.line import Line, OpenLine
from integrations.ardumower.manual import Manual
from integrations.ardumower.mapping import Garden, Notes, state_of
from integrations.ardumower.models import CAPABILITIES
from integrations.ardumower.notebook import Notebook
from integrations.ardumower.occupancy import hold
from integrations.ardumower.orders import OBSTACLES, STAND_STILL, STATISTICS, STATUS, body_of, find_objection
from integrations.ardumower.protocol import Session
from integrations.ardumower.wire import Op, Status, read_obstacles, read_statistics, read_status

_ENDS_MANUAL = frozenset({"start_mow", "resume_mow", "pause_mow", "return_to_dock"})
_STAND_DEADLINE_S = 1.0
"""At the end of a link; then the firmware's own timeout has stopped the motors anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How often the mower is asked (seconds), and how many silences in a row end the link."""

    moving_s: float = 1.0
    standing_s: float = 5.0
    docked_s: float = 20.0
    after_order_s: float = 0.3
    watchful_for_s: float = 15.0
    """After an order the mower is asked often for this long, or until it moves."""
    after_silence_s: float = 1.0
    statistics_s: float = 120.0
    obstacles_s: float = 30.0
    max_silences: int = 3


RHYTHM = Rhythm()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mower:
    """What a link has to know of its mower."""

    identities: tuple[str, ...]
    """Every name under which it may be known, so that no two links hold it."""
    robot_id: str | None
    password: int = field(repr=False)
    garden: Garden
    notebook: Notebook
    open_line: OpenLine
    rssi_dbm: Callable[[], int | None]
    rhythm: Rhythm = RHYTHM
    patience: Patience = PATIENCE


class ArdumowerLink:
    """A DrivableLink. `run` once; `send` and `drive` only while it runs."""

    def __init__(self, mower: Mower, context: IntegrationContext) -> None:
        self.capabilities: Capabilities = CAPABILITIES
        self._mower = mower
        self._rhythm = mower.rhythm
        self._notebook = mower.notebook
        self._clock: Clock = context.clock
        self._log = context.log
        self._was_run = False
        self._exchange: Exchange | None = None
        self._manual = Manual()
        self._status: Status | None = None
        self._wake = asyncio.Event()
        self._is_closed = False
        self._silences = 0
        self._restarts = 0
        self._poll_at = self._statistics_at = self._obstacles_at = float("-inf")
        self._watchful_until = float("-inf")
        self._knows_obstacles = True

    # -- life

    async def run(self, report: Report) -> None:
        """Reports until the connection ends. NotReadyError when another link holds the mower, AuthFailedError when it
        does not take the password, EntryError when another mower answers."""
        if self._was_run:
            raise LinkLostError("this link has ended; open a new one")
        self._was_run = True
        with hold(*self._mower.identities):
            try:
                async with self._mower.open_line() as line:
                    await self._talk(line, report)
            except BondLostError as err:
                raise AuthFailedError("the mower wants to be paired with its passkey") from err

    async def _talk(self, line: Line, report: Report) -> None:
        exchange = Exchange(line, Session(self._mower.password), self._mower.patience)
        version, status = await exchange.open()
        known = self._mower.robot_id
        if known is not None and version.robot_id is not None and version.robot_id != known:
            raise EntryError("another mower answers at this address")
        self._exchange = exchange
        self._restarts = exchange.session.restarts
        failure: MowdeckError | None = None
        try:
            self._take_status(status, report)
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(self._watch(line, exchange), name="ardumower watches the connection")
                try:
                    await self._serve(exchange, report)
                except MowdeckError as err:
                    failure = err  # raised below: out of the group it would come wrapped
                finally:
                    watcher.cancel()
        finally:
            self._exchange = None
            await self._stand_still(exchange)
        if failure is not None:
            raise failure

    async def _watch(self, line: Line, exchange: Exchange) -> None:
        """Tells the loop when the connection ends by itself."""
        with suppress(MowdeckError):
            await line.wait_closed()
        self._is_closed = True
        exchange.break_off()
        self._wake.set()

    async def _stand_still(self, exchange: Exchange) -> None:
        """The link ends: whoever drove the mower has lost it, so it is told to stand. If that cannot reach it, the
        firmware stops its motors by itself."""
        self._manual.end()
        if not self._manual.may_move:
            return
        with suppress(MowdeckError, TimeoutError):
            async with asyncio.timeout(_STAND_DEADLINE_S):
                await exchange.drive(STAND_STILL)

    # -- the loop

    async def _serve(self, exchange: Exchange, report: Report) -> None:
        while True:
            if self._is_closed:
                raise LinkLostError("the connection has ended")
            self._wake.clear()
            now = self._clock.monotonic()
            is_starving = now >= self._poll_at + self._rhythm.moving_s
            if not is_starving or self._manual.is_stop_due(now):
                body = self._manual.take(now)
                if body is not None:
                    await self._drive(exchange, body)
                    continue
            if now >= self._poll_at:
                await self._poll(exchange, report)
                continue
            await self._pause(min(self._manual.due_at(), self._poll_at) - now)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._wake.wait()

    async def _drive(self, exchange: Exchange, body: str) -> None:
        """Sends one drive request once; a stop that nobody answered once more, for stopping twice does no harm."""
        if body == STAND_STILL:
            if not await exchange.drive(body):
                await exchange.drive(body)
            self._poll_soon()
            return
        left_s = self._manual.holds_until - self._clock.monotonic()
        if not self._manual.is_on or left_s <= 0:
            return
        await exchange.drive(body, left_s)

    async def _poll(self, exchange: Exchange, report: Report) -> None:
        """Asks for the status, and now and then for what changes slowly. A stop that falls due meanwhile goes first."""
        handle = None
        if self._manual.may_move:
            left_s = max(self._manual.holds_until - self._clock.monotonic(), 0.0)
            handle = asyncio.get_running_loop().call_later(left_s, exchange.break_off)
        try:
            reply = await exchange.question(STATUS, "S")
            self._heard()
            self._look_for_restart(exchange)
            self._take_status(read_status(reply.fields), report)
            if not self._manual.is_on:
                await self._ask_more(exchange)
        except BrokenOffError:
            return
        except LinkTimeoutError as err:
            self._count_silence(err)
        except LinkLostError as err:
            # On the network each request is a connection of its own: one that fails is a silence like any other.
            if self._mower.garden.link is not LinkKind.LAN:
                raise
            self._count_silence(err)
        finally:
            if handle is not None:
                handle.cancel()

    async def _ask_more(self, exchange: Exchange) -> None:
        now = self._clock.monotonic()
        status = self._status
        if now >= self._statistics_at:
            self._statistics_at = now + self._rhythm.statistics_s
            reply = await exchange.question(STATISTICS, "T")
            self._notebook.note_statistics(read_statistics(reply.fields))
        elif self._knows_obstacles and now >= self._obstacles_at and status is not None and status.op is Op.MOW:
            self._obstacles_at = now + self._rhythm.obstacles_s
            self._knows_obstacles = False  # until it has answered: old firmware is silent to it
            reply = await exchange.question(OBSTACLES, "S2")
            self._knows_obstacles = True
            sound = read_obstacles(reply.fields) is not None
            self._notebook.obstacles = ",".join(reply.fields) if sound else None

    def _heard(self) -> None:
        if self._silences:
            self._log.info("the mower answers again after %d silences", self._silences)
        self._silences = 0

    def _count_silence(self, err: LinkTimeoutError | LinkLostError) -> None:
        self._silences += 1
        self._poll_at = self._clock.monotonic() + self._rhythm.after_silence_s
        if self._silences >= self._rhythm.max_silences:
            raise err
        if self._silences == 1:
            self._log.warning("the mower does not answer: %s", err.detail)

    def _look_for_restart(self, exchange: Exchange) -> None:
        restarts = exchange.session.restarts
        if restarts != self._restarts:
            self._restarts = restarts
            self._manual.end()
            self._log.warning("the mower has started anew")

    # -- reports

    def _take_status(self, status: Status, report: Report) -> None:
        now, at = self._clock.monotonic(), self._clock.now()
        if self._status is None or self._status.op is not status.op:
            self._log.info("the mower is now in operation %s (%s)", status.op.name, ",".join(status.words[5:6]))
        self._status = status
        notebook = self._notebook
        notebook.note_status(status, at)
        version = None if self._exchange is None else self._exchange.session.version
        notes = Notes(
            is_stopped=notebook.is_stopped,
            is_driven=self._manual.is_on,
            error_since=notebook.error_since,
            totals=notebook.totals,
            obstacles=notebook.obstacles if status.op is Op.MOW else None,
            rssi_dbm=self._mower.rssi_dbm(),
        )
        state = state_of(status, version, self._mower.garden, notes, at)
        self._poll_at = now + self._interval_s(state.activity, now)
        for event in notebook.note_state(state):
            report(event)
        report(state)

    def _interval_s(self, activity: Activity, now: float) -> float:
        if now < self._watchful_until:
            return self._rhythm.after_order_s
        if activity in MOVING:
            return self._rhythm.moving_s
        return self._rhythm.docked_s if activity in (Activity.DOCKED, Activity.CHARGING) else self._rhythm.standing_s

    def _poll_soon(self) -> None:
        self._poll_at = self._clock.monotonic()
        self._wake.set()

    # -- orders

    async def send(self, command: Command) -> Outcome:
        """Sent once. `unknown` when the mower said nothing: it may or may not have heard it. LinkLostError when the
        link does not run."""
        exchange = self._running()
        kind = commands.kind_of(command)
        body = body_of(command)
        if body is None or getattr(self.capabilities, kind) is None:
            return Outcome(kind="refused", reason=f"this mower cannot {kind.replace('_', ' ')}")
        mistakes = commands.find_mistakes(command, self.capabilities)
        if mistakes:
            return Outcome(kind="refused", reason="; ".join(f"{m.field}: {m.reason}" for m in mistakes))
        objection = find_objection(command, self._status)
        if objection is not None:
            return Outcome(kind="refused", reason=objection)
        is_stop = isinstance(command, PauseMow | EmergencyStop)
        is_driven = self._manual.is_on or self._manual.may_move
        if is_stop or kind in _ENDS_MANUAL:
            self._manual.end()
        try:
            if isinstance(command, EmergencyStop):
                is_heard = await exchange.stop(body, is_driven=is_driven)
            else:
                is_heard = await exchange.order(body)
        except OvertakenError:
            return Outcome(kind="refused", reason="an emergency stop came first")
        finally:
            # Only now: a status that was asked for before must not count as the answer to this.
            if is_stop:
                self._notebook.note_stop()
            self._watchful_until = self._clock.monotonic() + self._rhythm.watchful_for_s
            self._poll_soon()
        if not is_heard:
            return Outcome(kind="unknown", reason="the mower did not answer")
        if isinstance(command, ManualDrive):
            self._manual.begin(self._clock.monotonic())
        return ACCEPTED

    async def drive(self, frame: DriveFrame) -> None:
        """One joystick frame. It is not obeyed unless `ManualDrive` was accepted before, nor when it is older than
        the last one. LinkLostError when the link does not run."""
        self._running()
        if self._manual.offer(frame, self._clock.monotonic()):
            self._wake.set()

    def _running(self) -> Exchange:
        exchange = self._exchange
        if exchange is None or self._is_closed:
            raise LinkLostError("the link does not run")
        return exchange
