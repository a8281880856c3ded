"""Sessions of the simulated mower are the jobs of its own log, in its own time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from core.domain.clock import to_us
from core.domain.geo import GeoPoint, Plane
from core.telemetry.session import Session
from core.telemetry.session_tally import Course
from core.telemetry.sessions import advance
from core.telemetry.significance import place_of
from integrations.simulator import wire
from integrations.simulator.machine import Machine
from integrations.simulator.mapping import Frame, state_of
from integrations.simulator.orders import obey
from integrations.simulator.wire import AT_DOCK
from tests.integrations.simulator.gardens import machine

BEGIN = datetime(2026, 6, 1, 6, 0, tzinfo=UTC)
STEP_S = 10.0
FRAME = Frame(Plane(GeoPoint(lat=48.0, lon=11.0)), 0)


class Day:
    """A machine, what the sessions make of its reports, and its log."""

    def __init__(self, mower: Machine) -> None:
        self.mower = mower
        self.course = Course()
        self.sessions: dict[str, Session] = {}
        self.started: list[float] = []
        self.log: list[wire.Happening] = []

    def order(self, order: wire.Order) -> None:
        assert obey(self.mower, order) is None
        self._listen()

    def live(self, seconds: float) -> None:
        for _ in range(int(seconds / STEP_S)):
            self.mower.advance(STEP_S)
            self._listen()
            state = state_of(
                self.mower.read(),
                FRAME,
                observed_at=BEGIN + timedelta(seconds=self.mower.clock_s),
                error_since=None,
                next_start_at=None,
            )
            place = place_of(state, to_us(state.observed_at))
            for version in advance(self.course, state, place, lambda _since, _until: False):
                self.sessions[version.session.session_id] = version.session

    def until_docked(self, limit_s: float = 40_000) -> None:
        """Until there is no job any more, and five minutes at the dock."""
        lived_s = 0.0
        while not (self.mower.phase in AT_DOCK and isinstance(self.log[-1], wire.DockReached) and self._is_over()):
            self.live(STEP_S)
            lived_s += STEP_S
            assert lived_s < limit_s
        self.live(300)

    def _is_over(self) -> bool:
        return self.mower.read().waits_for is None

    def _listen(self) -> None:
        for happening in self.mower.take_happenings():
            self.log.append(happening)
            if isinstance(happening, wire.JobStarted):
                self.started.append(self.mower.clock_s)


def test_jobs_of_the_log_are_the_sessions_with_a_charge_in_between() -> None:
    day = Day(machine(start_battery=40))
    day.live(60)
    day.order(wire.Cut(patches=("back",)))
    day.until_docked()
    before = day.mower.read().counters
    day.order(wire.Cut(patches=("side",)))
    day.until_docked()
    ends = [happening.reason for happening in day.log if isinstance(happening, wire.JobEnded)]
    sessions = [day.sessions[key] for key in sorted(day.sessions)]
    assert len(sessions) == len(day.started) == len(ends) == 2
    for session, started_s in zip(sessions, day.started, strict=True):
        assert abs((session.started_at - BEGIN).total_seconds() - started_s) <= STEP_S
        assert session.ended_at is not None
    assert sessions[0].charges >= 1
    assert [stop.reason for stop in sessions[0].stops] == ["charging"] * sessions[0].charges
    assert set(sessions[0].areas) == {"back"}
    assert set(sessions[1].areas) == {"side"}
    after = day.mower.read().counters
    for session, mown_s in ((sessions[0], before.cutting_s), (sessions[1], after.cutting_s - before.cutting_s)):
        assert abs(session.mowing_s - mown_s) <= 2 * STEP_S * (1 + session.charges)


def test_a_fault_that_is_cleared_and_a_way_home_by_hand() -> None:
    day = Day(machine())
    day.order(wire.Cut(patches=("front",)))
    day.live(300)
    day.mower.fail(wire.Fault.BLADES_BLOCKED)
    day.live(120)
    if day.mower.fault is not None:
        day.mower.clear_fault()
    day.order(wire.GoOn())
    day.live(300)
    day.order(wire.GoHome())
    day.until_docked()
    (session,) = day.sessions.values()
    assert session.ended_at is not None
    assert [(error.code, error.count) for error in session.errors] == [("E31", 1)]
    assert [stop.reason for stop in session.stops] == ["error"]
