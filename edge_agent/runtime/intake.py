"""Takes what links report, lays the connectivity over it, and hands it on: live states, recorder, relay.

A state says what is known *now*: while a link is up its last state is repeated every HEARTBEAT_S (so that
silence and no change can be told apart); when the last link is lost the mower is offline, and after STALE_AFTER_S its
activity is unknown, because nobody sees what the machine does. What several links say is one state (feed.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec
import structlog

from core.domain import limits
from core.domain.clock import Clock
from core.domain.errors import NotFoundError
from core.domain.events import MowerEvent
from core.domain.ids import EntryId, MowerId
from core.domain.mower import MOVING, Activity, Connectivity, LinkKind, MowerState
from core.telemetry.merging import Standing
from edge_agent.runtime.feed import Feed
from edge_agent.runtime.lane import Lane

_log = structlog.get_logger(__name__)

TICK_S = 1.0
"""How often the intake looks whether a heartbeat or a doubt is due."""

CLOCK_STEP_S = 1.0
"""A wall clock that has moved this much against the monotonic one was set."""

StateSink = Callable[[MowerId, MowerState], None]
EventSink = Callable[[MowerId, MowerEvent], None]


class Intake:
    """The door between plugins and the box. Sinks are called in order, from one task, and must not block."""

    def __init__(
        self, *, clock: Clock, state_sinks: Sequence[StateSink], event_sinks: Sequence[EventSink] = ()
    ) -> None:
        self._clock = clock
        self._state_sinks = tuple(state_sinks)
        self._event_sinks = tuple(event_sinks)
        self._feeds: dict[MowerId, Feed] = {}
        self._wake = asyncio.Event()
        self._offset_s = self._read_offset_s()

    # -- mowers and links

    def add(self, mower_id: MowerId, last: MowerState | None = None) -> None:
        """Begins to take a mower's reports. It is offline until a link is up; `last` is what the store still
        knows from before, and is not believed for longer than STALE_AFTER_S."""
        now = self._clock.now()
        if last is not None and (now - last.observed_at) < timedelta(seconds=limits.STALE_AFTER_S):
            known = last
        else:
            known = _in_doubt(last or MowerState(observed_at=now))
        feed = Feed(last=known, lost_at=self._clock.monotonic())
        self._feeds[mower_id] = feed
        self._publish(mower_id, feed, _offline(known), self._stamp(feed, now))

    def forget(self, mower_id: MowerId) -> None:
        """The mower was removed; its lanes are closed."""
        feed = self._feeds.pop(mower_id, None)
        for lane in () if feed is None else feed.lanes.values():
            lane.close()

    def forget_entry(self, mower_id: MowerId, entry_id: EntryId) -> None:
        """An entry that reached the mower has gone for good; nothing happens for a mower that is not known."""
        feed = self._feeds.get(mower_id)
        if feed is not None:
            feed.forget_entry(entry_id)

    def open_lane(self, mower_id: MowerId, kind: LinkKind, entry_id: EntryId) -> Lane:
        """The way in for a link that is about to run. The mower is online with its first report. NotFoundError for
        a mower that was not added."""
        feed = self._feeds.get(mower_id)
        if feed is None:
            raise NotFoundError(f"the intake does not know mower {mower_id}")
        lane = Lane(mower_id, kind, entry_id, clock=self._clock, wake=self._wake.set)
        feed.lanes[lane.key] = lane
        self._wake.set()
        return lane

    def close_lane(self, lane: Lane) -> None:
        """The link has ended: what it still had to say is taken first, then the mower is offline, unless another
        link reaches it."""
        lane.close()
        feed = self._feeds.get(lane.mower_id)
        if feed is None or feed.lanes.get(lane.key) is not lane:
            return
        del feed.lanes[lane.key]
        if not feed.lanes:
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
        self._follow_clock()
        for mower_id, feed in list(self._feeds.items()):
            while feed.ended:
                lane = feed.ended.popleft()
                self._take(mower_id, feed, lane)
                if feed.hush(lane, self._clock.monotonic()):
                    self._go_offline(mower_id, feed)
            for lane in list(feed.lanes.values()):
                self._take(mower_id, feed, lane)
            self._look_again(mower_id, feed)

    def _look_again(self, mower_id: MowerId, feed: Feed) -> None:
        """One of several links was lost, came back, or is not believed any more: the others' word counts now."""
        view = feed.look(self._clock.monotonic())
        if feed.speaking and view != feed.view and Standing.UP in view[0].values():
            feed.view = view
            self._publish(mower_id, feed, feed.merged(view), self._stamp(feed, self._clock.now()))

    def _read_offset_s(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    def _follow_clock(self) -> None:
        before, self._offset_s = self._offset_s, self._read_offset_s()
        if abs(self._offset_s - before) >= CLOCK_STEP_S:
            for feed in self._feeds.values():
                feed.shift(self._offset_s - before)

    def tick(self) -> None:
        """Repeats unchanged states and doubts old ones; due times are looked up on the monotonic clock."""
        monotonic, now = self._clock.monotonic(), self._clock.now()
        for mower_id, feed in list(self._feeds.items()):
            last = feed.last
            if last is None:
                continue
            is_offline = last.connectivity is Connectivity.OFFLINE
            if is_offline and feed.lost_at is not None:
                is_old = monotonic - feed.lost_at >= limits.STALE_AFTER_S
                if is_old and last.activity is not Activity.UNKNOWN:
                    self._publish(mower_id, feed, _in_doubt(last), self._stamp(feed, now))
            elif feed.lanes and monotonic - feed.published_at >= limits.HEARTBEAT_S:
                heard_at = max(lane.heard_at for lane in (feed.speaking or feed.lanes).values())
                is_silent = monotonic - heard_at >= limits.SILENT_AFTER_S
                if is_silent and last.activity in MOVING:
                    _log.warning("a link says nothing of a moving mower", mower_id=mower_id)
                    last = msgspec.structs.replace(_in_doubt(last), connectivity=Connectivity.UNKNOWN)
                self._publish(mower_id, feed, last, self._stamp(feed, now))

    def _take(self, mower_id: MowerId, feed: Feed, lane: Lane) -> None:
        state, lane.state = lane.state, None
        if state is not None:
            now, monotonic = self._clock.now(), self._clock.monotonic()
            feed.take(lane, state, now, monotonic)
            if feed.speaking:
                feed.lost_at = None
            elif feed.lost_at is None:
                feed.lost_at = monotonic
            feed.view = feed.look(monotonic)
            at = state.observed_at
            is_new = at <= now and (feed.last is None or at > feed.last.observed_at)
            self._publish(mower_id, feed, feed.merged(feed.view), at if is_new else self._stamp(feed, now))
        while lane.events:
            event = lane.events.popleft()
            for sink in self._event_sinks:
                try:
                    sink(mower_id, event)
                except Exception:  # noqa: BLE001  (one odd event must not stop the other mowers)
                    _log.exception("an event could not be handed on", mower_id=mower_id)

    def _go_offline(self, mower_id: MowerId, feed: Feed) -> None:
        last = feed.last
        if last is not None and last.connectivity is not Connectivity.OFFLINE:
            self._publish(mower_id, feed, _offline(last), self._stamp(feed, self._clock.now()))

    def _stamp(self, feed: Feed, now: datetime) -> datetime:
        """`now`, or just after the last state when that is not older: states of a mower never share a time."""
        if feed.last is None or now > feed.last.observed_at:
            return now
        is_far = feed.last.observed_at - now > limits.FUTURE_TOLERANCE
        return now if is_far else feed.last.observed_at + timedelta(microseconds=1)

    def _publish(self, mower_id: MowerId, feed: Feed, state: MowerState, at: datetime) -> None:
        stamped = msgspec.structs.replace(state, observed_at=at)
        feed.last = stamped
        feed.published_at = self._clock.monotonic()
        for sink in self._state_sinks:
            try:
                sink(mower_id, stamped)
            except Exception:  # noqa: BLE001  (one odd state must not stop the other mowers)
                _log.exception("a state could not be handed on", mower_id=mower_id)


def _offline(state: MowerState) -> MowerState:
    """The last known state of a mower that is out of reach: no reading is no value."""
    return msgspec.structs.replace(state, connectivity=Connectivity.OFFLINE, signals=None, speed_mps=None)


def _in_doubt(state: MowerState) -> MowerState:
    """A state too old to say what the machine does now."""
    return msgspec.structs.replace(
        state, activity=Activity.UNKNOWN, speed_mps=None, blades_on=None, is_charging=None, signals=None
    )
