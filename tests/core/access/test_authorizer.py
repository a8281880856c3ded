"""The authorizer against a naive model in memory, and the rules one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, event
from sqlalchemy.dialects import postgresql, sqlite

from core.access.cached_authorizer import CachedAuthorizer
from core.access.sql_authorizer import FOR_EVER, SqlAuthorizer, _ends, _held, _reachable
from core.access.tables import grants, hierarchy
from core.access.tuples import TupleWriter
from core.domain.access import GRANT_OF, ROLES, Grant, ObjectRef, ObjectType, Relation
from core.domain.errors import ConflictError, InvalidInputError, LimitExceededError, NotFoundError, UnavailableError
from core.domain.ids import AccountId, UserId
from core.domain.limits import DECISION_TTL_S
from core.identity.principal import Principal
from core.storage.relational import METADATA, RelationalDatabase, sqlite_url
from tests.fakes.clock import START, ManualClock

A, B = AccountId("acc-a"), AccountId("acc-b")
IDENTITY, FLEET = TupleWriter("identity"), TupleWriter("fleet")


def ref(kind: str, identifier: str) -> ObjectRef:
    return ObjectRef(type=ObjectType(kind), id=identifier)


def person(subject: str, account: AccountId = A, *, must_change: bool = False) -> Principal:
    return Principal(
        subject=UserId(subject),
        account_id=account,
        kind="user",
        name=subject,
        session_id="s",
        expires_at=datetime(2030, 1, 1, tzinfo=UTC),
        must_change_password=must_change,
    )


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[RelationalDatabase]:
    opened = RelationalDatabase(sqlite_url(tmp_path / "access.db"))
    await opened.open(METADATA)
    yield opened
    await opened.close()


@dataclass(frozen=True)
class Held:
    account: AccountId
    subject: str
    grant: Grant
    level: ObjectRef
    starts_at: datetime | None
    ends_at: datetime | None


@dataclass
class World:
    """What the tests put in, and the naive answer."""

    places: list[tuple[AccountId, ObjectRef, ObjectRef]] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)

    def can(self, who: Principal, relation: Relation, what: ObjectRef, now: datetime) -> bool:
        return self.until(who, relation, what, now) is not None

    def until(self, who: Principal, relation: Relation, what: ObjectRef, now: datetime) -> datetime | None:
        if what.type is ObjectType.ACCOUNT:
            if what.id != who.account_id:
                return None
        elif not any(account == who.account_id and child == what for account, child, _ in self.places):
            return None
        ends = [
            held.ends_at or FOR_EVER
            for held in self.held
            for at in self.above(who.account_id, what)
            if held.account == who.account_id
            and held.subject == who.subject
            and held.grant is GRANT_OF[relation]
            and held.level == at
            and (held.starts_at is None or held.starts_at <= now)
            and (held.ends_at is None or now < held.ends_at)
        ]
        return max(ends, default=None)

    def above(self, account: AccountId, what: ObjectRef) -> set[ObjectRef]:
        found = {what}
        for owner, child, parent in self.places:
            if owner == account and child == what:
                found |= self.above(account, parent)
        return found

    async def write(self, database: RelationalDatabase) -> None:
        async with database.write() as conn:
            await conn.execute(delete(grants))
            await conn.execute(delete(hierarchy))
            for account, child, parent in self.places:
                await FLEET.place(conn, account_id=account, child=child, parent=parent)
            for number, held in enumerate(self.held):
                await IDENTITY.grant(
                    conn,
                    account_id=held.account,
                    assignment_id=f"as-{number}",
                    subject=held.subject,
                    held=[held.grant],
                    level=held.level,
                    starts_at=held.starts_at,
                    ends_at=held.ends_at,
                )


STAMPS = st.one_of(st.none(), st.sampled_from([-60, 0, 60]).map(lambda s: START + timedelta(seconds=s)))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Two accounts whose objects share ids across types (`1` is a site, a group and a mower), as an attacker would."""
    world = World()
    for account, prefix in ((A, "a"), (B, "b")):
        top = ref("account", account)
        sites = [ref("site", f"{prefix}{n}") for n in range(draw(st.integers(0, 2)))]
        groups = [ref("group", f"{prefix}{n}") for n in range(draw(st.integers(0, 2)))]
        mowers = [ref("mower", f"{prefix}{n}") for n in range(draw(st.integers(0, 3)))]
        world.places += [(account, site, top) for site in sites]
        world.places += [(account, group, draw(st.sampled_from([top, *sites]))) for group in groups]
        for mower in mowers:
            parents = [draw(st.sampled_from([top, *sites]))]
            parents += draw(st.lists(st.sampled_from(groups), unique=True)) if groups else []
            world.places += [(account, mower, parent) for parent in parents]
        for _ in range(draw(st.integers(0, 4))):
            world.held.append(
                Held(
                    account,
                    draw(st.sampled_from(["ann", "bob"])),
                    draw(st.sampled_from([Grant.VIEW, Grant.CONTROL])),
                    draw(st.sampled_from([top, *sites, *groups, *mowers])),
                    draw(STAMPS),
                    draw(STAMPS),
                )
            )
    return world


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds())
async def test_it_equals_the_naive_model(database: RelationalDatabase, world: World) -> None:
    await world.write(database)
    clock = ManualClock()
    authorizer = SqlAuthorizer(database, clock)
    objects = [ref(kind, f"{p}{n}") for kind in ("site", "group", "mower") for p in "ab" for n in range(3)]
    objects += [ref("account", A), ref("account", B), ref("mower", "nowhere"), ref("site", A)]
    relations = (Relation.CAN_EMERGENCY_STOP, Relation.CAN_CONTROL)
    for who in (person(s, a) for s in ("ann", "bob") for a in (A, B)):
        for relation in relations:
            expected = [world.can(who, relation, what, clock.now()) for what in objects]
            assert list(await authorizer.check_many(who, relation, objects)) == expected
            for kind in ObjectType:
                visible = {what.id for what, can in zip(objects, expected, strict=True) if can and what.type is kind}
                assert await authorizer.list_objects(who, relation, kind) == visible
            for what in (ref("mower", "a0"), ref("group", "a1"), ref("account", A), ref("account", B)):
                expected_end = world.until(who, relation, what, clock.now())
                assert await authorizer.held_until(who, relation, what) == expected_end


async def garden(database: RelationalDatabase) -> None:
    """acc-a > home > front > m1; acc-a > home > m2; acc-b > m9."""
    world = World(
        places=[
            (A, ref("site", "home"), ref("account", A)),
            (A, ref("group", "front"), ref("site", "home")),
            (A, ref("mower", "m1"), ref("account", A)),
            (A, ref("mower", "m1"), ref("group", "front")),
            (A, ref("mower", "m2"), ref("site", "home")),
            (B, ref("mower", "m9"), ref("account", B)),
        ]
    )
    await world.write(database)


async def give(database: RelationalDatabase, subject: str, role: str, level: ObjectRef, account: AccountId = A) -> None:
    async with database.write() as conn:
        await IDENTITY.grant(
            conn,
            account_id=account,
            assignment_id=f"{subject}-{role}-{level.id}",
            subject=subject,
            held=ROLES[role],
            level=level,
        )


async def test_whoever_sees_a_mower_may_stop_it_but_not_start_it(database: RelationalDatabase) -> None:
    await garden(database)
    await give(database, "vic", "viewer", ref("group", "front"))
    authorizer = SqlAuthorizer(database, ManualClock())
    m1 = ref("mower", "m1")
    assert await authorizer.check(person("vic"), Relation.CAN_EMERGENCY_STOP, m1)
    assert not await authorizer.check(person("vic"), Relation.CAN_CONTROL, m1)
    assert not await authorizer.check(person("vic"), Relation.CAN_VIEW, ref("mower", "m2"))
    assert not await authorizer.check(person("vic"), Relation.CAN_VIEW, ref("site", "home"))


async def test_rights_in_one_account_are_none_in_another(database: RelationalDatabase) -> None:
    await garden(database)
    await give(database, "ann", "owner", ref("account", A))
    authorizer = SqlAuthorizer(database, ManualClock())
    assert await authorizer.check(person("ann"), Relation.CAN_VIEW, ref("mower", "m1"))
    assert not await authorizer.check(person("ann"), Relation.CAN_VIEW, ref("mower", "m9"))
    assert not await authorizer.check(person("ann", B), Relation.CAN_VIEW, ref("mower", "m1"))
    assert not await authorizer.check(person("ann", B), Relation.CAN_VIEW, ref("mower", "m9"))


async def test_somebody_who_has_to_change_the_password_holds_nothing(database: RelationalDatabase) -> None:
    await garden(database)
    await give(database, "ann", "owner", ref("account", A))
    who = person("ann", must_change=True)
    authorizer = CachedAuthorizer(SqlAuthorizer(database, ManualClock()), ManualClock())
    assert not await authorizer.check(who, Relation.CAN_VIEW, ref("mower", "m1"))
    assert await SqlAuthorizer(database, ManualClock()).held_until(who, Relation.CAN_VIEW, ref("mower", "m1")) is None
    assert await authorizer.list_objects(who, Relation.CAN_VIEW, ObjectType.MOWER) == frozenset()
    assert await authorizer.check(person("ann"), Relation.CAN_VIEW, ref("mower", "m1"))


async def test_names_that_look_like_sql_are_only_names(database: RelationalDatabase) -> None:
    await garden(database)
    await give(database, "ann", "owner", ref("account", A))
    authorizer = SqlAuthorizer(database, ManualClock())
    evil = "x' OR '1'='1"
    assert not await authorizer.check(person(evil), Relation.CAN_VIEW, ref("mower", "m1"))
    assert not await authorizer.check(person("ann"), Relation.CAN_VIEW, ref("mower", evil))


async def test_a_removed_object_is_nobodys_and_what_was_below_it_is_not_reached(database: RelationalDatabase) -> None:
    await garden(database)
    await give(database, "ann", "owner", ref("account", A))
    await give(database, "vic", "viewer", ref("group", "front"))
    async with database.write() as conn:
        await FLEET.remove(conn, account_id=A, what=ref("group", "front"))
    authorizer = SqlAuthorizer(database, ManualClock())
    assert not await authorizer.check(person("vic"), Relation.CAN_VIEW, ref("mower", "m1"))
    assert not await authorizer.check(person("vic"), Relation.CAN_VIEW, ref("group", "front"))
    assert await authorizer.list_objects(person("vic"), Relation.CAN_VIEW, ObjectType.GROUP) == frozenset()
    assert await authorizer.check(person("ann"), Relation.CAN_VIEW, ref("mower", "m1"))


async def test_many_checks_and_a_list_are_one_query_each(database: RelationalDatabase) -> None:
    await garden(database)
    statements: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            statements.append(statement)

    event.listen(database._reader.sync_engine, "before_cursor_execute", note)
    authorizer = SqlAuthorizer(database, ManualClock())
    await authorizer.check_many(person("ann"), Relation.CAN_VIEW, [ref("mower", f"m{n}") for n in range(500)])
    assert len(statements) == 1
    await authorizer.list_objects(person("ann"), Relation.CAN_VIEW, ObjectType.MOWER)
    assert len(statements) == 2
    assert await authorizer.check_many(person("ann"), Relation.CAN_VIEW, []) == []
    with pytest.raises(LimitExceededError):
        await authorizer.check_many(person("ann"), Relation.CAN_VIEW, [ref("mower", f"m{n}") for n in range(5_001)])


async def test_a_database_that_cannot_be_asked_is_unavailable_and_not_a_no(tmp_path: Path) -> None:
    database = RelationalDatabase(sqlite_url(tmp_path / "access.db"))
    await database.open(METADATA)
    authorizer = SqlAuthorizer(database, ManualClock())
    await authorizer.ping()
    async with database.write() as conn:
        await conn.exec_driver_sql("DROP TABLE access_grants")
        await conn.exec_driver_sql("DROP TABLE schema_version")
    with pytest.raises(UnavailableError):
        await authorizer.check(person("ann"), Relation.CAN_VIEW, ref("mower", "m1"))
    with pytest.raises(UnavailableError):
        await authorizer.ping()
    await database.close()
    with pytest.raises(UnavailableError):
        await authorizer.check(person("ann"), Relation.CAN_VIEW, ref("mower", "m1"))


def test_the_queries_compile_for_both_databases(tmp_path: Path) -> None:
    authorizer = SqlAuthorizer(RelationalDatabase(sqlite_url(tmp_path / "x.db")), ManualClock())
    counts = authorizer._counts(person("ann"), Relation.CAN_VIEW)
    who = person("ann")
    queries = (
        _held(who, counts, {"m1"}),
        _reachable(who, counts, ObjectType.MOWER),
        _ends(who, counts, ref("account", A)),
    )
    for query in queries:
        for dialect in (postgresql.dialect(), sqlite.dialect()):
            assert "WITH RECURSIVE" in str(query.compile(dialect=dialect))


# The writer


async def test_each_owner_writes_only_its_own_kind(database: RelationalDatabase) -> None:
    async with database.write() as conn:
        with pytest.raises(RuntimeError):
            await FLEET.grant(
                conn, account_id=A, assignment_id="x", subject="u", held=[Grant.VIEW], level=ref("account", A)
            )
        with pytest.raises(RuntimeError):
            await FLEET.revoke(conn, account_id=A, assignment_id="x")
        with pytest.raises(RuntimeError):
            await FLEET.revoke_subject(conn, account_id=A, subject="u")
        with pytest.raises(RuntimeError):
            await IDENTITY.place(conn, account_id=A, child=ref("site", "s"), parent=ref("account", A))
        with pytest.raises(RuntimeError):
            await IDENTITY.displace(conn, account_id=A, child=ref("site", "s"), parent=ref("account", A))
        with pytest.raises(RuntimeError):
            await IDENTITY.remove(conn, account_id=A, what=ref("site", "s"))


async def test_nothing_is_placed_or_granted_across_accounts(database: RelationalDatabase) -> None:
    await garden(database)
    async with database.write() as conn:
        with pytest.raises(NotFoundError):
            await FLEET.place(conn, account_id=B, child=ref("mower", "new"), parent=ref("site", "home"))
        with pytest.raises(NotFoundError):
            await FLEET.place(conn, account_id=B, child=ref("mower", "new"), parent=ref("account", A))
        with pytest.raises(ConflictError):
            await FLEET.place(conn, account_id=B, child=ref("mower", "m1"), parent=ref("account", B))
        for level in (ref("mower", "m1"), ref("account", A), ref("site", "nowhere")):
            with pytest.raises(NotFoundError):
                await IDENTITY.grant(conn, account_id=B, assignment_id="x", subject="u", held=[Grant.VIEW], level=level)
        await FLEET.remove(conn, account_id=B, what=ref("mower", "m1"))
        await FLEET.displace(conn, account_id=B, child=ref("mower", "m2"), parent=ref("site", "home"))
        assert await FLEET.is_in_account(conn, account_id=A, what=ref("mower", "m1"))
        assert await FLEET.is_in_account(conn, account_id=A, what=ref("mower", "m2"))


@pytest.mark.parametrize(
    ("child", "parent"), [("account", "site"), ("site", "site"), ("group", "mower"), ("site", "group")]
)
async def test_pairs_that_cannot_be_are_refused(database: RelationalDatabase, child: str, parent: str) -> None:
    async with database.write() as conn:
        with pytest.raises(InvalidInputError):
            await FLEET.place(conn, account_id=A, child=ref(child, "x"), parent=ref(parent, "y"))


async def test_placing_twice_is_placing_once_and_moving_is_place_and_displace(database: RelationalDatabase) -> None:
    await garden(database)
    m2, home, top = ref("mower", "m2"), ref("site", "home"), ref("account", A)
    await give(database, "vic", "viewer", home)
    authorizer = SqlAuthorizer(database, ManualClock())
    async with database.write() as conn:
        await FLEET.place(conn, account_id=A, child=m2, parent=home)
    assert await authorizer.check(person("vic"), Relation.CAN_VIEW, m2)
    async with database.write() as conn:
        await FLEET.place(conn, account_id=A, child=m2, parent=top)
        await FLEET.displace(conn, account_id=A, child=m2, parent=home)
    assert not await authorizer.check(person("vic"), Relation.CAN_VIEW, m2)


async def test_a_rolled_back_change_leaves_no_tuple(database: RelationalDatabase) -> None:
    await garden(database)
    with pytest.raises(LookupError):  # noqa: PT012
        async with database.write() as conn:
            await IDENTITY.grant(
                conn, account_id=A, assignment_id="x", subject="u", held=ROLES["owner"], level=ref("account", A)
            )
            raise LookupError
    authorizer = SqlAuthorizer(database, ManualClock())
    assert not await authorizer.check(person("u"), Relation.CAN_VIEW, ref("account", A))


async def test_a_cached_decision_lives_as_long_as_it_may(database: RelationalDatabase) -> None:
    await garden(database)
    clock = ManualClock()
    authorizer = CachedAuthorizer(SqlAuthorizer(database, clock), clock)
    m1 = ref("mower", "m1")
    assert not await authorizer.check(person("vic"), Relation.CAN_VIEW, m1)
    await give(database, "vic", "viewer", m1)
    clock.advance(DECISION_TTL_S - 0.1)
    assert not await authorizer.check(person("vic"), Relation.CAN_VIEW, m1)
    clock.advance(0.1)
    assert await authorizer.check(person("vic"), Relation.CAN_VIEW, m1)
