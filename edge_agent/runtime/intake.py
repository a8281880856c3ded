"""Takes what links report, lays the connectivity over it, and hands it on: live states, recorder, relay.

A state says what is known *now*: while a link is up its last state is repeated every HEARTBEAT_S (so that
silence and no change can be told apart); when the link is lost the mower is offline, and after STALE_AFTER_S its
activity is unknown, because nobody sees what the machine does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec
import structlog

from core.domain import limits
from core.domain.clock import Clock
from core.domain.errors import NotFoundError
from core.domain.events import MowerEvent
from core.domain.ids import MowerId
from core.domain.mower import MOVING, Activity, Connectivity, LinkKind, MowerState, Signals
from edge_agent.runtime.lane import Lane

_log = structlog.get_logger(__name__)

TICK_S = 1.0
"""How often the intake looks whether a heartbeat or a doubt is due."""

StateSink = Callable[[MowerId, MowerState], None]
EventSink = Callable[[MowerId, MowerEvent], None]


@dataclass(slots=True)
class _Feed:
    """What the intake knows of one mower."""

    lane: Lane | None = None
    last: MowerState | None = None
    """The newest state as handed on, overlay included."""
    published_at: float = 0.0
    lost_at: float | None = None
    """Since when (monotonic) no link is up."""
    ended: deque[Lane] = field(default_factory=deque)
    """Closed lanes whose last reports are not taken yet."""


class Intake:
    """The door between plugins and the box. Sinks are called in order, from one task, and must not block."""

    def __init__(
        self, *, clock: Clock, state_sinks: Sequence[StateSink], event_sinks: Sequence[EventSink] = ()
    ) -> None:
        self._clock = clock
        self._state_sinks = tuple(state_sinks)
        self._event_sinks = tuple(event_sinks)
        self._feeds: dict[MowerId, _Feed] = {}
        self._wake = asyncio.Event()

    # -- mowers and links

    def add(self, mower_id: MowerId, last: MowerState | None = None) -> None:
        """Begins to take a mower's reports. It is offline until a link is up; `last` is what the store still
        knows from before, and is not believed for longer than STALE_AFTER_S."""
        now = self._clock.now()
        if last is not None and (now - last.observed_at) < timedelta(seconds=limits.STALE_AFTER_S):
            known = last
        else:
            known = _in_doubt(last or MowerState(observed_at=now))
        feed = _Feed(last=known, lost_at=self._clock.monotonic())
        self._feeds[mower_id] = feed
        self._publish(mower_id, feed, _offline(known), self._stamp(feed, now))

    def forget(self, mower_id: MowerId) -> None:
        """The mower was removed; its lanes are closed."""
        feed = self._feeds.pop(mower_id, None)
        if feed is not None and feed.lane is not None:
            feed.lane.close()

    def open_lane(self, mower_id: MowerId, kind: LinkKind) -> Lane:
        """The way in for a link that is about to run. The mower is online with its first report. NotFoundError for
        a mower that was not added."""
        feed = self._feeds.get(mower_id)
        if feed is None:
            raise NotFoundError(f"the intake does not know mower {mower_id}")
        feed.lane = Lane(mower_id, kind, clock=self._clock, wake=self._wake.set)
        return feed.lane

    def close_lane(self, lane: Lane) -> None:
        """The link has ended: what it still had to say is taken first, then the mower is offline."""
        lane.close()
        feed = self._feeds.get(lane.mower_id)
        if feed is None or feed.lane is not lane:
            return
        feed.lane = None
        feed.lost_at = self._clock.monotonic()
        feed.ended.append(lane)
        self._wake.set()

    def last(self, mower_id: MowerId) -> MowerState | None:
        """The newest state as handed on."""
        feed = self._feeds.get(mower_id)
        return None if feed is None else feed.last

    # -- the pump

    async def run(self) -> None:
        """Hands reports on until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._wake.wait()
            self._wake.clear()
            self.drain()
            self.tick()

    def drain(self) -> None:
        """Hands on all that waits."""
        for mower_id, feed in list(self._feeds.items()):
            while feed.ended:
                self._take(mower_id, feed, feed.ended.popleft())
                if feed.lane is None and not feed.ended:
                    self._go_offline(mower_id, feed)
            if feed.lane is not None:
                self._take(mower_id, feed, feed.lane)

    def tick(self) -> None:
        """Repeats unchanged states and doubts old ones; due times are looked up on the monotonic clock."""
        monotonic, now = self._clock.monotonic(), self._clock.now()
        for mower_id, feed in list(self._feeds.items()):
            last, lane = feed.last, feed.lane
            if last is None:
                continue
            is_offline = last.connectivity is Connectivity.OFFLINE
            if is_offline and feed.lost_at is not None:
                is_old = monotonic - feed.lost_at >= limits.STALE_AFTER_S
                if is_old and last.activity is not Activity.UNKNOWN:
                    self._publish(mower_id, feed, _in_doubt(last), self._stamp(feed, now))
            elif lane is not None and monotonic - feed.published_at >= limits.HEARTBEAT_S:
                is_silent = monotonic - lane.heard_at >= limits.SILENT_AFTER_S
                if is_silent and last.activity in MOVING:
                    _log.warning("a link says nothing of a moving mower", mower_id=mower_id)
                    last = msgspec.structs.replace(_in_doubt(last), connectivity=Connectivity.UNKNOWN)
                self._publish(mower_id, feed, last, self._stamp(feed, now))

    def _take(self, mower_id: MowerId, feed: _Feed, lane: Lane) -> None:
        state, lane.state = lane.state, None
        if state is not None:
            now = self._clock.now()
            seen = _online(state, lane.kind)
            is_offline = seen.connectivity is Connectivity.OFFLINE
            if not is_offline:
                feed.lost_at = None
            elif feed.lost_at is None:
                feed.lost_at = self._clock.monotonic()
            at = state.observed_at
            is_new = at <= now and (feed.last is None or at > feed.last.observed_at)
            self._publish(mower_id, feed, seen, at if is_new else self._stamp(feed, now))
        while lane.events:
            event = lane.events.popleft()
            for sink in self._event_sinks:
                try:
                    sink(mower_id, event)
                except Exception:  # noqa: BLE001  (one odd event must not stop the other mowers)
                    _log.exception("an event could not be handed on", mower_id=mower_id)

    def _go_offline(self, mower_id: MowerId, feed: _Feed) -> None:
        last = feed.last
        if last is not None and last.connectivity is not Connectivity.OFFLINE:
            self._publish(mower_id, feed, _offline(last), self._stamp(feed, self._clock.now()))

    def _stamp(self, feed: _Feed, now: datetime) -> datetime:
        """`now`, or just after the last state when that is not older: states of a mower never share a time."""
        if feed.last is None or now > feed.last.observed_at:
            return now
        is_far = feed.last.observed_at - now > limits.FUTURE_TOLERANCE
        return now if is_far else feed.last.observed_at + timedelta(microseconds=1)

    def _publish(self, mower_id: MowerId, feed: _Feed, state: MowerState, at: datetime) -> None:
        stamped = msgspec.structs.replace(state, observed_at=at)
        feed.last = stamped
        feed.published_at = self._clock.monotonic()
        for sink in self._state_sinks:
            try:
                sink(mower_id, stamped)
            except Exception:  # noqa: BLE001  (one odd state must not stop the other mowers)
                _log.exception("a state could not be handed on", mower_id=mower_id)


def _online(state: MowerState, kind: LinkKind) -> MowerState:
    """A reported state of a link that is up: online unless the link itself says otherwise."""
    signals = msgspec.structs.replace(state.signals or Signals(), active_link=kind)
    is_unsaid = state.connectivity is Connectivity.UNKNOWN
    seen = Connectivity.ONLINE if is_unsaid else state.connectivity
    return msgspec.structs.replace(state, connectivity=seen, signals=signals)


def _offline(state: MowerState) -> MowerState:
    """The last known state of a mower that is out of reach: no reading is no value."""
    return msgspec.structs.replace(state, connectivity=Connectivity.OFFLINE, signals=None, speed_mps=None)


def _in_doubt(state: MowerState) -> MowerState:
    """A state too old to say what the machine does now."""
    return msgspec.structs.replace(
        state, activity=Activity.UNKNOWN, speed_mps=None, blades_on=None, is_charging=None, signals=None
    )
