"""Handing over: what travels, what does not, and that it happens once or not at all."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog.testing

from core.domain.errors import ConflictError, InvalidInputError, NotFoundError, StorageError, UnavailableError
from core.domain.ids import EntryId
from core.platform.entry import EntryState
from tests.edge_agent.handover.world import PIN, World, open_world
from tests.fakes.clock import ManualClock

ADDRESS = "C0:00:00:00:00:01"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def van(tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    async with open_world(tmp_path / "van", clock) as world:
        yield world


@pytest.fixture
async def home(tmp_path: Path, clock: ManualClock) -> AsyncIterator[World]:
    async with open_world(tmp_path / "home", clock) as world:
        yield world


async def take(world: World, text: str, *, even_if_missing: bool = False) -> tuple[EntryId, ...]:
    return (await world.desk.take(text, even_if_missing=even_if_missing))[1]


async def test_an_entry_travels_whole(van: World, home: World):
    entry_id = await van.add("a", options={"pace": 3})
    (mower,) = van.registry.of_entry(entry_id)
    await van.registry.rename(mower.mower_id, "Shaun")
    with structlog.testing.capture_logs() as said:
        text = van.pack(entry_id, key=await home.key())
        look = await home.desk.look(text)
        assert home.entries.records() == ()  # looking imports nothing
        (new,) = await take(home, text)
    assert PIN not in text + str(said) + repr(look)
    assert await home.settled(new) is EntryState.LOADED
    before, after = van.entries.record(entry_id), home.entries.record(new)
    for name in ("domain", "title", "unique_id", "data", "options", "version"):
        assert getattr(before, name) == getattr(after, name)
    assert (after.source, after.needs_pairing) == ("import", False)
    assert home.secrets.read(new) == {"pin": PIN}
    await home.adopt(new)
    (arrived,) = home.registry.of_entry(new)
    assert (arrived.name, arrived.has_given_name) == ("Shaun", True)
    assert van.entries.record(entry_id) == before  # an export changes nothing


async def test_only_once_and_it_says_when(van: World, home: World, clock: ManualClock):
    text = van.pack(await van.add("a"), key=await home.key())
    (new,) = await take(home, text)
    clock.advance(3600)
    await home.entries.remove(new)  # also when the entry has gone meanwhile
    for again in (home.desk.look(text), take(home, text)):
        with pytest.raises(ConflictError, match=r"was imported here at 2026-06-01 08:00 UTC \(Mower a\)"):
            await again
    assert home.entries.records() == ()


async def test_once_over_restarts(van: World, tmp_path: Path, clock: ManualClock):
    async with open_world(tmp_path / "other", clock) as home:
        text = van.pack(await van.add("a"), key=await home.key())
        await take(home, text)
    async with open_world(tmp_path / "other", clock) as home:
        with pytest.raises(ConflictError, match="was imported here"):
            await take(home, text)
        assert len(home.entries.records()) == 1


async def test_two_at_once_are_one(van: World, home: World):
    text = van.pack(await van.add("a"), key=await home.key())
    results = await asyncio.gather(take(home, text), take(home, text), return_exceptions=True)
    assert sorted(type(one).__name__ for one in results) == ["ConflictError", "tuple"]
    assert len(home.entries.records()) == 1


async def test_a_power_cut_at_any_step_leaves_all_or_nothing(van: World, home: World, tmp_path: Path, clock):
    text = van.pack(await van.add("a"), await van.add("b"), key=await home.key())
    count = itertools.count()
    home.store.on_step = home.secrets.on_step = lambda: home.copy_to(tmp_path / f"cut-{next(count)}")
    await take(home, text)
    home.store.on_step = home.secrets.on_step = lambda: None
    cuts = next(count)
    assert cuts >= 6
    found = []
    for cut in range(cuts):
        async with open_world(tmp_path / f"cut-{cut}", clock) as after:
            records = after.entries.records()
            found.append(len(records))
            secrets = [after.secrets.read(record.entry_id) for record in records]
            assert secrets == [{"pin": PIN}] * len(records)
            left = set(after.secrets._plain) - {record.entry_id for record in records}
            assert left == {"handover"}, "secrets of entries that never came"
            if records:
                with pytest.raises(ConflictError, match="was imported here"):
                    await take(after, text)
            else:
                assert len(await take(after, text)) == 2
    assert set(found) == {0, 2}


async def test_a_full_disk_imports_nothing(van: World, home: World):
    text = van.pack(await van.add("a"), key=await home.key())
    steps = itertools.count()

    def fail() -> None:
        if next(steps) == 4:  # before the last write
            raise StorageError("no room")

    home.store.on_step = home.secrets.on_step = fail
    with pytest.raises(StorageError):
        await take(home, text)
    home.store.on_step = home.secrets.on_step = lambda: None
    assert home.entries.records() == home.entries.views() == ()
    assert set(home.secrets._plain) == {"handover"}
    assert len(await take(home, text)) == 1


async def test_a_caller_that_hangs_up_does_not_stop_it(van: World, home: World):
    text = van.pack(await van.add("a"), key=await home.key())
    taking = asyncio.create_task(take(home, text))
    while not home.entries.records():
        await asyncio.sleep(0)
    taking.cancel()
    await asyncio.wait({taking})
    await home.settled(home.entries.records()[0].entry_id)
    with pytest.raises(ConflictError, match="was imported here"):
        await take(home, text)


async def test_what_the_box_has_is_refused_whole(van: World, home: World):
    key = await home.key()
    both = van.pack(await van.add("a"), await van.add("b"), key=key)
    own = await home.add("b")
    with pytest.raises(ConflictError, match="already; nothing was imported"):
        await take(home, both)
    assert [record.entry_id for record in home.entries.records()] == [own]
    await home.entries.remove(own)  # its mower stays known, and free
    assert len(await take(home, both)) == 2


async def test_a_mower_is_refused_also_under_another_entry(van: World, home: World):
    """Another integration, or another account, that reaches the same machine."""
    text = van.pack(await van.add("a"), key=await home.key())
    own = await home.entries.add(domain="misbehaving", title="Other", source="user", data={"serial": "a"})
    await home.settled(own.entry_id)
    await home.adopt(own.entry_id)
    with pytest.raises(ConflictError, match="has the mower"):
        await take(home, text)


async def test_expired_and_foreign_bundles(van: World, home: World, clock: ManualClock):
    entry_id = await van.add("a")
    with pytest.raises(ConflictError, match="is for another box"):
        await take(home, van.pack(entry_id, key=await van.key()))
    text = van.pack(entry_id, key=await home.key(), days=14)
    clock.advance(14 * 86_400)
    with pytest.raises(ConflictError, match="expired at 2026-06-15"):
        await take(home, text)
    with pytest.raises(InvalidInputError):
        await take(home, "{}")
    assert home.entries.records() == ()


async def test_a_box_that_does_not_know_the_time_judges_nothing(van: World, home: World):
    text = van.pack(await van.add("a"), key=await home.key())
    home.is_clock_right = False
    with pytest.raises(UnavailableError, match="time"):
        await take(home, text)


async def test_a_missing_integration_is_named(van: World, tmp_path: Path, clock: ManualClock):
    async with open_world(tmp_path / "bare", clock, domains=False) as home:
        text = van.pack(await van.add("a"), key=await home.key())
        (missing,) = (await home.desk.look(text)).missing
        assert (missing.domain, "pip install" in missing.remedy) == ("misbehaving", True)
        with pytest.raises(ConflictError, match="misbehaving") as refused:
            await take(home, text)
        assert "pip install" in refused.value.advice
        assert home.entries.records() == ()
        (new,) = await take(home, text, even_if_missing=True)
        assert await home.settled(new) is EntryState.ERROR


async def test_a_bonded_mower_waits_for_pairing_and_nothing_is_tried(van: World, home: World):
    van.bonds.add(ADDRESS)
    text = van.pack(await van.add("a", data={"address": ADDRESS}), key=await home.key())
    asked: list[str] = []

    async def ask(record) -> None:
        asked.append(record.title)

    home.entries.on_auth_failed(ask)
    (new,) = await take(home, text)
    assert await home.settled(new) is EntryState.AUTH_FAILED
    view = home.entries.view(new)
    assert (view.reason_code, view.next_try_at, home.naps.naps) == ("needs-pairing", None, [])
    assert "paired with this" in (view.reason or "")
    assert asked == ["Mower a"]
    await home.entries.reload(new)
    assert home.entries.view(new).state is EntryState.AUTH_FAILED
    await home.entries.update(new, needs_pairing=False)
    await home.entries.reload(new)
    assert home.entries.view(new).state is EntryState.LOADED


async def test_secrets_that_cannot_be_read_are_not_left_out_in_silence(van: World, tmp_path: Path, clock: ManualClock):
    entry_id = await van.add("a")
    van.copy_to(tmp_path / "copy")
    (tmp_path / "copy" / "machine-id").write_text("another machine")
    async with open_world(tmp_path / "copy", clock) as copy:
        with pytest.raises(ConflictError, match="cannot be opened"):
            copy.pack(entry_id, key=await van.key())
        assert await copy.key() != await van.key(), "a copy of the folder must not open what is sealed for the box"


async def test_only_what_there_is(van: World, home: World):
    with pytest.raises(NotFoundError):
        van.pack(EntryId("none"), key=await home.key())
    with pytest.raises(InvalidInputError):
        van.pack(await van.add("a"), key="AAAA")
