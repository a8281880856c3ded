"""Bins: anchored, bounded, and the same in SQL as in Python."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.clock import from_us, to_us
from core.domain.errors import InvalidInputError, TooManyBinsError
from core.domain.ids import AccountId, MowerId
from core.domain.mower import Activity, Connectivity, RtkFix
from core.storage.migrations import migrate, read_migrations
from core.storage.sqlite_bins import read_bins
from core.storage.sqlite_columns import INSERT_HISTORY, INSERT_POSITION, encode_history, encode_position
from core.telemetry.binning import (
    STEPS,
    bin_history,
    bin_start_us,
    check_bins,
    count_bins,
    fitting_step,
    rounded_mean,
    step_seconds,
)
from core.telemetry.rows import HistoryRow, PositionRow
from tests.fakes.clock import START

ANCHOR = datetime(2000, 1, 1, tzinfo=UTC)
MOWER = MowerId("m")


@pytest.mark.parametrize(("name", "step_s"), STEPS.items())
def test_bins_are_anchored_at_2000(name: str, step_s: int) -> None:
    assert step_seconds(name) == step_s
    for at in (START, START + timedelta(seconds=step_s, microseconds=-1), ANCHOR):
        begin = from_us(bin_start_us(to_us(at), step_s))
        assert begin <= at < begin + timedelta(seconds=step_s)
        assert (begin - ANCHOR) % timedelta(seconds=step_s) == timedelta(0)


def test_steps_are_raw_or_known() -> None:
    assert step_seconds("raw") is None
    with pytest.raises(InvalidInputError):
        step_seconds("2m")


@settings(max_examples=100)
@given(st.integers(0, 10**9), st.integers(0, 10**9), st.sampled_from([*STEPS.values(), 7]))
def test_counting_bins(start_us: int, length_us: int, step_s: int) -> None:
    start, end = from_us(to_us(START) + start_us), from_us(to_us(START) + start_us + length_us)
    touched = {bin_start_us(to_us(start), step_s)} if length_us else set()
    at = to_us(start)
    while at < to_us(end):
        touched.add(bin_start_us(at, step_s))
        at += step_s * 1_000_000
    if length_us:
        touched.add(bin_start_us(to_us(end) - 1, step_s))
    assert count_bins(start, end, step_s) == len(touched)


def test_a_step_that_is_too_fine_names_the_one_that_fits() -> None:
    month = (START, START + timedelta(days=31))
    with pytest.raises(TooManyBinsError) as caught:
        check_bins(*month, 60)
    assert caught.value.fitting_step == "15m"
    check_bins(*month, 900)
    assert fitting_step(START, START + timedelta(days=6_000)) is None
    with pytest.raises(InvalidInputError):
        check_bins(*month, 0)


def test_means_are_rounded_half_up() -> None:
    assert [rounded_mean(values) for values in ([1, 2], [0, 1], [80], [0, 0, 1], [99, 100, 100])] == [2, 1, 80, 0, 100]


times = (
    st.integers(0, 30 * 86_400).map(lambda s: START + timedelta(seconds=s))
    | st.integers(0, 400_000_000).map(lambda us: from_us(to_us(START) + us))
    | st.integers(0, 400).map(lambda s: START + timedelta(seconds=s))
)
history_rows = st.builds(
    HistoryRow,
    mower_id=st.just(MOWER),
    observed_at=times,
    activity=st.sampled_from(Activity),
    connectivity=st.sampled_from(Connectivity),
    battery_percent=st.none() | st.integers(0, 100),
    is_charging=st.none() | st.booleans(),
    rtk_fix=st.none() | st.sampled_from(RtkFix),
    error_code=st.none() | st.sampled_from(["E1", "E2"]),
)
position_rows = st.builds(
    PositionRow,
    mower_id=st.just(MOWER),
    observed_at=times,
    lat=st.integers(-900_000_000, 900_000_000).map(lambda n: n / 1e7),
    lon=st.integers(-1_800_000_000, 1_800_000_000).map(lambda n: n / 1e7),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(history_rows, max_size=40, unique_by=lambda row: row.observed_at),
    st.lists(position_rows, max_size=40, unique_by=lambda row: row.observed_at),
    times,
    times,
    st.sampled_from([1, 5, 60, 300, 3_600, 86_400]),
)
def test_sql_and_python_agree_to_the_row(
    history: list[HistoryRow], positions: list[PositionRow], start: datetime, end: datetime, step_s: int
) -> None:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, read_migrations())
        connection.execute("INSERT INTO mowers VALUES (1, 'm', 'a'), (2, 'other', 'a')")
        for number in (1, 2):  # a neighbour with rows of its own must not show
            moved = timedelta(microseconds=number - 1)
            connection.executemany(
                INSERT_HISTORY,
                [
                    (
                        *encode_history(r, number, None)[:1],
                        to_us(r.observed_at + moved),
                        *encode_history(r, 1, None)[2:],
                    )
                    for r in history
                ],
            )
            connection.executemany(
                INSERT_POSITION,
                [
                    (
                        *encode_position(r, number, None)[:1],
                        to_us(r.observed_at + moved),
                        *encode_position(r, 1, None)[2:],
                    )
                    for r in positions
                ],
            )
        found = read_bins(connection, AccountId("a"), MOWER, start, end, step_s)
    assert found == bin_history(history, positions, start, end, step_s=step_s)


def test_last_words_are_those_of_the_bin_and_never_of_the_range_around_it() -> None:
    """By hand: an error before the range, nulls after it, a position of the bin that is older than its first row."""
    begin = START.replace(minute=0, second=0, microsecond=0)

    def row(second: int, battery: int | None, error: str | None, *, charging: bool | None = None) -> HistoryRow:
        return HistoryRow(
            mower_id=MOWER,
            observed_at=begin + timedelta(seconds=second),
            activity=Activity.MOWING,
            connectivity=Connectivity.ONLINE,
            battery_percent=battery,
            is_charging=charging,
            error_code=error,
        )

    rows = [row(0, 1, "E0"), row(20, None, None), row(30, 50, "E1"), row(40, 51, None, charging=False)]
    place = PositionRow(mower_id=MOWER, observed_at=begin + timedelta(seconds=15), lat=48.0, lon=11.0)
    start, end = begin + timedelta(seconds=10), begin + timedelta(days=3)
    rows.append(row(2 * 86_400, None, None))
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, read_migrations())
        connection.execute("INSERT INTO mowers VALUES (1, 'm', 'a')")
        connection.executemany(INSERT_HISTORY, [encode_history(r, 1, None) for r in rows])
        connection.execute(INSERT_POSITION, encode_position(place, 1, None))
        first, last = read_bins(connection, AccountId("a"), MOWER, start, end, 3_600)
    assert [first, last] == bin_history(rows, [place], start, end, step_s=3_600)
    assert (first.at, first.samples, first.error_code, first.battery_mean) == (begin, 3, "E1", 51)
    assert (first.is_charging, first.lat) == (False, 48.0)
    assert (last.battery_mean, last.battery_min, last.error_code, last.lat) == (None, None, None, None)
