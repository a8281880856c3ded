"""What several links can do together."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from core.domain.capabilities import Capabilities, Drive, Range, Schedule, Simple, Spot, Start, unite
from core.domain.commands import SetBladeHeight, StartMow, confirm_timeout_s, find_mistakes

TIMES = st.sampled_from([1.0, 5.0, 20.0])
CAPABILITIES = st.builds(
    Capabilities,
    start_mow=st.none()
    | st.builds(
        Start, confirm_timeout_s=TIMES, takes_areas=st.booleans(), max_duration_s=st.none() | st.integers(60, 90)
    ),
    pause_mow=st.none() | st.builds(Simple, confirm_timeout_s=TIMES),
    set_blade_height=st.none()
    | st.builds(
        Range,
        minimum=st.integers(10, 30),
        maximum=st.integers(30, 60),
        step=st.sampled_from([0.0, 5.0, 1.0]),
        confirm_timeout_s=TIMES,
    ),
    mow_spot=st.none() | st.builds(Spot, max_radius_m=st.sampled_from([1.0, 2.0])),
    set_schedule=st.none() | st.builds(Schedule, max_windows=st.integers(1, 3)),
    manual_drive=st.none()
    | st.builds(Drive, max_speed_mps=st.sampled_from([0.3, 0.5]), motor_timeout_s=st.sampled_from([0.5, 1.0])),
)


@given(CAPABILITIES)
def test_one_link_is_as_it_says(one: Capabilities) -> None:
    assert unite([one]) == unite([one, one]) == one


@given(CAPABILITIES, CAPABILITIES, CAPABILITIES)
def test_the_order_does_not_matter(one: Capabilities, other: Capabilities, third: Capabilities) -> None:
    united = unite([one, other, third])
    assert set(map(repr, map(unite, permutations([one, other, third])))) == {repr(united)}
    assert unite([unite([one, other]), third]) == united


@given(CAPABILITIES, CAPABILITIES, st.integers(5, 65), st.none() | st.integers(55, 95))
def test_what_one_link_takes_the_mower_takes(
    one: Capabilities, other: Capabilities, height: int, duration_s: int | None
) -> None:
    united = unite([one, other])
    for command in (SetBladeHeight(height_mm=height), StartMow(duration_s=duration_s)):
        for able in (one, other):
            timeout_s = confirm_timeout_s(command, able)
            if timeout_s is None:
                continue
            united_s = confirm_timeout_s(command, united)
            assert united_s is not None
            assert united_s >= timeout_s
            if not find_mistakes(command, able):
                assert not find_mistakes(command, united)
