"""Mowers: registered by people, found by boxes, removed for good; the box always hears the newest list."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud_relay.fleet.connection_options import encode_connection, looks_secret
from cloud_relay.fleet.hierarchy import mower_ref
from cloud_relay.fleet.views import MowerChange, NewMower
from core.domain import limits
from core.domain.access import Relation
from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError, NotFoundError
from core.domain.ids import MowerId
from core.storage.telemetry_store import DirectoryEntry
from core.sync.messages import FailedRegistration
from tests.cloud_relay.relay_parts import ABILITIES, hello, item


@pytest.fixture
async def owner(parts):
    return await parts.person("acc-a")


@pytest.fixture
async def box(parts, owner):
    return await parts.link(owner)


async def register(parts, box, name="Shaun", **changes):
    new = NewMower(name=name, edge_id=box.edge_id, domain="simulator", **changes)
    return await parts.mowers.create(box.account_id, new, await parts.mowers.edge_site(box.account_id, box.edge_id))


@pytest.mark.parametrize(
    "key", ["password", "wifiPassword", "API_KEY", "apiKey", "PIN", "access-token", "tokens", "clientSecret"]
)
def test_secret_keys(key):
    assert looks_secret(key)


@pytest.mark.parametrize("key", ["spinning", "host", "keypad_rows", "tokenizer", "pinned", "time_scale", "authority"])
def test_harmless_keys(key):
    assert not looks_secret(key)


def test_secret_deep_inside_is_named():
    with pytest.raises(InvalidInputError) as caught:
        encode_connection({"host": "h", "cloud": {"accounts": [{"user": "u", "password": "p"}]}})
    assert [m.field for m in caught.value.mistakes] == ["connection.cloud.accounts.0.password"]


@settings(max_examples=50)
@given(st.integers(min_value=0, max_value=6000))
def test_connection_size(size):
    options = {"a": "x" * size}
    if size + len('{"a":""}') <= limits.CONNECTION_OPTIONS_BYTES:
        assert len(encode_connection(options)) == size + len('{"a":""}')
    else:
        with pytest.raises(InvalidInputError):
            encode_connection(options)


async def test_registered_mower_reaches_its_box(parts, box):
    mower_id = await register(parts, box, connection={"time_scale": 30})
    message = parts.broker.registrations[box.edge_id]
    assert [(m.mower_id, m.domain, m.connection, m.account_id) for m in message.mowers] == [
        (mower_id, "simulator", {"time_scale": 30}, "acc-a")
    ]
    assert message.is_linked
    assert message.mowers[0].time_zone == "UTC"
    assert parts.store.entries[mower_id] == DirectoryEntry(
        mower_id=mower_id, account_id="acc-a", edge_id=box.edge_id, name="Shaun"
    )


async def test_versions_only_grow(parts, box):
    seen = [parts.broker.registrations[box.edge_id].version]
    for name in ("a", "b", "c"):
        parts.clock.advance(1)
        mower_id = await register(parts, box, name)
        seen.append(parts.broker.registrations[box.edge_id].version)
    await parts.mowers.change("acc-a", mower_id, MowerChange(name="d"))
    seen.append(parts.broker.registrations[box.edge_id].version)
    assert seen == sorted(set(seen))
    assert parts.broker.registrations[box.edge_id].mowers[-1].name == "d"


async def test_concurrent_changes_end_with_the_newest_list(parts, box):
    await asyncio.gather(*(register(parts, box, f"m{n}") for n in range(8)))
    assert len(parts.broker.registrations[box.edge_id].mowers) == 8


async def test_list_that_could_not_leave_is_sent_at_the_next_hello(parts, box):
    parts.broker.is_away = True
    mower_id = await register(parts, box)
    parts.broker.is_away = False
    assert parts.broker.registrations[box.edge_id].mowers == ()
    await parts.inventory.take(box.edge_id, hello(parts.clock))
    assert [m.mower_id for m in parts.broker.registrations[box.edge_id].mowers] == [mower_id]


async def test_list_that_could_not_leave_is_sent_when_the_broker_is_back(parts, box):
    parts.broker.is_away = True
    mower_id = await register(parts, box)
    parts.broker.is_away = False
    await parts.registrar.on_broker_connected()
    message = parts.broker.registrations[box.edge_id]
    assert [m.mower_id for m in message.mowers] == [mower_id]
    await parts.registrar.on_broker_connected()
    assert parts.broker.registrations[box.edge_id] is message


async def test_quota(parts, box):
    for n in range(limits.MOWERS_PER_ACCOUNT):
        await register(parts, box, f"m{n}")
    with pytest.raises(LimitExceededError):
        await register(parts, box)
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("found")))
    assert len(await parts.catalog.mowers("acc-a")) == limits.MOWERS_PER_ACCOUNT
    view = await parts.registry.view("acc-a", box.edge_id)
    assert [n.mower_id for n in view.refused_mowers] == ["found"]


async def test_another_accounts_box_is_not_there(parts, box):
    with pytest.raises(NotFoundError):
        await parts.mowers.edge_site("acc-b", box.edge_id)


async def test_adoption(parts, box, owner):
    facts = await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1")))
    assert facts is not None
    view = await parts.catalog.mower("acc-a", MowerId("mower-1"))
    assert (view.name, view.vendor, view.serial, view.model) == ("Shaun", "acme", "S1", "A1")
    assert view.capabilities == ABILITIES
    assert [a.area_id for a in view.areas] == ["front"]
    assert view.site_id == (await parts.registry.view("acc-a", box.edge_id)).site_id
    assert parts.store.entries["mower-1"].edge_id == box.edge_id
    assert [m.mower_id for m in parts.broker.registrations[box.edge_id].mowers] == ["mower-1"]
    assert parts.broker.registrations[box.edge_id].mowers[0].domain is None
    assert await parts.rights.is_allowed(owner, Relation.CAN_CONTROL, mower_ref(MowerId("mower-1")))


async def test_repeated_hello_changes_nothing(parts, box):
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1")))
    before = (await parts.catalog.mowers("acc-a"), parts.broker.registrations[box.edge_id].version)
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1")))
    assert (await parts.catalog.mowers("acc-a"), parts.broker.registrations[box.edge_id].version) == before


async def test_known_mower_is_refreshed_and_keeps_its_name(parts, box):
    mower_id = await register(parts, box, "My name")
    await parts.inventory.take(box.edge_id, hello(parts.clock, item(mower_id, "S9", name="Vendor name")))
    view = await parts.catalog.mower("acc-a", mower_id)
    assert (view.name, view.serial, view.capabilities) == ("My name", "S9", ABILITIES)


async def test_a_box_cannot_take_another_accounts_mower(parts, box):
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1")))
    thief = await parts.link(await parts.person("acc-b"), "box-fingerprint-2")
    await parts.inventory.take(thief.edge_id, hello(parts.clock, item("mower-1", "S2", name="stolen")))
    view = await parts.catalog.mower("acc-a", MowerId("mower-1"))
    assert (view.name, view.serial, view.edge_id) == ("Shaun", "S1", box.edge_id)
    assert await parts.catalog.mowers("acc-b") == []
    assert parts.store.entries["mower-1"].account_id == "acc-a"
    refused = (await parts.registry.view("acc-b", thief.edge_id)).refused_mowers
    assert [n.mower_id for n in refused] == ["mower-1"]
    assert "acc-a" not in refused[0].reason


async def test_a_second_box_of_the_account_cannot_move_a_mower(parts, box, owner):
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1")))
    second = await parts.link(owner, "box-fingerprint-2")
    await parts.inventory.take(second.edge_id, hello(parts.clock, item("mower-1")))
    assert (await parts.catalog.mower("acc-a", MowerId("mower-1"))).edge_id == box.edge_id


async def test_same_serial_is_one_mower(parts, box, owner):
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1", "S1")))
    second = await parts.link(owner, "box-fingerprint-2")
    await parts.inventory.take(second.edge_id, hello(parts.clock, item("mower-2", "S1"), item("mower-3", "S3")))
    assert {m.mower_id for m in await parts.catalog.mowers("acc-a")} == {"mower-1", "mower-3"}
    view = await parts.registry.view("acc-a", second.edge_id)
    assert [n.mower_id for n in view.duplicate_serials] == ["mower-2"]
    other = await parts.link(await parts.person("acc-b"), "box-fingerprint-3")
    await parts.inventory.take(other.edge_id, hello(parts.clock, item("mower-4", "S1")))  # sold on: another account
    assert [m.mower_id for m in await parts.catalog.mowers("acc-b")] == ["mower-4"]


async def test_registered_mower_that_turns_out_to_be_known(parts, box):
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1", "S1")))
    mower_id = await register(parts, box)
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1", "S1"), item(mower_id, "S1")))
    assert (await parts.catalog.mower("acc-a", mower_id)).serial is None
    view = await parts.registry.view("acc-a", box.edge_id)
    assert [n.mower_id for n in view.duplicate_serials] == [mower_id]


async def test_failed_setup_is_shown_and_then_forgotten(parts, box):
    mower_id = await register(parts, box)
    failed = FailedRegistration(mower_id=mower_id, reason="no such integration")
    await parts.inventory.take(box.edge_id, hello(parts.clock, failed=(failed,)))
    assert (await parts.catalog.mower("acc-a", mower_id)).setup_error == "no such integration"
    assert [n.reason for n in (await parts.registry.view("acc-a", box.edge_id)).failed_registrations] == [failed.reason]
    await parts.inventory.take(box.edge_id, hello(parts.clock, item(mower_id)))
    assert (await parts.catalog.mower("acc-a", mower_id)).setup_error is None


async def test_failure_of_a_foreign_mower_is_not_written(parts, box):
    mower_id = await register(parts, box)
    thief = await parts.link(await parts.person("acc-b"), "box-fingerprint-2")
    failed = FailedRegistration(mower_id=mower_id, reason="boo")
    await parts.inventory.take(thief.edge_id, hello(parts.clock, failed=(failed,)))
    assert (await parts.catalog.mower("acc-a", mower_id)).setup_error is None


async def test_deleted_mower_is_purged_and_not_adopted_again(parts, box, owner):
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1")))
    await parts.mowers.delete("acc-a", MowerId("mower-1"))
    assert parts.store.purged == ["mower-1"]
    message = parts.broker.registrations[box.edge_id]
    assert (message.mowers, message.removed) == ((), ("mower-1",))
    assert not await parts.rights.is_allowed(owner, Relation.CAN_VIEW, mower_ref(MowerId("mower-1")))
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1")))  # has not heard of it yet
    assert await parts.catalog.mowers("acc-a") == []
    assert parts.broker.registrations[box.edge_id] == message  # nothing new to say: no loop of hello and list
    assert [n.mower_id for n in (await parts.registry.view("acc-a", box.edge_id)).refused_mowers] == ["mower-1"]
    await parts.inventory.take(box.edge_id, hello(parts.clock))  # has heard
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1")))  # and was set up there again
    assert [m.mower_id for m in await parts.catalog.mowers("acc-a")] == ["mower-1"]


async def test_foreign_mower_is_not_there(parts, box):
    mower_id = await register(parts, box)
    for attempt in (
        parts.catalog.mower("acc-b", mower_id),
        parts.mowers.change("acc-b", mower_id, MowerChange(name="x")),
        parts.mowers.set_groups("acc-b", mower_id, ()),
        parts.mowers.delete("acc-b", mower_id),
        parts.mowers.placement("acc-b", mower_id),
    ):
        with pytest.raises(NotFoundError):
            await attempt
    assert (await parts.catalog.mower("acc-a", mower_id)).name == "Shaun"


async def test_connection_of_a_found_mower_is_the_boxs(parts, box):
    await parts.inventory.take(box.edge_id, hello(parts.clock, item("mower-1")))
    with pytest.raises(ConflictError):
        await parts.mowers.change("acc-a", MowerId("mower-1"), MowerChange(connection={"host": "h"}))


async def test_directory_is_made_right_at_start(parts, box):
    mower_id = await register(parts, box)
    parts.store.entries = {
        "gone": DirectoryEntry(mower_id=MowerId("gone"), account_id="acc-a", edge_id=box.edge_id, name="old")
    }
    await parts.mowers.reconcile_directory()
    assert set(parts.store.entries) == {mower_id}
    assert parts.store.purged == ["gone"]


async def test_what_a_box_says_of_its_storage_is_shown(parts, box):
    notices = ("The disk is nearly full, and not of telemetry: make room on it.", "x" * 900)
    await parts.inventory.take(box.edge_id, hello(parts.clock, notices=notices))
    shown = (await parts.registry.view("acc-a", box.edge_id)).notices
    assert shown == (notices[0], "x" * 400)
    await parts.inventory.take(box.edge_id, hello(parts.clock))
    assert (await parts.registry.view("acc-a", box.edge_id)).notices == ()
