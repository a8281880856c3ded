"""Linking and unlinking: the device flow, its limits, and the end from either side."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from cloud_relay.edges.links import CODE_ALPHABET, normalise_code
from cloud_relay.edges.tables import EDGES, LINK_REQUESTS
from cloud_relay.edges.views import EdgeChange, LinkConfirmation
from cloud_relay.fleet.views import NewMower, NewSite
from core.domain.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RateLimitedError,
    UnauthenticatedError,
    UnavailableError,
)
from core.domain.ids import BootId, MowerId
from core.sync.linking import LinkEnd, LinkGrant, LinkPending, LinkRequest
from core.sync.messages import Status
from tests.cloud_relay.relay_parts import hello, item

WISH = LinkRequest(name="Shed", version="1.0", fingerprint="box-fingerprint-1")


@pytest.fixture
async def owner(parts):
    return await parts.person("acc-a")


async def status_of(parts, offer):
    answer = await parts.links.poll(offer.device_code)
    return answer.error if isinstance(answer, LinkPending) else answer


async def test_the_whole_flow(parts, owner):
    offer = await parts.links.request(WISH, "10.0.0.9")
    assert offer.expires_in == 600
    assert offer.interval == 5
    assert offer.verification_uri_complete.endswith(offer.user_code)
    assert set(offer.user_code) <= set(CODE_ALPHABET + "-")
    assert await status_of(parts, offer) == "authorization_pending"
    seen = await parts.links.preview(owner, offer.user_code.lower().replace("-", " "))
    assert (seen.name, seen.version, seen.remote) == ("Shed", "1.0", "10.0.0.9")
    edge_id = await parts.links.confirm(owner, offer.user_code, LinkConfirmation(name="Garden shed"))
    parts.clock.advance(5)
    grant = await status_of(parts, offer)
    assert isinstance(grant, LinkGrant)
    assert (grant.edge_id, grant.account_id) == (edge_id, "acc-a")
    assert parts.broker.credentials == {edge_id: grant.credential}
    assert len(grant.credential) >= 43
    assert [k["kid"] for k in grant.relay_keys] == [parts.key.key_id]
    assert "d" not in grant.relay_keys[0]
    assert (await parts.registry.view("acc-a", edge_id)).name == "Garden shed"
    assert parts.registry.account_of(edge_id) == "acc-a"


async def test_secrets_are_kept_as_hashes_only(parts, owner):
    offer = await parts.links.request(WISH, "10.0.0.9")
    await parts.links.confirm(owner, offer.user_code, LinkConfirmation())
    grant = await status_of(parts, offer)
    async with parts.database.read() as connection:
        rows = [*(await connection.execute(sa.select(EDGES))), *(await connection.execute(sa.select(LINK_REQUESTS)))]
    assert len(rows) == 2
    assert grant.credential not in repr(rows)
    assert offer.device_code not in repr(rows)


async def test_polling_too_fast_slows_down(parts):
    offer = await parts.links.request(WISH, "r")
    assert await status_of(parts, offer) == "authorization_pending"
    parts.clock.advance(1)
    answer = await parts.links.poll(offer.device_code)
    assert answer == LinkPending(error="slow_down", interval=10)
    parts.clock.advance(6)
    assert await status_of(parts, offer) == "slow_down"
    parts.clock.advance(15)
    assert await status_of(parts, offer) == "authorization_pending"


async def test_denied(parts, owner):
    offer = await parts.links.request(WISH, "r")
    await parts.links.deny(owner, offer.user_code)
    assert await status_of(parts, offer) == "access_denied"
    with pytest.raises(NotFoundError):
        await parts.links.confirm(owner, offer.user_code, LinkConfirmation())


async def test_expired(parts, owner):
    offer = await parts.links.request(WISH, "r")
    parts.clock.advance(600)
    assert await status_of(parts, offer) == "expired_token"
    with pytest.raises(NotFoundError):
        await parts.links.preview(owner, offer.user_code)
    assert await parts.links.tidy() == 1


async def test_unknown_device_code(parts):
    answer = await parts.links.poll("nobody")
    assert isinstance(answer, LinkPending)
    assert answer.error == "expired_token"


async def test_five_wrong_codes(parts, owner):
    offer = await parts.links.request(WISH, "r")
    for _ in range(5):
        with pytest.raises(NotFoundError):
            await parts.links.preview(owner, "BCDF-BCDF")
    with pytest.raises(RateLimitedError) as caught:
        await parts.links.confirm(owner, offer.user_code, LinkConfirmation())
    assert 0 < caught.value.retry_after_s <= 600
    other = await parts.person("acc-b")
    assert (await parts.links.preview(other, offer.user_code)).name == "Shed"
    parts.clock.advance(599)
    with pytest.raises(RateLimitedError):
        await parts.links.preview(owner, "BCDF-BCDF")


async def test_requests_per_address(parts):
    for n in range(10):
        await parts.links.request(LinkRequest(name="b", version="1", fingerprint=f"fingerprint-{n:06}"), "10.0.0.1")
    with pytest.raises(RateLimitedError):
        await parts.links.request(WISH, "10.0.0.1")
    await parts.links.request(WISH, "10.0.0.2")


@pytest.mark.parametrize("fingerprint", ["", "short", "x" * 129, "with\nnewline-and-more"])
async def test_fingerprint_must_be_one(parts, fingerprint):
    with pytest.raises(InvalidInputError):
        await parts.links.request(LinkRequest(name="b", version="1", fingerprint=fingerprint), "r")


async def test_one_account_at_a_time(parts, owner):
    early = await parts.links.request(WISH, "r")
    await parts.link(owner)
    with pytest.raises(ConflictError):
        await parts.links.request(WISH, "r")
    with pytest.raises(ConflictError):  # asked before the other link was made
        await parts.links.confirm(await parts.person("acc-b"), early.user_code, LinkConfirmation())


async def test_site_of_another_account(parts, owner):
    foreign = await parts.sites.create("acc-b", NewSite(name="Theirs"))
    offer = await parts.links.request(WISH, "r")
    with pytest.raises(NotFoundError):
        await parts.links.confirm(owner, offer.user_code, LinkConfirmation(site_id=foreign.site_id))
    assert await parts.registry.views("acc-b", frozenset({foreign.site_id})) == ()


async def test_lost_answer_is_given_again_until_the_box_connects(parts, owner):
    offer = await parts.links.request(WISH, "r")
    await parts.links.confirm(owner, offer.user_code, LinkConfirmation())
    first = await status_of(parts, offer)
    parts.clock.advance(20)
    second = await status_of(parts, offer)
    assert second.edge_id == first.edge_id
    assert second.credential != first.credential
    assert parts.broker.credentials[first.edge_id] == second.credential
    await parts.registry.take_status(first.edge_id, Status(online=True, boot_id=BootId("b"), at=parts.clock.now()))
    parts.clock.advance(20)
    assert await status_of(parts, offer) == "expired_token"
    assert parts.broker.credentials[first.edge_id] == second.credential


async def test_confirmed_but_never_fetched_goes_away(parts, owner):
    offer = await parts.links.request(WISH, "r")
    edge_id = await parts.links.confirm(owner, offer.user_code, LinkConfirmation())
    parts.clock.advance(601)
    await parts.links.tidy()
    with pytest.raises(NotFoundError):
        await parts.registry.view("acc-a", edge_id)
    await parts.links.request(WISH, "r")


async def test_fetched_link_outlives_its_request(parts, owner):
    grant = await parts.link(owner)
    parts.clock.advance(601)
    await parts.links.tidy()
    assert (await parts.registry.view("acc-a", grant.edge_id)).edge_id == grant.edge_id


async def test_end_by_people(parts, owner):
    grant = await parts.link(owner)
    await parts.inventory.take(grant.edge_id, hello(parts.clock, item("mower-1")))
    parts.broker.log.clear()
    heard = []
    publish = parts.broker.publish_registrations

    async def listen(edge_id, message):
        heard.append(message)
        await publish(edge_id, message)

    parts.registrar._publish = listen
    await parts.registry.end("acc-a", grant.edge_id)
    assert [m.is_linked for m in heard] == [False]
    assert [step for step, _ in parts.broker.log] == ["registrations", "throw_out", "clear"]
    assert parts.broker.credentials == {}
    assert parts.registry.account_of(grant.edge_id) is None
    assert (await parts.catalog.mower("acc-a", MowerId("mower-1"))).edge_id is None
    assert parts.store.entries["mower-1"].edge_id is None
    assert await parts.inventory.take(grant.edge_id, hello(parts.clock, item("mower-1"))) is None


async def test_linked_again_brings_its_mowers_back(parts, owner):
    first = await parts.link(owner)
    await parts.inventory.take(first.edge_id, hello(parts.clock, item("mower-1")))
    await parts.registry.end("acc-a", first.edge_id)
    second = await parts.link(owner)
    await parts.inventory.take(second.edge_id, hello(parts.clock, item("mower-1")))
    assert (await parts.catalog.mower("acc-a", MowerId("mower-1"))).edge_id == second.edge_id
    assert parts.store.entries["mower-1"].edge_id == second.edge_id


async def test_end_by_the_box(parts, owner):
    grant = await parts.link(owner)
    for edge_id, credential in ((grant.edge_id, "wrong"), ("nobody", grant.credential), (grant.edge_id, "")):
        with pytest.raises(UnauthenticatedError):
            await parts.registry.end_by_box(LinkEnd(edge_id=edge_id, credential=credential))
    assert parts.registry.account_of(grant.edge_id) == "acc-a"
    await parts.registry.end_by_box(LinkEnd(edge_id=grant.edge_id, credential=grant.credential))
    assert parts.registry.account_of(grant.edge_id) is None
    await parts.links.request(WISH, "r")


async def test_unclaimed_edge_has_no_credential_to_guess(parts, owner):
    offer = await parts.links.request(WISH, "r")
    edge_id = await parts.links.confirm(owner, offer.user_code, LinkConfirmation())
    with pytest.raises(UnauthenticatedError):
        await parts.registry.end_by_box(LinkEnd(edge_id=edge_id, credential=""))


async def test_foreign_box_is_not_there(parts, owner):
    grant = await parts.link(owner)
    for attempt in (
        parts.registry.view("acc-b", grant.edge_id),
        parts.registry.change("acc-b", grant.edge_id, EdgeChange(name="x")),
        parts.registry.end("acc-b", grant.edge_id),
        parts.registry.site_of("acc-b", grant.edge_id),
    ):
        with pytest.raises(NotFoundError):
            await attempt
    assert parts.registry.account_of(grant.edge_id) == "acc-a"


async def test_how_a_box_is_doing(parts, owner):
    grant = await parts.link(owner)
    view = await parts.registry.view("acc-a", grant.edge_id)
    assert (view.is_online, view.last_seen_at, view.backlog_rows) == (None, None, None)
    await parts.registry.take_status(grant.edge_id, Status(online=True, boot_id=BootId("b"), at=parts.clock.now()))
    said = hello(parts.clock, last_seq=120, acked_seq=20, is_clock_synchronised=False)
    parts.clock.advance(3)
    await parts.inventory.take(grant.edge_id, said)
    parts.store.watermarks[grant.edge_id, said.stream_id] = 100
    view = await parts.registry.view("acc-a", grant.edge_id)
    assert (view.is_online, view.backlog_rows, view.clock_skew_s) == (True, 20, -3.0)
    assert view.is_clock_synchronised is False
    parts.clock.advance(60)
    await parts.registry.take_status(grant.edge_id, Status(online=False, boot_id=BootId("b"), at=parts.clock.now()))
    view = await parts.registry.view("acc-a", grant.edge_id)
    assert view.is_online is False
    assert view.last_seen_at is not None
    assert view.last_seen_at == parts.clock.now()
    parts.clock.advance(5)
    assert (await parts.registry.view("acc-a", grant.edge_id)) == view


async def test_removed_mower_of_an_ended_link_is_forgotten_with_it(parts, owner):
    grant = await parts.link(owner)
    site_id = await parts.mowers.edge_site("acc-a", grant.edge_id)
    mower_id = await parts.mowers.create(
        "acc-a", NewMower(name="m", edge_id=grant.edge_id, domain="simulator"), site_id
    )
    await parts.registry.end("acc-a", grant.edge_id)
    await parts.mowers.delete("acc-a", mower_id)
    assert parts.store.purged == [mower_id]


def test_codes_as_people_type_them():
    assert normalise_code(" bcdf ghjk") == "BCDF-GHJK"
    assert normalise_code("BCDF-GHJ") == ""
    assert normalise_code("BCDF-GHJK-L") == ""


async def test_at_start_the_brokers_door_is_made_right(parts, owner):
    grant = await parts.link(owner)
    parts.broker.credentials["left-over"] = "x"
    await parts.registry.open()
    await parts.registry.open_door()
    assert set(parts.broker.credentials) == {grant.edge_id}
    assert parts.registry.linked() == {grant.edge_id}


async def test_a_broker_that_cannot_be_told_of_the_end_is_told_later(parts, owner):
    grant = await parts.link(owner)
    parts.broker.is_away = True
    await parts.registry.end("acc-a", grant.edge_id)
    assert parts.registry.account_of(grant.edge_id) is None
    assert set(parts.broker.credentials) == {grant.edge_id}
    with pytest.raises(UnavailableError):
        await parts.registry.mend_door()
    parts.broker.is_away = False
    await parts.registry.mend_door()
    assert parts.broker.credentials == {}
