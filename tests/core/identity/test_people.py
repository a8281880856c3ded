"""Administering people, roles and service tokens; and what a hostile administrator of another account gets."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import insert, select

from core.access.tables import grants
from core.domain.access import Relation
from core.domain.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    RateLimitedError,
    UnauthenticatedError,
)
from core.domain.ids import UserId
from core.identity.accounts import add_member
from core.identity.assignments import KEPT_AFTER_END as ASSIGNMENT_KEPT
from core.identity.assignments import NewAssignment, account_ref
from core.identity.principal import Principal
from core.identity.service_tokens import KEPT_AFTER_END, TOKEN_LIFE, NewServiceToken
from core.identity.tables import login_names, memberships, role_assignments, service_tokens, users
from core.identity.users import RESET_TTL, FirstAssignment, NewUser, UserChange
from tests.core.identity.house import ADDRESS, PASSWORD, House, ref

FIRST = "first password 1"
NEXT = "second password 2"


async def add(
    house: House, who: Principal, name: str, role: str | None = None, level: tuple[str, str] | None = None
) -> UserId:
    """A new person, with a role on the account or a level of it."""
    at = account_ref(who.account_id) if level is None else ref(*level)
    given = () if role is None else (FirstAssignment(role=role, level=at),)
    view = await house.service.users.create(who, NewUser(username=name, password=FIRST, assignments=given))
    return view.user_id


async def enter(house: House, name: str) -> Principal:
    """Signs in for the first time and changes the password."""
    who = await house.sign_in(name, FIRST)
    await house.service.users.change_password(who, current=FIRST, new=NEXT, address=ADDRESS)
    return await house.sign_in(name, NEXT)


async def can(house: House, who: Principal, relation: Relation, what: tuple[str, str]) -> bool:
    return await house.authorizer.check(who, relation, ref(*what))


# New people


async def test_a_new_person_can_only_change_the_password_at_first(house: House) -> None:
    ann = await house.owner("ann")
    await house.place(ann.account_id, ("mower", "m1"))
    await add(house, ann, "olga", "operator")
    who = await house.sign_in("olga", FIRST)
    assert who.must_change_password
    assert not await can(house, who, Relation.CAN_VIEW, ("mower", "m1"))
    with pytest.raises(ForbiddenError):
        await house.service.sessions.switch(who, ann.account_id)
    await house.service.users.change_password(who, current=FIRST, new=NEXT, address=ADDRESS)
    again = await house.service.verify((await house.pair("olga", NEXT)).access_token)
    assert not again.must_change_password
    assert await can(house, again, Relation.CAN_CONTROL, ("mower", "m1"))
    assert not await can(house, again, Relation.CAN_MANAGE_USERS, ("account", ann.account_id))


async def test_a_new_person_with_a_role_that_cannot_be_is_not_made(house: House) -> None:
    ann = await house.owner("ann")
    bob = await house.owner("bob")
    await house.place(bob.account_id, ("site", "bobs"))
    for given, error in (
        (FirstAssignment(role="king", level=account_ref(ann.account_id)), InvalidInputError),
        (FirstAssignment(role="installer", level=account_ref(ann.account_id)), InvalidInputError),
        (FirstAssignment(role="viewer", level=account_ref(bob.account_id)), NotFoundError),
        (FirstAssignment(role="viewer", level=ref("site", "bobs")), NotFoundError),
        (FirstAssignment(role="viewer", level=ref("site", "x' OR '1'='1")), NotFoundError),
        (
            FirstAssignment(role="viewer", level=account_ref(ann.account_id), ends_at=house.clock.now()),
            InvalidInputError,
        ),
    ):
        with pytest.raises(error):
            await house.service.users.create(ann, NewUser(username="olga", password=FIRST, assignments=(given,)))
    assert len(await house.service.users.visible(ann)) == 1


async def test_a_name_that_is_taken_elsewhere_is_a_conflict_and_gives_no_access(house: House) -> None:
    ann, bob = await house.owner("ann"), await house.owner("bob")
    with pytest.raises(ConflictError):
        await add(house, ann, "BOB", "viewer")
    assert len(await house.service.users.visible(ann)) == 1
    assert len(await house.service.users.visible(bob)) == 1


async def test_only_those_who_manage_users_there_may_let_people_in(house: House) -> None:
    ann = await house.owner("ann")
    await house.place(ann.account_id, ("site", "home"))
    await house.place(ann.account_id, ("site", "away"))
    for name, role in (("max", "manager"), ("vic", "viewer")):
        await add(house, ann, name, role)
        who = await enter(house, name)
        with pytest.raises(ForbiddenError):
            await add(house, who, "eve", "viewer")
        with pytest.raises(ForbiddenError):
            await add(house, who, "eve")
        with pytest.raises(ForbiddenError):
            await house.service.users.visible(who)
    await add(house, ann, "sue", "owner", ("site", "home"))
    sue = await enter(house, "sue")
    await add(house, sue, "tom", "viewer", ("site", "home"))
    for level in (("site", "away"), ("account", str(ann.account_id))):
        with pytest.raises(NotFoundError):
            await add(house, sue, "eve", "viewer", level)


# Change of password, reset


async def test_changing_the_password_ends_all_other_sessions(house: House) -> None:
    await house.owner("ann")
    phone = await house.pair("ann")
    laptop = await house.pair("ann")
    who = await house.service.verify(laptop.access_token)
    await house.service.users.change_password(who, current=PASSWORD, new=NEXT, address=ADDRESS)
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(phone.access_token)
    assert await house.service.verify(laptop.access_token)
    with pytest.raises(UnauthenticatedError):
        await house.pair("ann")
    assert await house.pair("ann", NEXT)


async def test_changing_the_password_needs_the_current_one_and_a_better_one(house: House) -> None:
    ann = await house.owner("ann")
    for current, new, error in (
        ("wrong password!", NEXT, ForbiddenError),
        (PASSWORD, "short", InvalidInputError),
        (PASSWORD, PASSWORD, InvalidInputError),
        (PASSWORD, "x" * 1_000_000, InvalidInputError),
    ):
        with pytest.raises(error):
            await house.service.users.change_password(ann, current=current, new=new, address=ADDRESS)
    assert await house.pair("ann")


async def test_a_stolen_access_token_cannot_guess_the_password_quickly(house: House) -> None:
    ann = await house.owner("ann")
    with pytest.raises(RateLimitedError):  # noqa: PT012
        for _ in range(20):
            try:
                await house.service.users.change_password(ann, current="wrong password!", new=NEXT, address=ADDRESS)
            except ForbiddenError:
                continue


async def test_a_reset_link_works_once_and_ends_all_sessions(house: House) -> None:
    ann = await house.owner("ann")
    olga = await add(house, ann, "olga", "viewer")
    pair = await house.pair("olga", FIRST)
    earlier = await house.service.users.make_reset_link(ann, olga)
    link = await house.service.users.make_reset_link(ann, olga)
    with pytest.raises(NotFoundError):
        await house.service.users.reset(token=earlier.token, new_password=NEXT, address=ADDRESS)
    with pytest.raises(InvalidInputError):
        await house.service.users.reset(token=link.token, new_password="short", address=ADDRESS)
    await house.service.users.reset(token=link.token, new_password=NEXT, address=ADDRESS)
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(pair.access_token)
    with pytest.raises(NotFoundError):
        await house.service.users.reset(token=link.token, new_password=FIRST, address=ADDRESS)
    assert not (await house.sign_in("olga", NEXT)).must_change_password


async def test_a_reset_link_expires_and_guesses_are_slowed_down(house: House) -> None:
    ann = await house.owner("ann")
    olga = await add(house, ann, "olga", "viewer")
    link = await house.service.users.make_reset_link(ann, olga)
    house.clock.advance(RESET_TTL.total_seconds())
    with pytest.raises(NotFoundError):
        await house.service.users.reset(token=link.token, new_password=NEXT, address=ADDRESS)
    hashed = len(house.argon2.hashed)
    with pytest.raises(RateLimitedError):  # noqa: PT012
        for number in range(100):
            try:
                await house.service.users.reset(token=f"mdp_{number}", new_password=NEXT, address="203.0.113.9")
            except NotFoundError:
                continue
    assert len(house.argon2.hashed) == hashed


async def test_a_changed_password_makes_an_open_reset_link_worthless(house: House) -> None:
    ann = await house.owner("ann")
    olga = await add(house, ann, "olga", "viewer")
    link = await house.service.users.make_reset_link(ann, olga)
    await enter(house, "olga")
    with pytest.raises(NotFoundError):
        await house.service.users.reset(token=link.token, new_password="thief's password", address=ADDRESS)


async def test_an_account_that_is_not_home_cannot_take_a_person_over(house: House) -> None:
    ann, bob = await house.owner("ann"), await house.owner("bob")
    async with house.database.write() as conn:
        await add_member(conn, ann.account_id, bob.subject, house.clock.now())
    with pytest.raises(ForbiddenError):
        await house.service.users.make_reset_link(ann, bob.subject)
    with pytest.raises(ForbiddenError):
        await house.service.users.change(ann, bob.subject, UserChange(email="eve@example.com"))
    await house.service.users.delete(ann, bob.subject)
    assert (await house.sign_in("bob")).account_id == bob.account_id


# Disabling and removing


async def test_a_disabled_person_is_out_at_once_and_comes_back_with_the_same_roles(house: House) -> None:
    ann = await house.owner("ann")
    await house.place(ann.account_id, ("mower", "m1"))
    await house.place(ann.account_id, ("site", "gone"))
    olga = await add(house, ann, "olga", "operator")
    await house.service.assignments.create(ann, NewAssignment(user_id=olga, role="viewer", level=ref("site", "gone")))
    who = await enter(house, "olga")
    pair = await house.pair("olga", NEXT)
    view = await house.service.users.change(ann, olga, UserChange(is_disabled=True))
    assert view.is_disabled
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(pair.access_token)
    with pytest.raises(UnauthenticatedError):
        await house.service.sessions.refresh(pair.refresh_token, address=ADDRESS)
    with pytest.raises(UnauthenticatedError) as caught:
        await house.pair("olga", NEXT)
    assert "wrong username or password" in str(caught.value)
    assert not await can(house, who, Relation.CAN_VIEW, ("mower", "m1"))
    with pytest.raises(ConflictError):
        await house.service.assignments.create(
            ann, NewAssignment(user_id=olga, role="viewer", level=account_ref(ann.account_id))
        )
    async with house.database.write() as conn:
        await house.fleet.remove(conn, account_id=ann.account_id, what=ref("site", "gone"))
    await house.service.users.change(ann, olga, UserChange(is_disabled=False))
    assert await can(house, await house.sign_in("olga", NEXT), Relation.CAN_CONTROL, ("mower", "m1"))


async def test_a_removed_person_leaves_nothing(house: House) -> None:
    ann = await house.owner("ann")
    olga = await add(house, ann, "olga", "owner")
    who = await enter(house, "olga")
    pair = await house.pair("olga", NEXT)
    made = await house.service.tokens.create(
        who, NewServiceToken(name="ha", role="service", level=account_ref(ann.account_id))
    )
    await house.service.verify(made.token)
    await house.service.users.make_reset_link(ann, olga)
    house.changed.clear()
    await house.service.users.delete(ann, olga)
    assert house.changed == [frozenset({olga, made.token_id})]
    assert house.ended[-1] is not None
    assert {pair.session_id, made.token_id} <= house.ended[-1]
    for token in (pair.access_token, made.token):
        with pytest.raises(UnauthenticatedError):
            await house.service.verify(token)
    async with house.database.read() as conn:
        for table in (users, login_names, memberships, role_assignments):
            assert olga not in (await conn.execute(select(table.c.user_id))).scalars().all(), table.name
        assert (await conn.execute(select(service_tokens))).all() == []
        assert set((await conn.execute(select(grants.c.subject))).scalars()) == {ann.subject}
    with pytest.raises(NotFoundError):
        await house.service.users.delete(ann, olga)
    await add(house, ann, "olga", "viewer")


async def test_the_last_owner_stays(house: House) -> None:
    ann = await house.owner("ann")
    olga = await add(house, ann, "olga", "viewer")
    (own,) = await house.service.assignments.visible(ann, user_id=ann.subject)
    soon = house.clock.now() + timedelta(days=1)
    temporary = NewAssignment(user_id=olga, role="owner", level=account_ref(ann.account_id), ends_at=soon)
    await house.service.assignments.create(ann, temporary)

    async def leave() -> None:
        with pytest.raises(ConflictError):
            await house.service.users.delete(ann, ann.subject)
        with pytest.raises(ConflictError):
            await house.service.users.change(ann, ann.subject, UserChange(is_disabled=True))
        with pytest.raises(ConflictError):
            await house.service.assignments.delete(ann, own.assignment_id)
        assert await can(house, ann, Relation.CAN_MANAGE_USERS, ("account", ann.account_id))

    await leave()
    owner = NewAssignment(user_id=olga, role="owner", level=account_ref(ann.account_id))
    await house.service.assignments.create(ann, owner)
    await house.service.users.change(ann, olga, UserChange(is_disabled=True))
    await leave()
    await house.service.users.change(ann, olga, UserChange(is_disabled=False))
    await house.service.users.delete(ann, ann.subject)
    assert [u.username for u in await house.service.users.visible(await enter(house, "olga"))] == ["olga"]


async def test_an_address_is_changed_kept_and_removed(house: House) -> None:
    ann, bob = await house.owner("ann"), await house.owner("bob")
    changed = await house.service.users.change(ann, ann.subject, UserChange(email=" Ann@Example.com "))
    assert changed.email == "Ann@Example.com"
    assert (await house.service.users.change(ann, ann.subject, UserChange())).email == "Ann@Example.com"
    assert (await house.sign_in("ann@example.com")).subject == ann.subject
    with pytest.raises(ConflictError):
        await house.service.users.change(bob, bob.subject, UserChange(email="ann@example.COM"))
    with pytest.raises(InvalidInputError):
        await house.service.users.change(bob, bob.subject, UserChange(email="no address"))
    assert (await house.service.users.change(ann, ann.subject, UserChange(email=None))).email is None
    with pytest.raises(UnauthenticatedError):
        await house.pair("ann@example.com")
    assert await house.sign_in("ann")


# Roles


async def test_a_role_begins_and_ends_when_it_says(house: House) -> None:
    ann = await house.owner("ann")
    await house.place(ann.account_id, ("mower", "m1"))
    ida = await add(house, ann, "ida")
    who = await enter(house, "ida")
    now = house.clock.now()
    await house.service.assignments.create(
        ann,
        NewAssignment(
            user_id=ida,
            role="installer",
            level=ref("mower", "m1"),
            starts_at=now + timedelta(hours=1),
            ends_at=now + timedelta(hours=2),
        ),
    )
    seen = []
    for _ in range(3):
        seen.append(await can(house, who, Relation.CAN_DRIVE, ("mower", "m1")))
        house.clock.advance(3_600)
    assert seen == [False, True, False]


async def test_a_role_taken_is_gone_and_others_stay(house: House) -> None:
    ann = await house.owner("ann")
    await house.place(ann.account_id, ("site", "home"), ("mower", "m1"))
    olga = await add(house, ann, "olga", "operator")
    who = await enter(house, "olga")
    view = await house.service.assignments.create(
        ann, NewAssignment(user_id=olga, role="viewer", level=ref("site", "home"))
    )
    operator = next(a for a in await house.service.assignments.visible(ann, user_id=olga) if a != view)
    await house.service.assignments.delete(ann, operator.assignment_id)
    assert house.changed[-1] == frozenset({olga})
    assert await can(house, who, Relation.CAN_VIEW, ("mower", "m1"))
    assert not await can(house, who, Relation.CAN_CONTROL, ("mower", "m1"))
    assert await house.service.assignments.visible(ann, user_id=olga) == (view,)


async def test_somebody_who_manages_users_on_a_site_sees_and_takes_only_what_is_there(house: House) -> None:
    ann = await house.owner("ann")
    await house.place(ann.account_id, ("site", "home"), ("mower", "m1"))
    olga = await add(house, ann, "olga", "viewer")
    await add(house, ann, "sue", "owner", ("site", "home"))
    sue = await enter(house, "sue")
    below = await house.service.assignments.create(
        sue, NewAssignment(user_id=olga, role="operator", level=ref("mower", "m1"))
    )
    seen = await house.service.assignments.visible(sue)
    assert {one.level.id for one in seen} == {"home", "m1"}
    (above,) = [a for a in await house.service.assignments.visible(ann, user_id=olga) if a != below]
    with pytest.raises(NotFoundError):
        await house.service.assignments.delete(sue, above.assignment_id)
    await house.service.assignments.delete(sue, below.assignment_id)


async def test_a_role_on_something_that_was_removed_can_still_be_taken(house: House) -> None:
    ann = await house.owner("ann")
    await house.place(ann.account_id, ("site", "home"))
    await add(house, ann, "olga", "viewer", ("site", "home"))
    async with house.database.write() as conn:
        await house.fleet.remove(conn, account_id=ann.account_id, what=ref("site", "home"))
    (one,) = [a for a in await house.service.assignments.visible(ann) if a.level.id == "home"]
    await house.service.assignments.delete(ann, one.assignment_id)


async def test_a_role_that_ended_long_ago_is_swept_away(house: House) -> None:
    ann = await house.owner("ann")
    ida = await add(house, ann, "ida")
    soon = house.clock.now() + timedelta(days=1)
    new = NewAssignment(user_id=ida, role="installer", level=account_ref(ann.account_id), ends_at=soon)
    view = await house.service.assignments.create(ann, new)
    house.clock.advance(86_400)
    await house.service.sweep()
    assert view in await house.service.assignments.visible(ann)
    house.clock.advance(ASSIGNMENT_KEPT.total_seconds())
    await house.service.sweep()
    (left,) = await house.service.assignments.visible(ann)
    assert left.role == "owner"
    async with house.database.read() as conn:
        assert set((await conn.execute(select(grants.c.subject))).scalars()) == {ann.subject}


# Service tokens


async def test_a_service_token_does_what_its_role_says_on_its_level_until_it_expires(house: House) -> None:
    ann = await house.owner("ann")
    await house.place(ann.account_id, ("site", "home"), ("mower", "m1"))
    await house.place(ann.account_id, ("mower", "m2"))
    made = await house.service.tokens.create(
        ann, NewServiceToken(name="Home Assistant", role="service", level=ref("site", "home"))
    )
    assert made.token.startswith("mdk_")
    assert made.expires_at == house.clock.now() + TOKEN_LIFE
    who = await house.service.verify(made.token)
    assert (who.kind, who.name, who.account_id) == ("service", "Home Assistant", ann.account_id)
    assert await can(house, who, Relation.CAN_CONTROL, ("mower", "m1"))
    assert not await can(house, who, Relation.CAN_VIEW, ("mower", "m2"))
    assert not await can(house, who, Relation.CAN_DRIVE, ("mower", "m1"))
    for refused in (
        house.service.sessions.own(who),
        house.service.sessions.switch(who, ann.account_id),
        house.service.users.change_password(who, current="", new=NEXT, address=ADDRESS),
        house.service.tokens.create(who, NewServiceToken(name="x", role="service", level=ref("site", "home"))),
    ):
        with pytest.raises(ForbiddenError):
            await refused
    house.clock.advance(TOKEN_LIFE.total_seconds())
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(made.token)
    assert not await can(house, who, Relation.CAN_VIEW, ("mower", "m1"))


async def test_last_use_is_shown_and_survives(house: House) -> None:
    ann = await house.owner("ann")
    made = await house.service.tokens.create(
        ann, NewServiceToken(name="ha", role="viewer", level=account_ref(ann.account_id))
    )
    assert (await house.service.tokens.visible(ann))[0].last_used_at is None
    house.clock.advance(60)
    await house.service.verify(made.token)
    at = house.clock.now()
    assert (await house.service.tokens.visible(ann))[0].last_used_at == at
    await house.service.sweep()
    house.clock.advance(60)
    assert (await house.service.tokens.visible(ann))[0].last_used_at == at


async def test_a_revoked_service_token_fails_at_once(house: House) -> None:
    ann = await house.owner("ann")
    made = await house.service.tokens.create(
        ann, NewServiceToken(name="ha", role="viewer", level=account_ref(ann.account_id))
    )
    who = await house.service.verify(made.token)
    await house.service.tokens.delete(ann, made.token_id)
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(made.token)
    assert not await can(house, who, Relation.CAN_VIEW, ("account", ann.account_id))
    assert house.ended[-1] == frozenset({made.token_id})
    assert await house.service.tokens.visible(ann) == ()


@pytest.mark.parametrize("token", ["mdk_", "mdk_' OR 1=1 --", "mdk_" + "x" * 100_000, "mdk_\ud800"])
async def test_service_tokens_that_are_none(house: House, token: str) -> None:
    ann = await house.owner("ann")
    await house.service.tokens.create(ann, NewServiceToken(name="x", role="viewer", level=account_ref(ann.account_id)))
    with pytest.raises(UnauthenticatedError):
        await house.service.verify(token)


async def test_a_service_token_never_manages_users_or_lives_for_ever(house: House) -> None:
    ann = await house.owner("ann")
    level = account_ref(ann.account_id)
    now = house.clock.now()
    for new in (
        NewServiceToken(name="x", role="owner", level=level),
        NewServiceToken(name="x", role="king", level=level),
        NewServiceToken(name=" ", role="viewer", level=level),
        NewServiceToken(name="x", role="viewer", level=level, expires_at=now),
        NewServiceToken(name="x", role="viewer", level=level, expires_at=now + timedelta(days=4_000)),
    ):
        with pytest.raises(InvalidInputError):
            await house.service.tokens.create(ann, new)
    installer = NewServiceToken(name="x", role="installer", level=level, expires_at=now + timedelta(days=1))
    assert (await house.service.tokens.create(ann, installer)).role == "installer"


async def test_a_token_that_ended_long_ago_is_swept_away(house: House) -> None:
    ann = await house.owner("ann")
    level = account_ref(ann.account_id)
    soon = house.clock.now() + timedelta(days=1)
    await house.service.tokens.create(ann, NewServiceToken(name="x", role="viewer", level=level, expires_at=soon))
    house.clock.advance(86_400)
    await house.service.sweep()
    assert len(await house.service.tokens.visible(ann)) == 1
    house.clock.advance(KEPT_AFTER_END.total_seconds())
    await house.service.sweep()
    async with house.database.read() as conn:
        assert (await conn.execute(select(service_tokens))).all() == []
        assert set((await conn.execute(select(grants.c.subject))).scalars()) == {ann.subject}


# Another account


async def test_ids_of_another_account_are_not_found(house: House) -> None:
    ann, bob = await house.owner("ann"), await house.owner("bob")
    await house.place(ann.account_id, ("site", "home"))
    level = ref("site", "home")
    (assignment,) = await house.service.assignments.visible(ann)
    made = await house.service.tokens.create(ann, NewServiceToken(name="x", role="viewer", level=level))
    for attempt in (
        house.service.users.change(bob, ann.subject, UserChange(is_disabled=True)),
        house.service.users.delete(bob, ann.subject),
        house.service.users.make_reset_link(bob, ann.subject),
        house.service.assignments.delete(bob, assignment.assignment_id),
        house.service.assignments.create(bob, NewAssignment(user_id=bob.subject, role="viewer", level=level)),
        house.service.assignments.create(
            bob, NewAssignment(user_id=ann.subject, role="viewer", level=account_ref(bob.account_id))
        ),
        house.service.assignments.create(
            bob, NewAssignment(user_id=bob.subject, role="viewer", level=account_ref(ann.account_id))
        ),
        house.service.tokens.create(bob, NewServiceToken(name="x", role="viewer", level=level)),
        house.service.tokens.delete(bob, made.token_id),
        house.service.sessions.revoke(bob, ann.session_id),
    ):
        with pytest.raises(NotFoundError):
            await attempt
    assert [u.username for u in await house.service.users.visible(bob)] == ["bob"]
    assert await house.service.tokens.visible(bob) == ()
    assert {a.user_id for a in await house.service.assignments.visible(bob)} == {bob.subject}
    assert await house.service.verify(made.token)


async def test_a_tuple_of_another_account_gives_nothing(house: House) -> None:
    """Even a tuple that somehow names a foreign object: the account of the object counts."""
    ann, bob = await house.owner("ann"), await house.owner("bob")
    await house.place(ann.account_id, ("mower", "m1"))
    async with house.database.write() as conn:
        for kind, identifier in (("mower", "m1"), ("account", str(ann.account_id))):
            await conn.execute(
                insert(grants).values(
                    assignment_id=f"smuggled-{kind}",
                    account_id=bob.account_id,
                    subject=bob.subject,
                    grant_name="view",
                    object_type=kind,
                    object_id=identifier,
                )
            )
    assert not await can(house, bob, Relation.CAN_VIEW, ("mower", "m1"))
    assert not await can(house, bob, Relation.CAN_VIEW, ("account", ann.account_id))
