"""Mowing sessions, cut from states."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain import limits
from core.domain.clock import to_us
from core.domain.mower import Activity, Connectivity, MowerError, MowerState, Position
from core.telemetry.records import find_body_fault
from core.telemetry.session import EndedBy, Session
from core.telemetry.session_tally import STOPS_MAX, Course, session_body
from core.telemetry.sessions import AREAS_MAX, RECORD_S, TEXT_CHARS, advance
from core.telemetry.significance import place_of

NOON = datetime(2026, 6, 1, 10, 0, tzinfo=UTC)
HOUR, DAY = 3_600, 86_400
A = Activity
KINDS = ("mowing_s", "driving_s", "charging_s", "docked_s", "paused_s", "error_s", "unseen_s")


class Mower:
    """States in, sessions out, the newest version of each."""

    def __init__(self) -> None:
        self.course = Course()
        self.sessions: dict[str, Session] = {}
        self.writes: list[int] = []
        self.sent_home_at: float | None = None

    def take(self, state: MowerState) -> None:
        place = place_of(state, to_us(state.observed_at))
        for version in advance(self.course, state, place, self._was_sent_home):
            self.sessions[version.session.session_id] = version.session
            self.writes.append(version.updated_us)

    def _was_sent_home(self, since_us: int, until_us: int) -> bool:
        return self.sent_home_at is not None and since_us <= us(self.sent_home_at) <= until_us

    def play(self, start: float, end: float, activity: Activity, step: float = 10, **more: Any) -> None:
        """The same again every `step` seconds, `end` left out."""
        now = start
        while now < end:
            self.take(state(now, activity, **more))
            now += step

    def job(self, start: float, minutes: float = 30, *, battery: int = 80, **more: Any) -> float:
        """Leaves, mows, returns; when it is at the dock."""
        self.play(start - 60, start, A.DOCKED, battery_percent=100)
        self.play(start, start + 60, A.LEAVING, battery_percent=100)
        end = start + 60 + minutes * 60
        self.play(start + 60, end, A.MOWING, battery_percent=battery, **more)
        self.play(end, end + 60, A.RETURNING, battery_percent=battery)
        return end + 60

    def restart(self) -> None:
        self.course = msgspec.json.decode(msgspec.json.encode(self.course), type=Course)

    def write(self) -> None:
        """The open session as it would be written now."""
        job, seen = self.course.job, self.course.seen
        if job is not None and seen is not None:
            session = session_body(job, job.tally, seen.at_us)
            self.sessions[session.session_id] = session

    def all(self) -> list[Session]:
        self.write()
        return [self.sessions[key] for key in sorted(self.sessions)]

    def only(self) -> Session:
        (session,) = self.all()
        return session


def us(seconds: float) -> int:
    return to_us(NOON + timedelta(seconds=seconds))


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def state(seconds: float, activity: Activity, **more: Any) -> MowerState:
    return MowerState(**{"observed_at": at(seconds), "activity": activity, "connectivity": Connectivity.ONLINE, **more})


def spent(session: Session) -> float:
    return sum(getattr(session, kind) for kind in KINDS)


def test_from_leaving_to_docking() -> None:
    mower = Mower()
    end = mower.job(0, 30)
    mower.play(end, end + 120, A.CHARGING, battery_percent=80)
    session = mower.only()
    assert (session.started_at, session.ended_at, session.ended_by) == (at(0), at(end), EndedBy.DOCKED)
    assert session.is_start_known
    assert (session.mowing_s, session.driving_s, session.charging_s) == (1_800, 120, 0)
    assert (session.charges, session.interruptions) == (0, 0)
    assert session.battery_used_percent == 20
    assert session.session_id == "20260601T100000-000000"


def test_met_while_it_mows_the_start_is_not_known() -> None:
    mower = Mower()
    mower.play(0, 60, A.MOWING)
    assert not mower.only().is_start_known
    assert mower.only().battery_used_percent is None
    assert mower.only().distance_m is None
    late = Mower()
    late.take(state(0, A.DOCKED))
    late.play(121, 200, A.LEAVING)
    assert not late.only().is_start_known


def test_returning_paused_or_driven_by_hand_is_no_session_by_itself() -> None:
    mower = Mower()
    for number, activity in enumerate([A.RETURNING, A.PAUSED, A.IDLE, A.MANUAL, A.ERROR, A.DOCKED, A.UNKNOWN]):
        mower.take(state(number * 10, activity))
    assert mower.all() == []


@pytest.mark.parametrize(
    ("home", "at_dock"),
    [
        ({"battery": 80}, {"restricted_reason": "charging"}),
        ({"battery": 80}, {"restricted_reason": "rain"}),
        ({"battery": 80}, {"is_raining": True}),
        ({"battery": 20, "progress_percent": 60.0}, {}),
        ({"battery": 20}, {"next_start_at": at(3 * HOUR)}),
        ({"battery": 20}, {}),
    ],
)
def test_a_break_after_which_it_goes_on_belongs_to_the_job(home: dict[str, Any], at_dock: dict[str, Any]) -> None:
    mower = Mower()
    end = mower.job(0, **home)
    mower.play(end, end + 2 * HOUR, A.CHARGING, step=60, battery_percent=50, **at_dock)
    assert mower.only().ended_at is None
    assert mower.only().waits_for in {"charging", "rain", "docked"}
    mower.play(end + 2 * HOUR, end + 3 * HOUR, A.MOWING, step=60, battery_percent=70)
    session = mower.only()
    assert (session.interruptions, session.charges, session.charging_s) == (1, 1, 2 * HOUR)
    assert (session.stops[0].started_at, session.stops[0].ended_at) == (at(end), at(end + 2 * HOUR))
    assert session.waits_for is None


@pytest.mark.parametrize(
    ("home", "at_dock"),
    [
        ({"battery": 20}, {"restricted_reason": "schedule"}),
        ({"battery": 60}, {}),
        ({"battery": 20, "progress_percent": 97.0}, {}),
        ({"battery": 20}, {"next_start_at": at(20 * HOUR)}),
    ],
)
def test_done_is_told_from_a_break(home: dict[str, Any], at_dock: dict[str, Any]) -> None:
    mower = Mower()
    end = mower.job(0, **home)
    mower.play(end, end + HOUR, A.CHARGING, step=60, battery_percent=50, **at_dock)
    assert mower.only().ended_by is EndedBy.DOCKED
    mower.job(end + 2 * HOUR)
    assert len(mower.all()) == 2


def test_a_mower_that_names_reasons_has_none_when_it_names_none() -> None:
    mower = Mower()
    end = mower.job(0, battery=20)
    mower.play(end, end + HOUR, A.CHARGING, step=60, battery_percent=50, restricted_reason="charging")
    end = mower.job(end + HOUR, battery=20, progress_percent=50.0)
    assert len(mower.all()) == 1
    mower.play(end, end + 120, A.CHARGING, battery_percent=20)
    assert (mower.only().ended_at, mower.only().ended_by) == (at(end), EndedBy.DOCKED)


def test_a_person_sends_it_home() -> None:
    mower = Mower()
    mower.sent_home_at = 1_870
    end = mower.job(0, battery=20, progress_percent=50.0)
    mower.play(end, end + 120, A.CHARGING, battery_percent=20)
    assert (mower.only().ended_at, mower.only().ended_by) == (at(end), EndedBy.SENT_HOME)


def test_a_command_of_an_earlier_way_home_is_not_this_one() -> None:
    mower = Mower()
    mower.sent_home_at = 500
    end = mower.job(0, battery=20, progress_percent=50.0)
    mower.play(end, end + 120, A.CHARGING, battery_percent=20)
    assert mower.only().ended_at is None


def test_a_charge_that_it_does_not_go_on_after_ends_where_it_docked() -> None:
    mower = Mower()
    end = mower.job(0, battery=20, progress_percent=50.0)
    mower.play(end, end + 7 * HOUR, A.CHARGING, step=60, battery_percent=50)
    session = mower.only()
    assert (session.ended_at, session.ended_by, session.charging_s) == (at(end), EndedBy.NOT_RESUMED, 0)
    assert session.seen_at == at(end)


def test_after_the_rain_it_has_half_an_hour_to_go_on() -> None:
    for pause_s, sessions in ((25 * 60, 1), (40 * 60, 2)):
        mower = Mower()
        end = mower.job(0)
        mower.play(end, end + HOUR, A.DOCKED, step=60, restricted_reason="rain")
        mower.play(end + HOUR, end + HOUR + pause_s, A.DOCKED, step=60)
        mower.play(end + HOUR + pause_s, end + 3 * HOUR, A.MOWING, step=60)
        assert len(mower.all()) == sessions, pause_s


def test_the_reason_may_come_a_report_late_and_a_contact_may_bounce() -> None:
    mower = Mower()
    end = mower.job(0)
    mower.take(state(end, A.DOCKED, battery_percent=80))
    mower.take(state(end + 10, A.LEAVING, battery_percent=80))
    mower.take(state(end + 20, A.DOCKED, battery_percent=80))
    mower.play(end + 100, end + 200, A.CHARGING, restricted_reason="charging")
    assert mower.only().ended_at is None


def test_a_fault_that_is_freed_is_a_break_and_one_that_is_not_is_the_end() -> None:
    stuck = {"error": MowerError(code="E10")}
    mower = Mower()
    mower.play(0, 600, A.MOWING)
    mower.play(600, 1_200, A.ERROR, **stuck)
    mower.play(1_200, 1_260, A.PAUSED)
    mower.play(1_260, 1_800, A.MOWING)
    session = mower.only()
    assert (session.error_s, session.paused_s, session.errors[0].code, session.errors[0].count) == (600, 60, "E10", 1)
    assert [stop.reason for stop in session.stops] == ["error"]
    mower.play(1_800, 1_800 + 5 * HOUR, A.ERROR, step=60, **stuck)
    session = mower.only()
    assert (session.ended_at, session.ended_by, session.errors[0].count) == (at(1_800), EndedBy.ERROR, 1)


def test_carried_home_with_a_fault() -> None:
    mower = Mower()
    mower.play(0, 600, A.MOWING, battery_percent=30)
    mower.play(600, 1_200, A.ERROR, error=MowerError(code="E20"), battery_percent=30)
    mower.play(1_200, 1_300, A.CHARGING, battery_percent=30)
    assert (mower.only().ended_at, mower.only().ended_by) == (at(1_200), EndedBy.ERROR)


def test_left_standing_and_silence() -> None:
    mower = Mower()
    mower.play(0, 600, A.MOWING)
    mower.play(600, 600 + 5 * HOUR, A.PAUSED, step=60)
    assert (mower.only().ended_at, mower.only().ended_by) == (at(600), EndedBy.LEFT_STANDING)
    mower = Mower()
    mower.play(0, 610, A.MOWING)
    mower.play(700, 700 + 3 * HOUR, A.MOWING, step=60, connectivity=Connectivity.OFFLINE)
    assert (mower.only().ended_at, mower.only().ended_by) == (at(600), EndedBy.SILENCE)
    mower.play(4 * HOUR, 4 * HOUR + 60, A.MOWING)
    assert [session.is_start_known for session in mower.all()] == [False, False]


def test_an_hour_out_of_reach_is_unseen_time_of_the_same_job() -> None:
    mower = Mower()
    mower.play(0, 610, A.MOWING, current_area="front")
    mower.play(600 + HOUR, 1_210 + HOUR, A.MOWING, current_area="back")
    session = mower.only()
    assert (session.mowing_s, session.unseen_s) == (1_200 + 120, HOUR - 120)
    assert session.areas == {"front": 720, "back": 600}


def test_the_way_without_jumps_and_the_share_that_was_mown() -> None:
    mower = Mower()
    for second in range(0, 100, 5):
        activity = A.MOWING if second < 50 else A.RETURNING
        jump = 500e-5 if second == 25 else 0.0
        position = Position(lat=48.0 + second * 1e-5 / 5 + jump, lon=11.0, accuracy_m=0.02)
        mower.take(state(second, activity, position=position, blades_on=activity is A.MOWING))
    mower.take(state(100, A.RETURNING))
    mower.take(state(400, A.RETURNING))
    session = mower.only()
    assert session.distance_m == pytest.approx(17 * 1.11, abs=0.05)
    assert session.mowing_distance_m == pytest.approx(7 * 1.11, abs=0.05)


def test_rain_and_what_does_not_fit() -> None:
    mower = Mower()
    for number in range(200):
        fault = MowerError(code=f"{number}" + "x" * 200)
        name = "ä" * 100 + str(number)
        mower.take(state(number * 20, A.MOWING, current_area=str(number) + name, is_raining=True, error=fault))
        mower.take(state(number * 20 + 10, A.PAUSED, is_raining=False))
    mower.take(state(5_000, A.MOWING))
    session = mower.only()
    assert session.rain_s == 2_000
    assert len(session.areas) == AREAS_MAX + 1
    assert all(len(area) <= TEXT_CHARS for area in session.areas)
    assert (len(session.stops), session.interruptions) == (STOPS_MAX, 200)
    assert sum(error.count for error in session.errors) == 200
    body = msgspec.json.encode(session)
    assert find_body_fault(body) is None
    assert len(body) < limits.RECORD_BYTES


activities = st.sampled_from([A.MOWING, A.MOWING, A.CHARGING, A.DOCKED, A.RETURNING, A.LEAVING, *Activity])


@st.composite
def histories(draw: st.DrawFn) -> list[MowerState]:
    """In order of time."""
    now, states = 0.0, []
    for _ in range(draw(st.integers(2, 25))):
        now += draw(st.sampled_from([1e-6, 0.9, 10, 60, 61, 120, 121, 1_000, 2 * HOUR + 1, 5 * HOUR, 13 * HOUR]))
        states.append(
            MowerState(
                observed_at=at(now),
                activity=draw(activities),
                connectivity=draw(st.sampled_from([Connectivity.ONLINE, Connectivity.ONLINE, Connectivity.OFFLINE])),
                battery_percent=draw(st.sampled_from([None, 20, 80])),
                is_raining=draw(st.sampled_from([None, None, True])),
                restricted_reason=draw(st.sampled_from([None, None, "charging", "rain", "schedule"])),
                error=draw(st.sampled_from([None, None, MowerError(code="E1")])),
                current_area=draw(st.sampled_from([None, "front", "back"])),
                progress_percent=draw(st.sampled_from([None, 50.0, 100.0])),
                position=draw(st.sampled_from([None, Position(lat=48.0, lon=11.0), Position(lat=48.0001, lon=11.0)])),
            )
        )
    return states


def sessions_of(states: Sequence[MowerState]) -> list[Session]:
    mower = Mower()
    for each in states:
        mower.take(each)
    return mower.all()


@settings(max_examples=50, deadline=None)
@given(histories(), st.sets(st.integers(0, 25)), st.data())
def test_restarts_redelivery_and_late_states_change_nothing(
    states: list[MowerState], restarts: set[int], data: st.DataObject
) -> None:
    expected = sessions_of(states)
    mower = Mower()
    for number, each in enumerate(states):
        mower.take(each)
        mower.take(data.draw(st.sampled_from(states[: number + 1])))
        if number:
            gap = each.observed_at - states[number - 1].observed_at
            mower.take(msgspec.structs.replace(each, observed_at=each.observed_at - gap / 2, activity=A.MANUAL))
        if number in restarts:
            mower.restart()
    assert mower.all() == expected


@settings(max_examples=50, deadline=None)
@given(histories())
def test_seconds_sum_to_the_span_and_sessions_follow_each_other(states: list[MowerState]) -> None:
    sessions = sessions_of(states)
    for session in sessions:
        end = session.seen_at if session.ended_at is None else session.ended_at
        assert end == session.seen_at
        assert spent(session) == pytest.approx((end - session.started_at).total_seconds(), abs=1e-5)
        assert sum(session.areas.values()) == pytest.approx(session.mowing_s, abs=1e-5)
        assert (session.ended_at is None) == (session.ended_by is None)
    for before, after in itertools.pairwise(sessions):
        assert before.ended_at is not None
        assert before.ended_at <= after.started_at


@settings(max_examples=40, deadline=None)
@given(histories())
def test_versions_of_an_open_session_are_few(states: list[MowerState]) -> None:
    mower = Mower()
    for each in states:
        mower.take(each)
    span_s = (states[-1].observed_at - states[0].observed_at).total_seconds()
    assert len(mower.writes) <= 2 * len(mower.sessions) + span_s / 60


def test_an_hour_of_mowing_is_written_every_five_minutes() -> None:
    mower = Mower()
    mower.play(0, HOUR, A.MOWING, step=1)
    assert len(mower.writes) == HOUR / RECORD_S - 1
