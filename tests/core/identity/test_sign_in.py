"""Signing in, as an honest and as a hostile person."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import event, select, update

from core.domain.access import Relation
from core.domain.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    RateLimitedError,
    StorageFullError,
    UnauthenticatedError,
)
from core.domain.limits import ACCESS_TOKEN_TTL, REFRESH_TOKEN_TTL
from core.identity.accounts import RegisterMode, add_member
from core.identity.assignments import account_ref
from core.identity.passwords import PasswordHasher
from core.identity.sessions import SESSIONS_PER_USER
from core.identity.tables import accounts, refresh_tokens, sessions, users
from tests.core.identity.house import ADDRESS, PASSWORD, CountingArgon2, House, open_house

# Registration


async def test_registering_makes_an_owner_who_may_do_everything(house: House) -> None:
    ann = await house.owner("ann")
    for relation in Relation:
        assert await house.authorizer.check(ann, relation, account_ref(ann.account_id)), relation
    assert house.changed == [frozenset({ann.subject})]
    assert (await house.service.accounts.of_user(ann.subject))[0].name == "ann's"
    assert (await house.service.accounts.account(ann.account_id)).name == "ann's"


async def test_a_taken_name_leaves_no_account_behind(house: House) -> None:
    await house.owner("ann")
    for name in ("ann", " ANN ", "ａｎｎ"):
        with pytest.raises(ConflictError):
            await house.owner(name)
    async with house.database.read() as conn:
        assert len((await conn.execute(select(accounts))).all()) == 1


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ab",
        "a" * 65,
        "ﷺ" * 10,
        "a" * 1_000_000,
        "two words",
        "nul\0nul",
        "zero\u200bwidth",
        "rtl\u202eabc",
        "line\nbreak",
    ],
)
async def test_names_that_cannot_be(house: House, name: str) -> None:
    with pytest.raises(InvalidInputError):
        await house.owner(name)


@pytest.mark.parametrize(
    "name", ["Größe", "ÅNGSTRÖM", "用户名", "o'; DROP TABLE users;--", "ann@example.com", "ΣΊΣΥΦΟΣ"]
)
async def test_unusual_names_sign_in_whatever_their_case(house: House, name: str) -> None:
    if " " in name:
        name = name.replace(" ", "/**/")
    ann = await house.owner(name)
    for spelled in (name.upper(), name.lower(), name.casefold()):
        assert (await house.sign_in(spelled)).subject == ann.subject


@pytest.mark.parametrize("password", ["", "short", "x" * 257, "x" * 1_000_000, "aaaaaaaaaaaa", "Annabella-1"])
async def test_passwords_that_cannot_be_are_refused_before_they_are_hashed(house: House, password: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await house.service.accounts.register(
            username="annabella-1", password=password, account_name="a", email=None, address=ADDRESS
        )
    assert caught.value.mistakes[0].field == "password"
    assert house.argon2.hashed == []


@pytest.mark.parametrize("mode", [RegisterMode.CLOSED, RegisterMode.INVITE])
async def test_registration_that_is_not_open_is_refused(tmp_path: Path, mode: RegisterMode) -> None:
    async with open_house(tmp_path, mode) as house:
        with pytest.raises(ForbiddenError):
            await house.owner()
        assert not await house.service.accounts.is_registration_open()
        assert house.argon2.hashed == []


async def test_on_first_start_only_one_of_many_at_once_becomes_the_owner(tmp_path: Path) -> None:
    async with open_house(tmp_path, RegisterMode.FIRST_START) as house:
        assert await house.service.accounts.is_registration_open()
        tries = [
            house.service.accounts.register(
                username=f"user{n}", password=PASSWORD, account_name="home", email=None, address=ADDRESS
            )
            for n in range(5)
        ]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(isinstance(one, ForbiddenError) for one in results) == 4
        assert not await house.service.accounts.is_registration_open()


async def test_nobody_takes_the_address_of_somebody_else_as_a_name(house: House) -> None:
    await house.service.accounts.register(
        username="ann", password=PASSWORD, account_name="a", email="Ann@Example.com", address=ADDRESS
    )
    assert (await house.sign_in("ann@example.com")).name == "ann"
    with pytest.raises(ConflictError):
        await house.owner("ANN@example.com")


# Passwords


async def test_unknown_user_wrong_password_and_disabled_user_get_one_answer_after_one_hash_each(house: House) -> None:
    await house.owner("ann")
    told: list[tuple[str, str]] = []
    for login, password in (
        ("nobody", PASSWORD),
        ("ann", "wrong password!"),
        ("", PASSWORD),
        ("a" * 10_000, "b" * 20),
        ("\ud800", "\ud800" * 10),
    ):
        house.argon2.verified.clear()
        with pytest.raises(UnauthenticatedError) as caught:
            await house.pair(login, password)
        assert len(house.argon2.verified) == 1
        told.append((str(caught.value), caught.value.advice))
    assert len(set(told)) == 1


async def test_a_password_of_a_megabyte_costs_no_more_than_another(house: House) -> None:
    await house.owner("ann")
    house.argon2.verified.clear()
    with pytest.raises(UnauthenticatedError):
        await house.pair("ann", "x" * 1_000_000)
    assert [len(p) for p in house.argon2.verified] == [10]


async def test_the_stand_in_for_a_long_password_is_no_password(house: House) -> None:
    """What is hashed in place of a password that is too long must not let anybody in."""
    await house.owner("ann")
    async with house.database.write() as conn:
        await conn.execute(update(users).values(password_hash=await house.hasher.hash("x" * 10)))
    with pytest.raises(UnauthenticatedError):
        await house.pair("ann", "x" * 257)
    assert await house.pair("ann", "x" * 10)


async def test_a_password_typed_on_another_keyboard_is_the_same(house: House) -> None:
    await house.service.accounts.register(
        username="ann", password="pässword-längs", account_name="a", email=None, address=ADDRESS
    )
    assert await house.pair("ann", "pa\u0308ssword-la\u0308ngs")


async def test_a_hash_with_old_parameters_is_renewed_at_sign_in(house: House) -> None:
    await house.owner("ann")
    old = PasswordHasher(CountingArgon2(time_cost=2))
    old_hash = await old.hash(PASSWORD)
    await old.close()
    async with house.database.write() as conn:
        await conn.execute(update(users).values(password_hash=old_hash))
    await house.pair("ann")
    async with house.database.read() as conn:
        new_hash = (await conn.execute(select(users.c.password_hash))).scalar_one()
    assert new_hash != old_hash
    assert "t=1" in new_hash
    await house.pair("ann")


async def test_a_password_that_changes_while_it_is_checked_lets_nobody_in(house: House) -> None:
    await house.owner("ann")
    entered, go = asyncio.Event(), asyncio.Event()

    class Slow(PasswordHasher):
        async def verify(self, kept: str | None, password: str) -> bool:
            entered.set()
            await go.wait()
            return await super().verify(kept, password)

    slow = Slow(CountingArgon2())
    house.service.sessions._hasher = slow
    async with asyncio.TaskGroup() as group:
        thief = group.create_task(collect(house), name="thief")
        await entered.wait()
        async with house.database.write() as conn:
            await conn.execute(update(users).values(password_hash=await house.hasher.hash("another password")))
        go.set()
    await slow.close()
    assert isinstance(thief.result(), UnauthenticatedError)


async def collect(house: House) -> object:
    try:
        return await house.pair("ann")
    except UnauthenticatedError as err:
        return err


async def test_guessing_gets_slower_and_recovers_with_the_clock(house: House) -> None:
    await house.owner("ann")
    waits: list[float] = []
    for _ in range(12):
        try:
            with pytest.raises(UnauthenticatedError):
                await house.pair("ann", "wrong password!")
        except RateLimitedError as err:
            waits.append(err.retry_after_s)
            with pytest.raises(RateLimitedError):
                await house.pair("ann")
            house.clock.advance(err.retry_after_s)
    assert waits == sorted(waits)
    assert waits[-1] > waits[0]
    house.clock.advance(900)
    assert await house.pair("ann")


async def test_a_limited_sign_in_hashes_nothing_and_strangers_are_limited_the_same(house: House) -> None:
    await house.owner("ann")
    answers = []
    for name in ("ann", "nobody"):
        with pytest.raises(RateLimitedError) as caught:  # noqa: PT012
            for _ in range(20):
                try:
                    await house.pair(name, "wrong password!")
                except UnauthenticatedError:
                    continue
        house.argon2.verified.clear()
        with pytest.raises(RateLimitedError):
            await house.pair(name)
        assert house.argon2.verified == []
        answers.append(caught.value.retry_after_s)
    assert answers[0] == answers[1]


async def test_many_guesses_at_once_gain_nothing(house: House) -> None:
    await house.owner("ann")
    results = await asyncio.gather(*(house.pair("ann", "wrong password!") for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(one, UnauthenticatedError) for one in results) <= 6
    assert sum(isinstance(one, RateLimitedError) for one in results) >= 14


# Sessions


async def test_an_access_token_holds_ten_minutes(house: House) -> None:
    await house.owner("ann")
    pair = await house.pair("ann")
    who = await house.service.verify(pair.access_token)
    assert (who.kind, who.name, who.session_id) == ("user", "ann", pair.session_id)
    assert who.expires_at == pair.expires_at == house.clock.now() + ACCESS_TOKEN_TTL
    house.clock.advance(ACCESS_TOKEN_TTL.total_seconds() - 1)
    await house.service.verify(pair.access_token)
    house.clock.advance(1)
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(pair.access_token)


async def test_refreshing_gives_another_pair_and_prolongs_the_session(house: House) -> None:
    await house.owner("ann")
    pair = await house.pair("ann")
    for _ in range(3):
        house.clock.advance(REFRESH_TOKEN_TTL.total_seconds() - 1)
        following = await house.service.sessions.refresh(pair.refresh_token, address=ADDRESS)
        assert following.session_id == pair.session_id
        assert following.refresh_token != pair.refresh_token
        assert (await house.service.verify(following.access_token)).name == "ann"
        pair = following
    house.clock.advance(REFRESH_TOKEN_TTL.total_seconds())
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(pair.refresh_token, address=ADDRESS)


async def test_reuse_of_a_refresh_token_ends_the_whole_session(house: House) -> None:
    await house.owner("ann")
    first = await house.pair("ann")
    second = await house.service.sessions.refresh(first.refresh_token, address=ADDRESS)
    await house.service.verify(second.access_token)
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(first.refresh_token, address="198.51.100.7")
    assert house.ended == [frozenset({first.session_id})]
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(second.refresh_token, address=ADDRESS)
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(second.access_token)
    assert await house.pair("ann")


async def test_a_refresh_token_used_twice_at_once_works_once(house: House) -> None:
    await house.owner("ann")
    pair = await house.pair("ann")
    results = await asyncio.gather(
        *(house.service.sessions.refresh(pair.refresh_token, address=ADDRESS) for _ in range(5)), return_exceptions=True
    )
    assert sum(not isinstance(one, BaseException) for one in results) <= 1
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(pair.access_token)


@pytest.mark.parametrize("token", ["", "mdr_", "mdr_' OR 1=1 --", "\ud800", "x" * 1_000_000])
async def test_refresh_tokens_that_are_none(house: House, token: str) -> None:
    await house.owner("ann")
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(token, address=ADDRESS)


async def test_unknown_refresh_tokens_slow_down_only_strangers(house: House) -> None:
    await house.owner("ann")
    pair = await house.pair("ann")
    with pytest.raises(RateLimitedError):  # noqa: PT012
        for number in range(100):
            try:
                await house.service.sessions.refresh(f"mdr_{number}", address=ADDRESS)
            except UnauthenticatedError:
                continue
    assert await house.service.sessions.refresh(pair.refresh_token, address=ADDRESS)


async def test_secrets_are_nowhere_in_the_database(house: House, tmp_path: Path) -> None:
    await house.owner("ann")
    pair = await house.pair("ann")
    async with house.database.read() as conn:
        kept = (await conn.execute(select(refresh_tokens.c.fingerprint))).scalars().all()
    assert pair.refresh_token not in kept
    await house.database.close()
    files = b"".join(path.read_bytes() for path in tmp_path.glob("mowdeck.db*"))  # noqa: ASYNC240
    assert pair.session_id.encode() in files
    for secret in (pair.refresh_token, pair.access_token, PASSWORD):
        assert secret.encode() not in files


async def test_a_revoked_session_fails_at_once_and_only_it(house: House) -> None:
    await house.owner("ann")
    phone, laptop = await house.pair("ann"), await house.pair("ann")
    who = await house.service.verify(laptop.access_token)
    await house.service.verify(phone.access_token)
    await house.service.sessions.revoke(who, phone.session_id)
    assert house.ended[-1] == frozenset({phone.session_id})
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(phone.access_token)
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(phone.refresh_token, address=ADDRESS)
    assert await house.service.verify(laptop.access_token)


async def test_sessions_of_others_cannot_be_seen_or_ended(house: House) -> None:
    ann, bob = await house.owner("ann"), await house.owner("bob")
    assert [s.session_id for s in await house.service.sessions.own(bob)] == [bob.session_id]
    with pytest.raises(NotFoundError):
        await house.service.sessions.revoke(bob, ann.session_id)
    with pytest.raises(NotFoundError):
        await house.service.sessions.revoke(bob, "no-such")
    assert [s.session_id for s in await house.service.sessions.own(ann)] == [ann.session_id]


async def test_all_others_end_and_the_present_one_goes_on(house: House) -> None:
    await house.owner("ann")
    pairs = [await house.pair("ann") for _ in range(3)]
    who = await house.service.verify(pairs[-1].access_token)
    await house.service.sessions.revoke_others(who)
    (left,) = await house.service.sessions.own(who)
    assert left.is_current
    assert left.device == "test"
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(pairs[0].access_token)


async def test_sessions_are_bounded_and_the_oldest_makes_room(house: House) -> None:
    await house.owner("ann")
    first = await house.pair("ann")
    for _ in range(SESSIONS_PER_USER):
        house.clock.advance(1)
        last = await house.pair("ann")
    who = await house.service.verify(last.access_token)
    assert len(await house.service.sessions.own(who)) == SESSIONS_PER_USER
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(first.refresh_token, address=ADDRESS)


async def test_a_person_of_two_accounts_switches_and_stays_switched(house: House) -> None:
    ann, bob = await house.owner("ann"), await house.owner("bob")
    with pytest.raises(NotFoundError):
        await house.service.sessions.switch(bob, ann.account_id)
    async with house.database.write() as conn:
        await add_member(conn, ann.account_id, bob.subject, house.clock.now())
        with pytest.raises(ConflictError):
            await add_member(conn, ann.account_id, bob.subject, house.clock.now())
    assert len(await house.service.accounts.of_user(bob.subject)) == 2
    pair = await house.pair("bob")
    bob = await house.service.verify(pair.access_token)
    switched = await house.service.sessions.switch(bob, ann.account_id)
    there = await house.service.verify(switched.access_token)
    assert (there.account_id, there.subject, there.session_id) == (ann.account_id, bob.subject, bob.session_id)
    assert not await house.authorizer.check(there, Relation.CAN_VIEW, account_ref(ann.account_id))
    following = await house.service.sessions.refresh(pair.refresh_token, address=ADDRESS)
    assert following.account_id == ann.account_id


async def test_sweeping_removes_what_has_expired_and_keeps_what_lives(house: House) -> None:
    await house.owner("ann")
    old = await house.pair("ann")
    house.clock.advance(REFRESH_TOKEN_TTL.total_seconds() - 60)
    young = await house.pair("ann")
    used = await house.service.sessions.refresh(old.refresh_token, address=ADDRESS)
    house.clock.advance(REFRESH_TOKEN_TTL.total_seconds() - 30)
    alive = await house.service.sessions.refresh(used.refresh_token, address=ADDRESS)
    house.clock.advance(60)
    await house.service.sweep()
    async with house.database.read() as conn:
        assert (await conn.execute(select(sessions.c.session_id))).scalars().all() == [alive.session_id]
        assert len((await conn.execute(select(refresh_tokens))).all()) == 2
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(young.refresh_token, address=ADDRESS)
    assert await house.service.sessions.refresh(alive.refresh_token, address=ADDRESS)


# A disk that takes nothing


def fill_disk(house: House) -> None:
    """Nothing can be written any more."""

    @event.listens_for(house.database._writer.sync_engine, "begin")
    def full(_: object) -> None:
        raise StorageFullError("the disk is full")


async def test_a_full_disk_signs_nobody_out(house: House) -> None:
    await house.owner("ann")
    pair = await house.pair("ann")
    fill_disk(house)
    for _ in range(2):
        house.clock.advance(ACCESS_TOKEN_TTL.total_seconds() + 1)
        again = await house.service.sessions.refresh(pair.refresh_token, address=ADDRESS)
        assert again.refresh_token == pair.refresh_token
        assert again.refresh_expires_at == pair.refresh_expires_at
        assert (await house.service.verify(again.access_token)).session_id == pair.session_id


async def test_a_full_disk_lets_no_used_or_expired_token_in(house: House) -> None:
    await house.owner("ann")
    pair = await house.pair("ann")
    fresh = await house.service.sessions.refresh(pair.refresh_token, address=ADDRESS)
    fill_disk(house)
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(pair.refresh_token, address=ADDRESS)
    house.clock.advance(REFRESH_TOKEN_TTL.total_seconds())
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(fresh.refresh_token, address=ADDRESS)


async def test_which_sessions_have_ended(house: House) -> None:
    here = await house.owner("ann")
    there = await house.sign_in("ann")
    ids = [here.session_id, there.session_id, "never"]
    assert await house.service.sessions.find_ended(ids) == {"never"}
    await house.service.sessions.revoke(here, there.session_id)
    assert await house.service.sessions.find_ended(ids) == {"never", there.session_id}
    assert await house.service.sessions.find_ended([]) == frozenset()
