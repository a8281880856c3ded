"""How many more connections a proxy carries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.bluetooth.slot_count import slots_left

ADDRESSES = st.sets(st.sampled_from("abcdef"))


def left(limit: int, allocated: str, ours: str, *, told: int | None = None) -> int:
    used = len(allocated) if told is None else told
    return slots_left(limit=limit, free=limit - used, allocated=allocated, ours=ours)


def test_own_connections_count_once() -> None:
    assert left(3, "", "") == 3
    assert left(3, "a", "a") == 2
    assert left(3, "", "a") == 2, "asked for, and not told by the proxy yet"
    assert left(3, "x", "a") == 1, "somebody else's is a slot too"
    assert left(1, "x", "") == 0
    assert slots_left(limit=0, free=0, allocated=(), ours=()) == 0, "not told yet"


def test_old_firmware_tells_no_addresses() -> None:
    assert left(3, "", "a", told=1) == 2, "its one may well be ours"
    assert left(3, "", "a", told=2) == 1
    assert left(3, "", "abc", told=1) == 0


@given(limit=st.integers(0, 8), allocated=ADDRESSES, ours=ADDRESSES, more=st.sampled_from("abcdef"))
def test_never_more_than_there_are(limit: int, allocated: set[str], ours: set[str], more: str) -> None:
    used = min(limit, len(allocated))
    found = slots_left(limit=limit, free=limit - used, allocated=allocated, ours=ours)
    assert 0 <= found <= limit
    assert found + len(ours) <= max(limit, len(ours))
    assert slots_left(limit=limit, free=limit - used, allocated=allocated, ours={*ours, more}) <= found
