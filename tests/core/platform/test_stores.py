"""Files of the plugin platform: atomic, private, never overwritten when they make no sense."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from core.domain.errors import DatabaseNewerError, LimitExceededError, StorageError
from core.domain.ids import EntryId
from core.platform.durable_file import DurableFile
from core.platform.entry import EntryRecord, IgnoredDevice
from core.platform.entry_store import EntryStore
from core.platform.secret_store import MAX_SECRETS, MAX_VALUE, SecretStore
from tests.fakes.clock import START, ManualClock

ONE, TWO = EntryId("one"), EntryId("two")


def record(entry_id: str = "one", **fields) -> EntryRecord:
    return EntryRecord(
        entry_id=EntryId(entry_id), domain="acme", title="Acme", source="user", created_at=START, **fields
    )


def entry_store(folder: Path) -> EntryStore:
    store = EntryStore(folder / "entries.json", ManualClock())
    store.load()
    return store


def secret_store(folder: Path) -> SecretStore:
    store = SecretStore(folder, ManualClock(), machine_id=folder / "machine-id")
    store.load()
    return store


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_entries_come_back(tmp_path: Path):
    store = entry_store(tmp_path)
    entry = record(data={"host": "a", "deep": [1, {"b": None}]}, options={"x": 1.5}, unique_id="u")
    await store.put(entry)
    await store.put(record("two"))
    await store.remove(TWO)
    await store.ignore(IgnoredDevice(domain="acme", unique_id="noisy", title="N", ignored_at=START))
    again = entry_store(tmp_path)
    assert again.entries() == (entry,)
    assert again.is_ignored("acme", "noisy")
    assert again.problem is None


async def test_adding_the_device_ends_its_ignoring(tmp_path: Path):
    store = entry_store(tmp_path)
    await store.ignore(IgnoredDevice(domain="acme", unique_id="u", title="N", ignored_at=START))
    await store.put(record(unique_id="u"))
    assert not entry_store(tmp_path).is_ignored("acme", "u")


async def test_files_are_for_the_agent_only(tmp_path: Path):
    os.umask(os.umask(0))
    await entry_store(tmp_path).put(record())
    secrets = secret_store(tmp_path)
    secrets.for_entry(ONE).put("pin", "1234")
    await secrets.flush()
    secrets.close()
    for name in ("entries.json", "secrets.json", "secrets.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert names(tmp_path) == ["entries.json", "secrets.json", "secrets.key"]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff\xfe", b"[]", b'{"format": 1, "body": 7}', b'{"format": 1, "body": {"entries": [{}]}}']
)
async def test_a_corrupt_file_is_kept_aside(tmp_path: Path, text: bytes):
    (tmp_path / "entries.json").write_bytes(text)
    store = entry_store(tmp_path)
    assert store.entries() == ()
    assert store.problem is not None
    (aside,) = (tmp_path / name for name in names(tmp_path) if ".corrupt-" in name)
    assert aside.read_bytes() == text
    assert aside.name in store.problem
    await store.put(record())
    assert aside.read_bytes() == text
    (tmp_path / "entries.json").write_bytes(text)
    entry_store(tmp_path)
    assert len(names(tmp_path)) == 2


def test_a_newer_format_is_refused_and_left(tmp_path: Path):
    text = json.dumps({"format": 3, "body": {"what": "ever"}})
    (tmp_path / "entries.json").write_text(text)
    with pytest.raises(DatabaseNewerError):
        entry_store(tmp_path)
    assert (tmp_path / "entries.json").read_text() == text


async def test_a_failed_write_changes_nothing(tmp_path: Path):
    folder = tmp_path / "config"
    store = entry_store(folder)
    await store.put(record())
    folder.rename(tmp_path / "gone")
    folder.write_text("a file where the folder was")
    with pytest.raises(StorageError):
        await store.put(record("two"))
    with pytest.raises(StorageError):
        await store.remove(ONE)
    assert [entry.entry_id for entry in store.entries()] == [ONE]


def test_an_older_write_never_replaces_a_newer_one(tmp_path: Path):
    file = DurableFile(tmp_path / "f")
    first, second = file.ask(), file.ask()
    file.write_now(b"new", second)
    file.write_now(b"old", first)
    assert file.read() == b"new"


async def test_many_writes_at_once_end_with_the_last(tmp_path: Path):
    file = DurableFile(tmp_path / "f")
    await asyncio.gather(*(file.write(str(number).encode()) for number in range(20)))
    assert file.read() == b"19"
    assert names(tmp_path) == ["f"]


async def test_secrets_come_back_and_are_not_readable(tmp_path: Path):
    store = secret_store(tmp_path)
    store.for_entry(ONE).put("password", "correct horse")
    store.for_entry(TWO).put("password", "other")
    await store.flush()
    store.close()
    text = (tmp_path / "secrets.json").read_text()
    assert "correct" not in text
    assert "password" not in text
    again = secret_store(tmp_path)
    assert again.for_entry(ONE).get("password") == "correct horse"
    assert again.for_entry(ONE).get("absent") is None
    again.remove(ONE)
    await again.flush()
    again.close()
    assert set(json.loads((tmp_path / "secrets.json").read_text())["body"]) == {"two"}


@pytest.mark.parametrize("lost", ["machine-id", "secrets.key"])
async def test_another_machine_cannot_open_them(tmp_path: Path, lost: str):
    (tmp_path / "machine-id").write_text("machine one")
    store = secret_store(tmp_path)
    store.for_entry(ONE).put("password", "correct horse")
    store.for_entry(TWO).put("password", "other")
    await store.flush()
    store.close()
    sealed = json.loads((tmp_path / "secrets.json").read_text())["body"]["two"]
    (tmp_path / lost).unlink()
    moved = secret_store(tmp_path)
    assert moved.for_entry(ONE).get("password") is None
    moved.for_entry(ONE).put("password", "typed again")
    await moved.flush()
    moved.close()
    body = json.loads((tmp_path / "secrets.json").read_text())["body"]
    assert body["two"] == sealed  # left as it was: the right key may come back
    again = secret_store(tmp_path)
    assert again.for_entry(ONE).get("password") == "typed again"
    again.close()


async def test_secrets_cannot_be_put_under_another_entry(tmp_path: Path):
    store = secret_store(tmp_path)
    store.for_entry(ONE).put("password", "correct horse")
    await store.flush()
    store.close()
    tree = json.loads((tmp_path / "secrets.json").read_text())
    tree["body"]["two"] = tree["body"].pop("one")
    (tmp_path / "secrets.json").write_text(json.dumps(tree))
    again = secret_store(tmp_path)
    assert again.for_entry(TWO).get("password") is None
    again.close()


async def test_secrets_are_bounded(tmp_path: Path):
    store = secret_store(tmp_path)
    secrets = store.for_entry(ONE)
    for bad in (("", "v"), ("n" * 65, "v"), ("n", "v" * (MAX_VALUE + 1)), ("n", 7), (None, "v")):
        with pytest.raises(LimitExceededError):
            secrets.put(*bad)
    for number in range(MAX_SECRETS):
        secrets.put(str(number), "v")
    with pytest.raises(LimitExceededError):
        secrets.put("more", "v")
    await store.flush()
    store.close()


def test_a_damaged_key_is_not_replaced(tmp_path: Path):
    (tmp_path / "secrets.key").write_bytes(b"short")
    with pytest.raises(StorageError):
        secret_store(tmp_path)
    assert (tmp_path / "secrets.key").read_bytes() == b"short"


async def test_a_secret_that_is_not_on_the_disk_is_said_so(tmp_path: Path):
    folder = tmp_path / "config"
    store = secret_store(folder)
    folder.rename(tmp_path / "gone")
    folder.write_text("a file where the folder was")
    store.for_entry(ONE).put("pin", "1234")
    with pytest.raises(StorageError):
        await store.flush()
    folder.unlink()
    await store.flush()
    store.close()
    assert "one" in json.loads((folder / "secrets.json").read_text())["body"]
