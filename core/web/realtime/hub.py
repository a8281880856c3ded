"""Who watches which mower, and the newest state of each: publishers hand in, viewers are handed on to.

Everything here is synchronous: a publisher never waits for a viewer. A frame is encoded once for all.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Counts
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from core.domain import limits
from core.domain.clock import Clock
from core.domain.commands import CommandResult
from core.domain.errors import LimitExceededError, RateLimitedError, UnavailableError
from core.domain.events import MowerEvent
from core.domain.ids import AccountId, MowerId, UserId
from core.identity.principal import Principal
from core.telemetry.rows import RecordRow
from core.web.ports import LiveState
from core.web.realtime.messages import CloseCode, CommandResultMessage, Event, Record, ServerMessage, State, encode
from core.web.realtime.outbox import Frame

log = structlog.get_logger(__name__)

CLOSE_DEADLINE_S = 10.0
WARNED = 1_000
"""Mowers named in the log for a frame that came with a wrong account; the metric counts them all."""
RECORD_ROOM_BYTES = 1_024
"""Of a frame, for what stands around the body of a record."""
WAITING_PER_ADDRESS = 200
"""Connections of one address that have not shown a token yet."""


class Watcher(Protocol):
    """What the hub knows of a connection."""

    @property
    def principal(self) -> Principal | None: ...
    @property
    def remote(self) -> str: ...
    def push(self, frame: Frame) -> None: ...
    def push_state(self, mower_id: MowerId, frame: Frame) -> None: ...
    def recheck(self) -> None: ...
    def end(self, code: CloseCode, reason: str) -> None: ...


class RealtimeHub:
    """All connections of one process. `last` makes it a LiveStates of what was published."""

    def __init__(
        self,
        *,
        clock: Clock,
        registry: CollectorRegistry | None = None,
        connections_per_account: int = limits.CONNECTIONS_PER_ACCOUNT,
        connections_per_user: int = limits.CONNECTIONS_PER_USER,
        last_values: int = limits.LAST_VALUES,
    ) -> None:
        self._clock = clock
        self._per_account = connections_per_account
        self._per_user = connections_per_user
        self._last_values = last_values
        self._last: OrderedDict[MowerId, LiveState] = OrderedDict()
        self._watchers: set[Watcher] = set()
        self._account_of: dict[Watcher, AccountId] = {}
        self._waiting: Counts[str] = Counts()
        self._warned: set[MowerId] = set()
        self._by_account: defaultdict[AccountId, set[Watcher]] = defaultdict(set)
        self._by_mower: defaultdict[MowerId, set[Watcher]] = defaultdict(set)
        self._is_closing = False
        self._empty = asyncio.Event()
        registry = CollectorRegistry() if registry is None else registry
        self._open = Gauge("mowdeck_realtime_connections", "Open realtime connections", registry=registry)
        self.closed = Counter(
            "mowdeck_realtime_closed", "Realtime connections ended, by close code", ["code"], registry=registry
        )
        self._foreign = Counter(
            "mowdeck_realtime_foreign", "Frames kept from a viewer of another account", registry=registry
        )

    # -- publishing

    def publish_state(self, live: LiveState) -> None:
        """A new snapshot; one older than the newest known is dropped."""
        if not self._remember(live):
            return
        message = State(mower_id=live.mower_id, state=live.state)
        self._publish(live.account_id, live.mower_id, message, is_state=True)

    def publish_result(self, account_id: AccountId, result: CommandResult) -> None:
        """A transition of a command, to everybody of the account who watches the mower."""
        message = CommandResultMessage(
            command_id=result.command_id,
            mower_id=result.mower_id,
            status=result.status,
            at=result.at,
            reason=result.reason,
        )
        self._publish(account_id, result.mower_id, message)

    def publish_event(self, account_id: AccountId, mower_id: MowerId, event: MowerEvent) -> None:
        """A past fact, to everybody of the account who watches the mower."""
        self._publish(account_id, mower_id, Event(mower_id=mower_id, event=event))

    def publish_records(self, account_id: AccountId, rows: Sequence[RecordRow]) -> None:
        """Versions of records that were just stored, to everybody of the account who watches the mower. What a box
        brings from a time when it was away is no news: it would only fill the viewers' queues."""
        oldest = self._clock.now() - limits.RECORD_NEWS
        for row in rows:
            if row.updated_at < oldest:
                continue
            has_room = len(row.body) <= limits.FRAME_BYTES - RECORD_ROOM_BYTES
            message = Record(
                mower_id=row.mower_id,
                kind=row.kind,
                key=row.key,
                at=row.at,
                updated_at=row.updated_at,
                body=msgspec.Raw(row.body) if has_room else None,
            )
            self._publish(account_id, row.mower_id, message)

    def _publish(
        self, account_id: AccountId, mower_id: MowerId, message: ServerMessage, *, is_state: bool = False
    ) -> None:
        watchers = self._by_mower.get(mower_id)
        if not watchers:
            return
        frame = Frame(encode(message), account_id, mower_id)
        for watcher in tuple(watchers):
            if not self.is_own(watcher, frame):
                continue
            if is_state:
                watcher.push_state(mower_id, frame)
            else:
                watcher.push(frame)

    def is_own(self, watcher: Watcher, frame: Frame) -> bool:
        """Whether the frame's data belongs to the viewer's account. Asked when it is queued and again right
        before it is sent: a wrong id in a message must not show one household to another."""
        who = watcher.principal
        if frame.account_id is None or (who is not None and who.account_id == frame.account_id):
            return True
        self._foreign.inc()
        if frame.mower_id is not None and frame.mower_id not in self._warned and len(self._warned) < WARNED:
            self._warned.add(frame.mower_id)
            log.error("kept a frame from a viewer of another account", mower_id=frame.mower_id)
        return False

    def _remember(self, live: LiveState) -> bool:
        known = self._last.get(live.mower_id)
        if known is not None and known.account_id == live.account_id:
            newest = known.state.observed_at
            # A state dated by a clock that ran ahead must not block all that follow.
            is_plausible = newest <= self._clock.now() + limits.FUTURE_TOLERANCE
            if live.state.observed_at < newest and is_plausible:
                return False
        self._last[live.mower_id] = live
        self._last.move_to_end(live.mower_id)
        if len(self._last) > self._last_values:
            self._last.popitem(last=False)
        return True

    async def last(self, account_id: AccountId, mower_ids: Sequence[MowerId]) -> Sequence[LiveState]:
        """The newest published states of the account's mowers; nothing for those never published."""
        return self.known(account_id, mower_ids)

    def known(self, account_id: AccountId, mower_ids: Iterable[MowerId]) -> list[LiveState]:
        """`last` without waiting."""
        found = (self._last.get(mower_id) for mower_id in mower_ids)
        return [live for live in found if live is not None and live.account_id == account_id]

    def forget(self, mower_id: MowerId) -> None:
        """The mower was removed: its last state is dropped and its viewers' rights are asked for again."""
        self._last.pop(mower_id, None)
        for watcher in tuple(self._by_mower.get(mower_id, ())):
            watcher.recheck()

    # -- rights

    def grants_changed(self, subjects: Collection[UserId] | None) -> None:
        """Rights of these subjects (None: of anybody) may have changed."""
        for watcher in tuple(self._watchers):
            who = watcher.principal
            if who is not None and (subjects is None or who.subject in subjects):
                watcher.recheck()

    def sign_out(self, is_gone: Callable[[Principal], bool]) -> int:
        """Ends the connections whose principal no longer counts (session or token revoked, user or account
        deleted) with 4401. Returns how many."""
        gone = [w for w in self._watchers if w.principal is not None and is_gone(w.principal)]
        for watcher in gone:
            watcher.end(CloseCode.NOT_AUTHENTICATED, "signed out")
        return len(gone)

    # -- connections

    @property
    def count(self) -> int:
        """Open connections."""
        return len(self._watchers)

    def demand_room(self, remote: str) -> None:
        """Before a handshake: UnavailableError while shutting down, RateLimitedError when the address has too many
        connections that have not said who they are."""
        if self._is_closing:
            raise UnavailableError("shutting down")
        if self._waiting[remote] >= WAITING_PER_ADDRESS:
            raise RateLimitedError("too many connections that have not signed in", retry_after_s=limits.AUTH_DEADLINE_S)

    def enter(self, watcher: Watcher) -> None:
        """A connection that has not said who it is yet."""
        self._waiting[watcher.remote] += 1
        self._watchers.add(watcher)
        self._empty.clear()
        self._open.inc()
        if self._is_closing:
            watcher.end(CloseCode.SHUTDOWN, "shutting down")

    def admit(self, watcher: Watcher, who: Principal) -> None:
        """Counts the connection for its account and user, once. LimitExceededError when either has too many."""
        if watcher in self._account_of:
            return
        of_account = self._by_account.get(who.account_id, set())
        if len(of_account) >= self._per_account:
            raise LimitExceededError(f"at most {self._per_account} connections of an account")
        of_user = sum(1 for w in of_account if w.principal is not None and w.principal.subject == who.subject)
        if of_user >= self._per_user:
            raise LimitExceededError(f"at most {self._per_user} connections of a user")
        self._by_account[who.account_id].add(watcher)
        self._account_of[watcher] = who.account_id
        self._stop_waiting(watcher)

    def follow(self, watcher: Watcher, before: Collection[MowerId], after: Collection[MowerId]) -> None:
        """The watcher's subscriptions have changed from `before` to `after`."""
        for mower_id in set(before).difference(after):
            self._by_mower[mower_id].discard(watcher)
            if not self._by_mower[mower_id]:
                del self._by_mower[mower_id]
        for mower_id in set(after).difference(before):
            self._by_mower[mower_id].add(watcher)

    def leave(self, watcher: Watcher, followed: Collection[MowerId]) -> None:
        """The connection has ended."""
        if watcher not in self._watchers:
            return
        self._watchers.discard(watcher)
        self.follow(watcher, followed, ())
        account_id = self._account_of.pop(watcher, None)
        if account_id is None:
            self._stop_waiting(watcher)
        else:
            self._by_account[account_id].discard(watcher)
            if not self._by_account[account_id]:
                del self._by_account[account_id]
        self._open.dec()
        if not self._watchers:
            self._empty.set()

    async def close(self) -> None:
        """Ends every connection with 1001 and waits until they are gone (10 s at most). New ones are refused."""
        self._is_closing = True
        for watcher in tuple(self._watchers):
            watcher.end(CloseCode.SHUTDOWN, "shutting down")
        if not self._watchers:
            return
        try:
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await self._empty.wait()
        except TimeoutError:
            log.warning("connections did not end in time", count=len(self._watchers))

    def _stop_waiting(self, watcher: Watcher) -> None:
        self._waiting[watcher.remote] -= 1
        if self._waiting[watcher.remote] <= 0:
            del self._waiting[watcher.remote]
