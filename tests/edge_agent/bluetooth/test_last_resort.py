from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.bluetooth.last_resort import EVERY_S, STUCK_S, STUCK_TIMES, LastResort


def test_takes_attempts_time_and_an_empty_adapter() -> None:
    resort = LastResort()
    for number in range(STUCK_TIMES):
        assert not resort.is_due(number * STUCK_S, connections=0)
        resort.note_stuck(number * STUCK_S)
    now = (STUCK_TIMES - 1) * STUCK_S
    assert resort.is_due(now, connections=0)
    assert not resort.is_due(now, connections=1)
    assert not resort.is_due(now, connections=None), "unknown is not nobody"
    resort.note_good()
    assert not resort.is_due(now, connections=0)


def test_many_attempts_in_a_moment_are_not_enough() -> None:
    resort = LastResort()
    for _ in range(100):
        resort.note_stuck(10.0)
    assert not resort.is_due(10.0 + STUCK_S - 1, connections=0)
    assert resort.is_due(10.0 + STUCK_S, connections=0)


def test_once_an_hour_however_stuck_it_is() -> None:
    resort = LastResort()
    resort.note_used(0.0)
    for now in range(60, int(EVERY_S), 60):
        resort.note_stuck(float(now))
        assert not resort.is_due(float(now), connections=0)
    assert resort.is_due(EVERY_S, connections=0)


steps = st.lists(
    st.tuples(st.sampled_from(["stuck", "good", "ask"]), st.floats(0, EVERY_S), st.sampled_from([None, 0, 1])),
    max_size=80,
)


@given(steps)
def test_never_twice_in_an_hour_and_never_under_a_connection(history: list[tuple[str, float, int | None]]) -> None:
    resort, now, used_at = LastResort(), 0.0, []
    stuck_since: list[float] = []
    for what, pause_s, connections in history:
        now += pause_s
        if what == "stuck":
            resort.note_stuck(now)
            stuck_since.append(now)
        elif what == "good":
            resort.note_good()
            stuck_since.clear()
        elif resort.is_due(now, connections=connections):
            assert connections == 0
            assert len(stuck_since) >= STUCK_TIMES
            assert now - stuck_since[0] >= STUCK_S
            assert not used_at or now - used_at[-1] >= EVERY_S
            resort.note_used(now)
            used_at.append(now)
            stuck_since.clear()
