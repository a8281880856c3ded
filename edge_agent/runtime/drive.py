"""Drive sessions of the box: one seat per mower, from the moment the mower is seen in manual mode to the end.

The dead man (dead_man.py) decides; here its word is told to the mower, one at a time, the newest one wins. A session
is the life of its `manual_drive` command, which is concluded when the seat is empty and the mower was told to stand.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import structlog

from core.domain import limits
from core.domain.clock import Clock
from core.domain.commands import CommandStatus, ManualDrive, PauseMow, ReturnToDock, kind_of, starts_motion
from core.domain.drive import DriveEnd, DriveFrame, DriveSession
from core.domain.errors import ForbiddenError, MowdeckError
from core.domain.ids import CommandId, MowerId
from core.domain.mower import Activity, Connectivity, MowerState
from core.platform import fire_door
from core.platform.integration import DrivableLink, MowerLink
from edge_agent.runtime.carrier import OpenLink
from edge_agent.runtime.dead_man import DeadMan, Halt, Move, Over, Verdict
from edge_agent.runtime.leash import run_until
from edge_agent.runtime.live import LiveStates
from edge_agent.runtime.ticket import Source, Ticket

_log = structlog.get_logger(__name__)

FRAME_DEADLINE_S = 1.0
"""A link that has not taken a frame by then has lost its mower, which stands by its own dead man."""
STAND_TRIES = 2
"""How often the mower is told to stand at the end: standing twice does no harm."""
LEAVE_S = 5.0
"""Until a mower that was told to leave manual mode has shown it; what follows the drive waits for that."""
STOP_LEAD_S = 0.1
"""An emergency stop has the link to itself for this long."""
OCCUPIED = "somebody is driving the mower by hand"
NO_SESSION = "no drive session is open"

_HANDED_OVER = frozenset({DriveEnd.COMMAND, DriveEnd.STOP, DriveEnd.LEFT_MANUAL, DriveEnd.LINK_LOST, DriveEnd.REMOVED})
"""Ends after which something else has the mower, so that it is not taken out of manual mode here."""

Conclude = Callable[[Ticket, CommandStatus, str | None], Awaitable[None]]
FindLinks = Callable[[MowerId], Sequence[OpenLink]]
"""The links to a mower that are up, the one to be used first first."""
Wait = Callable[[asyncio.Event, float], Awaitable[None]]
"""Returns when the event is set or the seconds have passed."""


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """The real Wait."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


class Seat:
    """One open session, over the one link that carried its command. `run` is its life; `take` and `end` never wait."""

    def __init__(
        self, ticket: Ticket, link: OpenLink, *, clock: Clock, live: LiveStates, find_links: FindLinks, wait: Wait
    ) -> None:
        self.ticket = ticket
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it ended, in words, as soon as it has; the mower is told to stand after that."""
        self.empty = asyncio.Event()
        """The mower was told, the end is written down, and whatever follows may have the mower."""
        self._end: DriveEnd | None = None
        self._link = link
        self._clock = clock
        self._live = live
        self._find_links = find_links
        self._wait = wait
        ability = link.capabilities.manual_drive
        self._dead_man = DeadMan(
            now=clock.monotonic(), motor_timeout_s=math.inf if ability is None else ability.motor_timeout_s
        )
        self._began_at = clock.now()
        self._news = asyncio.Event()
        self._word: Move | Halt | None = None
        self._sequence = 0

    @property
    def mower_id(self) -> MowerId:
        return self.ticket.envelope.mower_id

    @property
    def view(self) -> DriveSession:
        """The session as the API shows it."""
        envelope = self.ticket.envelope
        return DriveSession(
            session_id=envelope.command_id,
            mower_id=envelope.mower_id,
            driver=envelope.issued_by,
            began_at=self._began_at,
            ends_at=self._began_at + limits.DRIVE_SESSION,
        )

    def is_driver(self, other: Ticket) -> bool:
        """Whether another command comes from the person who drives."""
        mine, theirs = self.ticket, other
        same_person = mine.envelope.issued_by.subject == theirs.envelope.issued_by.subject
        return same_person and mine.source == theirs.source

    def take(self, frame: DriveFrame) -> Verdict:
        """A frame of the driver; what was made of it."""
        verdict = self._dead_man.take(frame, self._clock.monotonic())
        self._put(verdict)
        return verdict

    def end(self, why: DriveEnd, detail: str = "") -> None:
        """Ends the session; the first reason stands. From here on no frame is obeyed."""
        if self.over.done():
            return
        self._end, self._word = why, None
        self.over.set_result(f"{why.value} ({detail})" if detail else why.value)
        self._news.set()

    async def run(self) -> str:
        """Until the session is over and the mower was told to stand; why it ended. Then it has to `leave`."""
        undo = self._live.subscribe(self._look, only=self.mower_id)
        try:
            await self._follow()
        finally:
            undo()
        await self._halt()
        return self.over.result()

    # -- while it lasts

    def _put(self, verdict: Verdict) -> None:
        match verdict:
            case Over(end=end):
                self.end(end)
            case Move() | Halt():
                self._word = verdict
        self._news.set()

    def _look(self, _: MowerId, state: MowerState) -> None:
        if state.blades_on is True:
            self.end(DriveEnd.BLADES)
        elif state.connectivity is Connectivity.OFFLINE or self._find_own() is not self._link.link:
            self.end(DriveEnd.LINK_LOST)
        elif state.activity is not Activity.MANUAL:
            self.end(DriveEnd.LEFT_MANUAL, state.activity.value)

    async def _follow(self) -> None:
        while not self.over.done():
            self._news.clear()
            now = self._clock.monotonic()
            due = self._dead_man.tick(now)
            if due is not None:
                self._put(due)
            if self._find_own() is not self._link.link:
                self.end(DriveEnd.LINK_LOST)
            word, self._word = self._word, None
            if word is not None:
                await self._tell(self._frame_of(word))
            elif not self.over.done():
                await self._wait(self._news, max(0.0, self._dead_man.due_at - now))

    async def _tell(self, frame: DriveFrame) -> None:
        try:
            await run_until(
                self.over,
                lambda: _drive(self._link.link, frame),
                where=f"{self.mower_id} drive",
                deadline_s=FRAME_DEADLINE_S,
                close_deadline_s=FRAME_DEADLINE_S,
            )
        except MowdeckError as err:
            self.end(DriveEnd.LINK_LOST, err.code)

    def _frame_of(self, word: Move | Halt) -> DriveFrame:
        """The frame for the mower: numbered here, and good for what is left of the driver's own time."""
        self._sequence += 1
        left_s = word.until - self._clock.monotonic() if isinstance(word, Move) else 0.0
        if isinstance(word, Halt) or left_s <= 0.0:
            return DriveFrame(sequence=self._sequence, linear=0.0, angular=0.0)
        return DriveFrame(
            sequence=self._sequence, linear=word.linear, angular=word.angular, ttl_ms=max(1, int(left_s * 1000.0))
        )

    # -- the end

    async def _halt(self) -> None:
        """The mower is told to stand, whatever the reason. What cannot be told any more, its own dead man does."""
        if self._end is DriveEnd.STOP:
            await self._wait(asyncio.Event(), STOP_LEAD_S)
        own = self._find_own()
        if own is not None and hasattr(own, "drive"):
            await self._stand(own)

    def _find_own(self) -> MowerLink | None:
        """The link that is open now on the path of the session; after a lost one that is another. A drive never goes
        over to another path: nobody knows what the machine there takes a frame for."""
        links = self._find_links(self.mower_id)
        return next((link.link for link in links if link.key == self._link.key), None)

    async def leave(self) -> None:
        """Takes the mower out of manual mode, unless something else has it now, and waits until that shows."""
        state = self._live.get(self.mower_id)
        is_manual = state is not None and state.activity is Activity.MANUAL
        if self._end in _HANDED_OVER or not is_manual or self._link.capabilities.pause_mow is None:
            return
        left = asyncio.Event()
        undo = self._live.subscribe(lambda _, state: _note_left(left, state), only=self.mower_id)
        try:
            if await self._try(lambda: self._link.link.send(PauseMow()), "leave manual mode", LEAVE_S):
                await self._wait(left, LEAVE_S)
        finally:
            undo()

    async def _stand(self, link: MowerLink) -> None:
        for _ in range(STAND_TRIES):
            frame = self._frame_of(Halt(reason=""))
            if await self._try(lambda frame=frame: _drive(link, frame), "stand", FRAME_DEADLINE_S):  # type: ignore[misc]
                return

    async def _try(self, work: Callable[[], Awaitable[object]], what: str, deadline_s: float) -> bool:
        where = f"{self.mower_id} {what}"
        try:
            await fire_door.call(work, where=where, deadline_s=deadline_s, close_deadline_s=FRAME_DEADLINE_S)
        except MowdeckError as err:
            _log.warning("the end of a drive was not told", mower_id=self.mower_id, what=what, code=err.code)
            return False
        return True


async def _drive(link: MowerLink, frame: DriveFrame) -> None:
    await cast("DrivableLink", link).drive(frame)


def _note_left(left: asyncio.Event, state: MowerState) -> None:
    if state.activity is not Activity.MANUAL:
        left.set()


class DriveSeats:
    """The open sessions of the box, at most one per mower."""

    def __init__(self, *, clock: Clock, live: LiveStates, find_links: FindLinks, wait: Wait = wait_for) -> None:
        self._clock = clock
        self._live = live
        self._find_links = find_links
        self._wait = wait
        self._seats: dict[MowerId, Seat] = {}

    def open(self, ticket: Ticket, link: OpenLink) -> Seat:
        """The seat of an admitted command whose mower is in manual mode; `occupy` has to follow."""
        seat = Seat(ticket, link, clock=self._clock, live=self._live, find_links=self._find_links, wait=self._wait)
        self._seats[seat.mower_id] = seat
        return seat

    async def occupy(self, seat: Seat, conclude: Conclude) -> None:
        """The life of an open seat, to its written end and until the mower has left manual mode."""
        try:
            await conclude(seat.ticket, CommandStatus.EXECUTED, await seat.run())
            await seat.leave()
        finally:
            self.close(seat)

    def close(self, seat: Seat) -> None:
        """The seat is empty."""
        seat.empty.set()
        if self._seats.get(seat.mower_id) is seat:
            del self._seats[seat.mower_id]

    def session(self, mower_id: MowerId) -> DriveSession | None:
        """Who drives the mower."""
        seat = self._find(mower_id)
        return None if seat is None else seat.view

    def steer(self, mower_id: MowerId, session_id: CommandId, frame: DriveFrame, *, source: Source) -> Verdict:
        """A frame for the session that its own command opened, from where that command came. ForbiddenError for any
        other: nothing is driven by it."""
        seat = self._demand(mower_id, session_id, source)
        stranger = seat.ticket.find_stranger()
        if stranger is not None:
            seat.end(DriveEnd.RIGHT_LOST, stranger)
            raise ForbiddenError(stranger)
        return seat.take(frame)

    def end_session(
        self,
        mower_id: MowerId,
        session_id: CommandId,
        why: DriveEnd,
        detail: str = "",
        *,
        source: Source | None = None,
    ) -> None:
        """Ends the session. ForbiddenError when it is not open, or not of this source (None: of any)."""
        self._demand(mower_id, session_id, source).end(why, detail)

    def end(self, mower_id: MowerId, why: DriveEnd) -> None:
        """Ends whatever session the mower has."""
        seat = self._find(mower_id)
        if seat is not None:
            seat.end(why)

    # -- other commands

    def find_obstacle(self, ticket: Ticket) -> str | None:
        """Why a command is refused while somebody drives. Stopping and pausing never are, nor is what does not move
        the mower; the driver may go home, or begin again."""
        seat, command = self._find(ticket.envelope.mower_id), ticket.envelope.command
        if seat is None or not starts_motion(command):
            return None
        is_own = seat.is_driver(ticket) and isinstance(command, ReturnToDock | ManualDrive)
        return None if is_own else OCCUPIED

    async def make_way(self, ticket: Ticket) -> None:
        """Ends the drive for a command that takes the mower over; returns when the end is written down."""
        seat, command = self._seats.get(ticket.envelope.mower_id), ticket.envelope.command
        if seat is not None and (isinstance(command, PauseMow) or starts_motion(command)):
            by = ticket.envelope.issued_by
            seat.end(DriveEnd.COMMAND, f"{kind_of(command)}, {by.display or by.subject}")
            await seat.empty.wait()

    async def settle(self, mower_id: MowerId) -> None:
        """Returns when no drive is just coming to its end: what follows it finds a mower at rest."""
        seat = self._seats.get(mower_id)
        if seat is not None and seat.over.done():
            await seat.empty.wait()

    # --

    def _find(self, mower_id: MowerId) -> Seat | None:
        seat = self._seats.get(mower_id)
        return None if seat is None or seat.over.done() else seat

    def _demand(self, mower_id: MowerId, session_id: CommandId, source: Source | None) -> Seat:
        seat = self._find(mower_id)
        if seat is None or seat.ticket.envelope.command_id != session_id or source not in (None, seat.ticket.source):
            raise ForbiddenError(NO_SESSION)
        return seat
