"""Rows of the journal at random, within the resolution of the columns."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from core.domain.clock import from_us
from core.domain.commands import CommandResult, CommandStatus
from core.domain.ids import CommandId, MowerId
from core.domain.mower import Activity, Connectivity, RtkFix, RtkSource
from core.telemetry.rows import HistoryRow, PositionRow, RecordRow, Row, SequencedRow, TimelineRow

FIRST_US = 1_780_000_000_000_000


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def degrees(bound: int) -> st.SearchStrategy[float]:
    return st.integers(-bound * 10_000_000, bound * 10_000_000).map(lambda whole: whole / 10_000_000)


mowers = st.sampled_from([MowerId("m1"), MowerId("m2"), MowerId("M-3_x")])
times: st.SearchStrategy[datetime] = st.integers(-(10**15), 2 * 10**15).map(lambda us: from_us(FIRST_US + us))
numbers = _maybe(st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 3_600).map(lambda n: n / 10))
texts = _maybe(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
integers = _maybe(st.integers(-200, 200))

history_rows = st.builds(
    HistoryRow,
    mower_id=mowers,
    observed_at=times,
    activity=st.sampled_from(Activity),
    connectivity=st.sampled_from(Connectivity),
    battery_percent=integers,
    is_charging=_maybe(st.booleans()),
    rtk_fix=_maybe(st.sampled_from(RtkFix)),
    rtk_source=_maybe(st.sampled_from(RtkSource)),
    blade_height_mm=numbers,
    blades_on=_maybe(st.booleans()),
    speed_mps=numbers,
    error_code=texts,
)
position_rows = st.builds(
    PositionRow,
    mower_id=mowers,
    observed_at=times,
    lat=degrees(90),
    lon=degrees(180),
    heading_deg=numbers,
    accuracy_m=numbers,
    rtk_fix=_maybe(st.sampled_from(RtkFix)),
    rtk_source=_maybe(st.sampled_from(RtkSource)),
    blades_on=_maybe(st.booleans()),
    wifi_dbm=integers,
    mobile_dbm=integers,
    satellites=integers,
)
timeline_rows = st.builds(
    TimelineRow,
    result=st.builds(
        CommandResult,
        command_id=st.text("abcXYZ019-_", min_size=1, max_size=26).map(CommandId),
        mower_id=mowers,
        status=st.sampled_from(CommandStatus),
        at=times,
        reason=texts,
    ),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab\n", max_size=3), inner, max_size=3),
    max_leaves=6,
)
ids = st.text("abcXYZ019-_", min_size=1, max_size=26)
record_rows = st.builds(
    RecordRow,
    mower_id=mowers,
    kind=ids,
    key=ids,
    at=times,
    updated_at=times,
    body=st.dictionaries(st.text(max_size=3), json_values, max_size=3).map(lambda body: json.dumps(body).encode()),
)
rows: st.SearchStrategy[Row] = history_rows | position_rows | timeline_rows | record_rows


@st.composite
def sequences(draw: st.DrawFn, max_size: int = 30) -> tuple[SequencedRow, ...]:
    """Rows numbered upwards, with gaps."""
    seq = draw(st.integers(0, 10**9))
    numbered = []
    for row in draw(st.lists(rows, max_size=max_size)):
        seq += draw(st.integers(1, 3))
        numbered.append(SequencedRow(seq=seq, row=row))
    return tuple(numbered)
