"""What a plugin gets from its entry: data brought up to date, secrets, a budget, a log; and that it stays so."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from core.platform.entry import EntryState
from tests.core.platform.conftest import Platform
from tests.core.platform.test_loader import write

PLUGIN = """
import dataclasses
import sys

ENTRY_VERSION = 3

class Acme:
    async def mowers(self):
        return []
    async def open(self, mower, link):
        raise LookupError
    async def close(self):
        pass

def create(context, entry):
    sys.acme_seen.append((context, entry))
    context.log.warning("signing in with %s", context.secrets.get("password"))
    context.secrets.put("token", "fresh-token")
    return Acme()

async def migrate(entry):
    if "broken" in entry.data:
        raise ValueError("cannot")
    if "half" in entry.data:
        return dataclasses.replace(entry, version=2)
    return dataclasses.replace(entry, data={"host": entry.data["address"]}, version=3)
"""


@pytest.fixture
def seen(custom: Path):
    import sys

    write(custom, code=PLUGIN, request_limit={"burst": 2, "per_day": 10})
    sys.acme_seen = []  # type: ignore[attr-defined]
    yield sys.acme_seen  # type: ignore[attr-defined]
    del sys.acme_seen  # type: ignore[attr-defined]


@pytest.fixture
def acme(seen, platform: Platform) -> Platform:
    platform.loader.scan()
    return platform


async def test_old_data_is_migrated_on_the_disk_before_the_plugin_sees_it(acme: Platform, seen, tmp_path: Path):
    record = await acme.entries.add(domain="acme", title="A", source="user", data={"address": "a"}, version=1)
    assert await acme.settled(record.entry_id) is EntryState.LOADED
    assert (seen[0][1].data, seen[0][1].version) == ({"host": "a"}, 3)
    (stored,) = json.loads((tmp_path / "entries.json").read_text())["body"]["entries"]
    assert (stored["data"], stored["version"]) == ({"host": "a"}, 3)


@pytest.mark.parametrize("data", [{"broken": 1}, {"half": 1}, {}])
async def test_a_migration_that_fails_leaves_the_data_alone(acme: Platform, seen, data):
    record = await acme.entries.add(domain="acme", title="A", source="user", data=data, version=1)
    assert await acme.settled(record.entry_id) is EntryState.MIGRATION_ERROR
    assert acme.entries.record(record.entry_id).data == data
    assert acme.entries.record(record.entry_id).version == 1
    assert acme.entries.view(record.entry_id).reason_code == "entry-migration"
    assert seen == []


async def test_secrets_budget_and_log(acme: Platform, seen, caplog: pytest.LogCaptureFixture):
    from core.domain.errors import LimitExceededError

    record = await acme.entries.add(
        domain="acme", title="A", source="user", version=3, secrets={"password": "correct horse"}
    )
    assert await acme.settled(record.entry_id) is EntryState.LOADED
    context, entry = seen[0]
    assert "correct" not in caplog.text
    assert "signing in with **REDACTED**" in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING
    assert acme.entries.secrets.for_entry(record.entry_id).get("token") == "fresh-token"
    assert "correct" not in repr(context) + repr(entry)
    await context.budget.spend(2)
    with pytest.raises(LimitExceededError):
        await context.budget.spend(3)


async def test_a_setup_that_is_on_its_way_does_not_revive_a_removed_entry(platform: Platform):
    entry = await platform.add()
    await platform.entries.update(entry, is_disabled=True)
    await platform.entries.update(entry, is_disabled=False)  # begins a set-up
    await platform.entries.remove(entry)
    before = len(platform.seen)
    for _ in range(50):
        import asyncio

        await asyncio.sleep(0)
    assert platform.entries.views() == ()
    assert len(platform.seen) == before
