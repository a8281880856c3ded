"""Health of a mower the slow way: every pair of states by itself, every second in the day that it lies in. No runs,
no open day, nothing kept from one pair to the next but what a person would write down."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from core.domain.clock import to_us
from core.domain.mower import Activity, Connectivity, MowerState

GAP = timedelta(seconds=120)
Sums = dict[str, float]


def is_known(state: MowerState) -> bool:
    return state.activity is not Activity.UNKNOWN and state.connectivity is not Connectivity.OFFLINE


def charges(state: MowerState) -> bool:
    return state.activity is Activity.CHARGING if state.is_charging is None else state.is_charging


def kinds_of_time(state: MowerState) -> list[str]:
    kinds = ["observed_us"]
    if state.activity is Activity.MOWING:
        kinds.append("mowing_us")
    if state.activity in {Activity.LEAVING, Activity.RETURNING, Activity.MANUAL}:
        kinds.append("driving_us")
    if charges(state):
        kinds.append("charging_us")
    if state.error is not None or state.activity is Activity.ERROR:
        kinds.append("error_us")
    if state.blades_on or (state.blades_on is None and state.activity is Activity.MOWING):
        kinds.append("blades_us")
    return kinds


def by_day(states: Sequence[MowerState], zone: ZoneInfo) -> dict[str, Sums]:
    """Microseconds of each kind by date. States in order of time."""
    days: dict[str, Sums] = defaultdict(lambda: defaultdict(int))
    for before, after in itertools.pairwise(states):
        if not (is_known(before) and is_known(after)):
            continue
        start, end = before.observed_at, min(after.observed_at, before.observed_at + GAP)
        border = end
        if start.astimezone(zone).date() != (end - timedelta(microseconds=1)).astimezone(zone).date():
            # a pair is short: it crosses one midnight at most
            border = datetime.combine(end.astimezone(zone).date(), datetime.min.time(), zone).astimezone(UTC)
        for begin, until in ((start, border), (border, end)):
            if until > begin:
                for kind in kinds_of_time(before):
                    days[begin.astimezone(zone).date().isoformat()][kind] += to_us(until) - to_us(begin)
    return days
