"""Which adapter holds a bond with which peer, over restarts and in damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import StorageError
from core.platform.durable_file import DurableFile
from edge_agent.bluetooth.bond_book import BondBook
from tests.fakes.clock import ManualClock

MOWER, OTHER = "C0:00:00:00:00:01", "C0:00:00:00:00:02"


def load(path: Path) -> BondBook:
    book = BondBook(DurableFile(path), ManualClock())
    book.load()
    return book


def moved_aside(folder: Path) -> Path:
    (aside,) = folder.glob("bonds.json.corrupt-*")
    return aside


async def test_bonds_are_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "bluetooth" / "bonds.json"
    book = load(path)
    assert (book.sources(MOWER), book.problem) == (frozenset(), None)
    await book.add(MOWER, "hci0")
    await book.add(MOWER, "proxy")
    await book.add(OTHER, "hci0")
    assert load(path).sources(MOWER) == {"hci0", "proxy"}
    await book.remove(MOWER, "hci0")
    await book.remove(MOWER, "never")
    assert load(path).sources(MOWER) == {"proxy"}
    await book.remove(MOWER)
    again = load(path)
    assert (again.sources(MOWER), again.sources(OTHER)) == (frozenset(), {"hci0"})
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damaged", [b"", b"{", b"\xff\xff", b"[]", b'{"C0:00:00:00:00:01": "hci0"}', b'{"a": [1]}'])
async def test_a_damaged_file_is_moved_aside_and_named(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "bonds.json"
    path.write_bytes(damaged)
    book = load(path)
    assert book.sources(MOWER) == frozenset()
    aside = moved_aside(tmp_path)
    assert aside.read_bytes() == damaged
    assert aside.name in str(book.problem)
    assert "paired anew" in str(book.problem)
    await book.add(MOWER, "hci0")
    again = load(path)
    assert (again.sources(MOWER), again.problem) == ({"hci0"}, None)


def test_what_cannot_even_be_read_is_no_empty_book(tmp_path: Path) -> None:
    (tmp_path / "bonds.json").mkdir()
    with pytest.raises(StorageError):
        load(tmp_path / "bonds.json")


STEP = st.tuples(st.sampled_from([MOWER, OTHER]), st.sampled_from(["hci0", "hci1", None]), st.booleans())


@given(st.lists(STEP, max_size=20))
async def test_a_book_is_a_set_of_pairs(steps: list[tuple[str, str | None, bool]]) -> None:
    book, pairs = BondBook(), set[tuple[str, str]]()
    for address, source, is_added in steps:
        if source is not None and is_added:
            await book.add(address, source)
            pairs.add((address, source))
        else:
            await book.remove(address, source)
            pairs = {pair for pair in pairs if pair[0] != address or source not in (None, pair[1])}
    for address in (MOWER, OTHER):
        assert book.sources(address) == {name for peer, name in pairs if peer == address}
