"""The day that the wear of a card is measured with."""

from __future__ import annotations

from itertools import pairwise

from bench.wear import DAY_S, HEARTBEAT_S, make_day
from core.domain.mower import Activity


def test_it_is_a_whole_day_of_one_mower() -> None:
    day = make_day(0.5)
    mowing = [state for state in day if state.activity is Activity.MOWING]
    assert len(mowing) == 1_800
    assert all(earlier.observed_at < later.observed_at for earlier, later in pairwise(day))
    length_s = (day[-1].observed_at - day[0].observed_at).total_seconds()
    assert DAY_S - 2 * HEARTBEAT_S < length_s <= DAY_S
