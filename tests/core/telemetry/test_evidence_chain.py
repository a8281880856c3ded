"""Any changed, dropped, added or reordered line of evidence is found."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from core.telemetry.evidence_chain import What, chain, find_flaw

items = st.lists(
    st.tuples(
        st.sampled_from(["alert", "answer", "state", "position", "link"]),
        st.dictionaries(st.text(max_size=5), st.one_of(st.integers(-9, 9), st.text(max_size=9), st.none()), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(items)
def test_what_was_written_holds(written: list[tuple[What, dict[str, object]]]) -> None:
    lines = list(chain(written))
    assert len(lines) == len(written) + 1
    assert all(b"\n" not in line for line in lines)
    assert find_flaw(lines) is None


@settings(max_examples=120, deadline=None)
@given(items, st.data())
def test_whatever_is_done_to_it_is_found(written: list[tuple[What, dict[str, object]]], data: st.DataObject) -> None:
    lines = list(chain(written))
    at = data.draw(st.integers(0, len(lines) - 1))
    deed = data.draw(st.sampled_from(["drop", "repeat", "swap", "change", "cut"]))
    forged = list(lines)
    if deed == "drop":
        del forged[at]
    elif deed == "repeat":
        forged.insert(at, lines[at])
    elif deed == "swap":
        other = data.draw(st.integers(0, len(lines) - 1).filter(lambda number: number != at))
        forged[at], forged[other] = forged[other], forged[at]
    elif deed == "cut":
        forged = forged[:at]
    else:
        place = data.draw(st.integers(0, len(lines[at]) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda value: value != lines[at][place]))
        forged[at] = lines[at][:place] + bytes([byte]) + lines[at][place + 1 :]
    flaw = find_flaw(forged)
    assert flaw is not None
    if deed == "change":
        assert flaw.line == at + 1


def test_an_empty_file_is_no_evidence() -> None:
    assert find_flaw([]) is not None
