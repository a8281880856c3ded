"""Debounce on both sides, one open alert per cause, whatever comes in."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from core.telemetry.alert import Alert, AlertKind, Evidence, Severity
from core.telemetry.alert_tracks import DEBOUNCE, OPEN_MAX, AlertTracks, Finding, Reading
from tests.core.telemetry.alert_world import numbered
from tests.fakes.clock import START, ManualClock

KIND = AlertKind.ERROR
BOUNCE = DEBOUNCE[KIND]


class Stream:
    """Readings of one kind, and all that was said."""

    def __init__(self, open_alerts: tuple[Alert, ...] = ()) -> None:
        self.clock = ManualClock()
        ids = numbered()
        self.tracks = AlertTracks(lambda _: next(ids), open_alerts)
        self.said: list[tuple[float, Alert]] = []

    def take(self, *causes: str, is_known: bool = True, seconds: float = 1.0) -> None:
        self.clock.advance(seconds)
        now = self.clock.now()
        found = {cause: Finding(severity=Severity.WARNING, evidence=Evidence(at=now)) for cause in causes}
        reading = Reading(kind=KIND, causes=found if is_known else None)
        monotonic_s = self.clock.monotonic()
        self.said += [(monotonic_s, a) for a in self.tracks.take(reading, now=now, monotonic_s=monotonic_s)]


steps = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sets(st.sampled_from("abc"))), st.floats(0.1, 45), st.integers(-90, 90), st.booleans()
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_at_most_one_open_per_cause_and_never_faster_than_the_debounce(stream) -> None:
    world = Stream()
    turned: dict[str, float] = {}
    newest: dict[str, Alert] = {}
    for causes, seconds, wall_jump_s, is_closed_by_hand in stream:
        world.clock.jump(wall_jump_s)
        before = len(world.said)
        world.take(*sorted(causes or ()), is_known=causes is not None, seconds=seconds)
        for at_s, alert in world.said[before:]:
            known = newest.get(alert.alert_id)
            assert known is None or known.updated_at < alert.updated_at
            assert known is None or known.closed_at is None, "what is closed stays closed"
            if known is None or alert.closed_at is not None:
                least_s = BOUNCE.open_s if known is None else BOUNCE.close_s
                assert at_s - turned.get(alert.cause, -1e9) >= least_s
                turned[alert.cause] = at_s
            newest[alert.alert_id] = alert
        if is_closed_by_hand:
            for alert in world.tracks.open_alerts():
                ended = world.tracks.close(alert.alert_id, world.clock.now())
                assert ended is not None
                newest[alert.alert_id] = ended
                turned[alert.cause] = world.clock.monotonic()
        is_open = Counter(alert.cause for alert in newest.values() if alert.closed_at is None)
        assert all(count == 1 for count in is_open.values())
        assert sorted(is_open) == sorted(alert.cause for alert in world.tracks.open_alerts())


def test_it_opens_after_its_time_with_the_instant_that_it_began() -> None:
    world = Stream()
    for _ in range(int(BOUNCE.open_s)):
        world.take("a")
    assert world.said == []
    world.take("a")
    ((_, alert),) = world.said
    assert (alert.since, alert.opened_at) == (START + timedelta(seconds=1), START + timedelta(seconds=11))
    world.take("a")
    assert len(world.said) == 1, "nothing new is nothing to say"


def test_not_knowing_neither_opens_nor_closes() -> None:
    world = Stream()
    for _ in range(50):
        world.take("a")
        world.take(is_known=False, seconds=BOUNCE.open_s)
    assert world.said == []
    for _ in range(20):
        world.take("a")
    for _ in range(50):
        world.take()
        world.take(is_known=False, seconds=BOUNCE.close_s)
    assert [alert.closed_at for _, alert in world.said] == [None]


def test_an_open_alert_outlives_the_process_and_closes_once() -> None:
    world = Stream()
    for _ in range(20):
        world.take("a")
    again = Stream(tuple(world.tracks.open_alerts()))
    for _ in range(20):
        again.take("a")
    assert {alert.alert_id for alert in again.tracks.open_alerts()} == {"a1"}
    for _ in range(40):
        again.take()
    closings = [alert for _, alert in again.said if alert.closed_at is not None]
    assert [(alert.alert_id, alert.closed_why) for alert in closings] == [("a1", "recovery")]


def test_what_a_person_closed_is_told_again_only_after_it_was_gone() -> None:
    world = Stream()
    for _ in range(20):
        world.take("a")
    ended = world.tracks.close("a1", world.clock.now())
    assert ended is not None
    assert ended.closed_why == "person"
    assert world.tracks.close("a1", world.clock.now()) is None
    for _ in range(60):
        world.take("a")
    assert world.tracks.open_alerts() == []
    for _ in range(40):
        world.take()
    for _ in range(20):
        world.take("a")
    assert [alert.alert_id for alert in world.tracks.open_alerts()] == ["a2"]


def test_a_mower_of_a_thousand_faults_has_a_bounded_number_of_alerts() -> None:
    world = Stream()
    for _ in range(20):
        world.take(*(f"e{number}" for number in range(1_000)))
    assert len(world.tracks.open_alerts()) == OPEN_MAX
