"""Several links, one state: the freshest word on each field, whatever the order in which they came."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import reduce
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from core.domain.mower import Activity, Connectivity, LinkKind, MowerError, MowerState, Position, Signals, Totals
from core.telemetry.merging import Share, Standing, merge, told_by
from tests.fakes.clock import START

BLE, CLOUD = "a-ble", "b-cloud"

SIGNALS = st.builds(
    Signals,
    ble_dbm=st.none() | st.integers(-90, -40),
    wifi_dbm=st.none() | st.integers(-90, -40),
    active_link=st.none() | st.sampled_from(LinkKind),
)
STATES = st.builds(
    MowerState,
    observed_at=st.just(START),
    activity=st.sampled_from([Activity.MOWING, Activity.DOCKED, Activity.PAUSED, Activity.UNKNOWN]),
    connectivity=st.sampled_from(Connectivity),
    battery_percent=st.none() | st.integers(0, 3),
    error=st.none() | st.builds(MowerError, code=st.sampled_from("ab")),
    position=st.none() | st.builds(Position, lat=st.sampled_from([1.0, 2.0])),
    blades_on=st.none() | st.booleans(),
    speed_mps=st.none() | st.sampled_from([0.0, 0.5]),
    signals=st.none() | SIGNALS,
    totals=st.none() | st.builds(Totals, mowing_s=st.none() | st.integers(0, 3), collisions=st.none() | st.just(1)),
    firmware=st.none() | st.sampled_from(["1", "2"]),
    raw=st.none() | st.just({"a": "b"}),
)
Report = tuple[str, int, MowerState]
REPORTS = st.lists(st.tuples(st.sampled_from([BLE, CLOUD]), st.integers(0, 5), STATES), min_size=1, max_size=8)
FIELDS = ("battery_percent", "position", "blades_on", "speed_mps", "firmware", "raw")


def share(seconds: float, sequence: int = 0, **fields: Any) -> Share:
    return share_of(MowerState(**{"observed_at": START, **fields}), seconds, sequence)


def share_of(state: MowerState, seconds: float, sequence: int) -> Share:
    at = START + timedelta(seconds=seconds)
    state = msgspec.structs.replace(state, observed_at=at)
    return Share(at=at, sequence=sequence, state=state, told=told_by(state))


def joined(numbered: Iterable[tuple[int, Report]]) -> dict[str, Share]:
    """All reports, each with its number in its link's own order."""
    found: dict[str, Share] = {}
    for number, (link, seconds, state) in numbered:
        one = share_of(state, seconds, number)
        found[link] = found[link].join(one) if link in found else one
    return found


def bare(state: MowerState) -> MowerState:
    """Without what no link can say of the whole mower; a part without any reading is no part."""
    signals = state.signals and msgspec.structs.replace(state.signals, active_link=None)
    return msgspec.structs.replace(
        state,
        connectivity=Connectivity.UNKNOWN,
        signals=None if signals == Signals() else signals,
        totals=None if state.totals == Totals() else state.totals,
    )


@given(STATES)
def test_one_link_alone_is_believed_as_it_is(state: MowerState) -> None:
    one = share_of(state, 3, 0)
    assert merge({BLE: one}, {}) == bare(one.state)


@given(REPORTS, st.randoms())
def test_neither_the_order_nor_a_repetition_matters(reports: list[Report], random: Any) -> None:
    numbered = list(enumerate(reports))
    mixed = numbered + numbered[: len(numbered) // 2]
    random.shuffle(mixed)
    first, second = joined(numbered), joined(mixed)
    assert first == second
    assert merge(first, {}) == merge(dict(reversed(second.items())), {})
    assert reduce(Share.join, [first[next(iter(first))]] * 3) == first[next(iter(first))]


@given(REPORTS)
def test_no_value_is_older_than_a_known_newer_one(reports: list[Report]) -> None:
    """Against the rule as it is written down: of the links that have ever filled the field, the newest report."""
    merged = merge(joined(enumerate(reports)), {})
    for name in FIELDS:
        told = [
            (seconds, link == BLE, number, getattr(state, name))
            for number, (link, seconds, state) in enumerate(reports)
            if any(getattr(other[2], name) is not None for other in reports if other[0] == link)
        ]
        newest = max(told, key=lambda entry: entry[:3], default=(0, True, 0, None))
        # of one moment the smaller key has the word, and of one link the later report
        assert getattr(merged, name) == newest[3], name


APART = st.lists(
    st.tuples(st.sampled_from([BLE, CLOUD]), st.integers(0, 9), STATES),
    min_size=1,
    max_size=8,
    unique_by=lambda r: r[1],
)
"""No two reports of one moment: between those how a link stands decides, too."""


@given(APART, st.sampled_from(Standing), st.sampled_from(Standing))
def test_doubt_only_takes_away(reports: list[Report], ble: Standing, cloud: Standing) -> None:
    shares = joined(enumerate(reports))
    whole, doubted = merge(shares, {}), merge(shares, {BLE: ble, CLOUD: cloud})
    for name in (*FIELDS, "activity"):
        assert getattr(doubted, name) in (getattr(whole, name), None, Activity.UNKNOWN), name
    assert doubted.error == whole.error


def test_a_field_that_a_link_never_fills_takes_nothing_away() -> None:
    merged = merge({BLE: share(1, battery_percent=80, blades_on=True), CLOUD: share(9, activity=Activity.MOWING)}, {})
    assert (merged.battery_percent, merged.blades_on, merged.activity) == (80, True, Activity.MOWING)
    assert merged.observed_at == START + timedelta(seconds=9)


def test_an_empty_field_of_a_link_that_fills_it_means_unknown_from_then_on() -> None:
    cloud = share(2, battery_percent=70).join(share(5, 1))
    assert merge({BLE: share(4, battery_percent=80), CLOUD: cloud}, {}).battery_percent is None
    assert merge({BLE: share(6, battery_percent=80), CLOUD: cloud}, {}).battery_percent == 80


def test_of_one_moment_a_link_that_is_up_has_the_word() -> None:
    shares = {BLE: share(1, battery_percent=80), CLOUD: share(1, battery_percent=70)}
    assert merge(shares, {}).battery_percent == 80
    assert merge(shares, {BLE: Standing.DOWN}).battery_percent == 70


def test_who_says_what_it_does_has_seen_no_error() -> None:
    """Or an error that was cleared would stay for ever beside a link that has never seen one."""
    broken = share(1, activity=Activity.ERROR, error=MowerError(code="7"))
    merged = merge({BLE: broken, CLOUD: share(2, activity=Activity.DOCKED)}, {})
    assert (merged.activity, merged.error) == (Activity.DOCKED, None)
    assert merge({BLE: broken, CLOUD: share(2, battery_percent=1)}, {}).error == MowerError(code="7")


def test_parts_of_signals_and_totals_come_from_different_links() -> None:
    ble = share(1, signals=Signals(ble_dbm=-60), totals=Totals(mowing_s=5))
    cloud = share(2, signals=Signals(mobile_dbm=-80), totals=Totals(collisions=2))
    merged = merge({BLE: ble, CLOUD: cloud}, {})
    assert merged.signals == Signals(ble_dbm=-60, mobile_dbm=-80)
    assert merged.totals == Totals(mowing_s=5, collisions=2)


def test_what_a_lost_link_saw_gives_way_to_unknown_and_never_to_something_older() -> None:
    ble = share(9, activity=Activity.MOWING, position=Position(lat=1.0), speed_mps=0.4, battery_percent=50)
    cloud = share(3, activity=Activity.DOCKED, position=Position(lat=2.0), battery_percent=90)
    shares = {BLE: ble, CLOUD: cloud}
    down = merge(shares, {BLE: Standing.DOWN})
    assert (down.activity, down.position, down.speed_mps) == (Activity.MOWING, Position(lat=1.0), None)
    doubted = merge(shares, {BLE: Standing.DOUBTED})
    assert (doubted.activity, doubted.position, doubted.battery_percent) == (Activity.UNKNOWN, None, 50)
    agreeing = {BLE: ble, CLOUD: share(3, activity=Activity.MOWING)}
    assert merge(agreeing, {BLE: Standing.DOUBTED}).activity is Activity.MOWING, "the other link says the same"
    assert merge(agreeing, {BLE: Standing.DOUBTED, CLOUD: Standing.DOUBTED}).activity is Activity.UNKNOWN
