from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.bluetooth.interference import LEAST, SHARE, WINDOW_S, Interference, Outcome


def advice(*outcomes: tuple[bool, bool | None], now: float = 100.0) -> str | None:
    interference = Interference()
    for is_disturbed, has_wifi in outcomes:
        interference.note(Outcome(at=0.0, is_disturbed=is_disturbed, has_wifi=has_wifi))
    return interference.advice(now)


def test_says_what_was_counted_and_no_more() -> None:
    with_wifi = advice(*[(True, True)] * 4, (False, True), *[(False, False)] * 3)
    assert with_wifi is not None
    assert "4 of 8 connects" in with_wifi
    assert "4 of 5 while this box used Wi-Fi on 2.4 GHz" in with_wifi
    assert "0 of 3 while it did not" in with_wifi
    without = advice(*[(True, False)] * 4)
    assert without is not None
    assert "not only while this box used Wi-Fi" in without
    unknown = advice(*[(True, None)] * 4)
    assert unknown is not None
    assert "is not known" in unknown
    alike = advice(*[(True, True)] * 3, *[(True, False)] * 3)
    assert alike is not None
    assert "not only" in alike


def test_nothing_is_said_of_little_or_of_long_ago() -> None:
    assert advice() is None
    assert advice(*[(True, True)] * (LEAST - 1)) is None
    assert advice(*[(True, True)] * LEAST, *[(False, True)] * 50) is None
    assert advice(*[(True, True)] * 10, now=WINDOW_S + 1) is None


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([True, False, None])), max_size=60))
def test_wifi_is_blamed_only_when_it_was_there_and_things_were_better_without(
    outcomes: list[tuple[bool, bool | None]],
) -> None:
    found = advice(*outcomes)
    disturbed = [wifi for is_disturbed, wifi in outcomes if is_disturbed]
    assert (found is not None) == (len(disturbed) >= LEAST and len(disturbed) >= SHARE * len(outcomes))
    if found is not None and "used Wi-Fi on 2.4 GHz, " in found:
        assert disturbed.count(True) > 0
        on, off = ([d for d, wifi in outcomes if wifi is there] for there in (True, False))
        assert not off or sum(on) / len(on) > sum(off) / len(off)
