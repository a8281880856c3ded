"""Ids, clocks, open enums, the error tree and the rights."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain import errors
from core.domain.access import GRANT_OF, ROLES, ROLES_WITH_END, Grant, Relation
from core.domain.clock import SystemClock, from_us, to_us
from core.domain.ids import is_safe_id, make_id, parse_id
from core.domain.mower import Activity, Connectivity, ErrorClass, MowerState, RtkFix, RtkSource


def test_ids_sort_by_age_and_are_safe_in_topics():
    now = datetime(2026, 6, 1, tzinfo=UTC)
    earlier, later = make_id(now), make_id(now + timedelta(milliseconds=1))
    assert earlier < later
    assert is_safe_id(earlier)
    assert len(earlier) == 26
    assert make_id(now) != make_id(now)
    assert make_id(now, bytes(10)) == make_id(now, bytes(10))


@pytest.mark.parametrize("text", ["", "a/b", "a+", "#", "ä", "x" * 65, "a b", "a\n"])
def test_other_texts_are_no_ids(text):
    with pytest.raises(errors.InvalidInputError) as caught:
        parse_id(text, "mower_id")
    assert caught.value.mistakes[0].field == "mower_id"


@given(st.datetimes(datetime(1970, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC)))
def test_microseconds_are_exact(at):
    assert from_us(to_us(at)) == at


def test_the_system_clock_is_aware():
    assert SystemClock().now().tzinfo is UTC


@pytest.mark.parametrize("kind", [Activity, Connectivity, RtkFix, RtkSource, ErrorClass])
def test_words_of_a_newer_peer_become_unknown(kind):
    assert msgspec.json.decode('"invented tomorrow"', type=kind) is kind["UNKNOWN"]


def test_an_unknown_activity_does_not_break_a_state():
    state = msgspec.json.decode('{"observed_at":"2026-01-01T00:00:00Z","activity":"dancing","new":1}', type=MowerState)
    assert state.activity is Activity.UNKNOWN


def _tree(root: type) -> list[type]:
    return [root, *(child for sub in root.__subclasses__() for child in _tree(sub))]


def test_each_error_has_its_own_code_a_hint_and_a_place_in_the_drawn_tree():
    classes = [c for c in _tree(errors.MowdeckError) if c.__module__ == errors.__name__]
    codes = [c.code for c in classes]
    assert len(set(codes)) == len(codes)
    for one in classes:
        assert one.hint
        assert one.__name__ in (errors.__doc__ or "")


def test_every_relation_needs_a_grant_and_a_viewer_may_stop_but_not_start():
    assert set(GRANT_OF) == set(Relation)
    assert GRANT_OF[Relation.CAN_EMERGENCY_STOP] in ROLES["viewer"]
    assert GRANT_OF[Relation.CAN_CONTROL] not in ROLES["viewer"]
    assert ROLES["owner"] == set(Grant)
    assert set(ROLES) >= ROLES_WITH_END
