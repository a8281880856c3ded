"""Decisions are remembered for a while, and never longer than the change that ended them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from core.access.cached_authorizer import DECISIONS, SUBJECTS, CachedAuthorizer
from core.access.notifier import Notifier
from core.domain.access import ObjectRef, ObjectType, Relation
from core.domain.ids import AccountId, UserId
from core.identity.principal import Principal
from tests.fakes.clock import START, ManualClock


class Rights:
    """An authorizer whose answers a test sets, and which counts the questions."""

    def __init__(self) -> None:
        self.answer = True
        self.asked: list[list[str]] = []
        self.gate: asyncio.Event | None = None
        self.reached = asyncio.Event()

    async def check(self, who: Principal, relation: Relation, what: ObjectRef) -> bool:
        return (await self.check_many(who, relation, [what]))[0]

    async def check_many(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> Sequence[bool]:
        answer = self.answer
        self.asked.append([one.id for one in what])
        self.reached.set()
        if self.gate is not None:
            await self.gate.wait()
        return [answer] * len(what)

    async def list_objects(self, who: Principal, relation: Relation, kind: ObjectType) -> frozenset[str]:
        self.asked.append([kind.value])
        return frozenset({"m1"}) if self.answer else frozenset()

    async def ping(self) -> None:
        self.asked.append(["ping"])


def person(subject: str = "ann", account: str = "a") -> Principal:
    return Principal(
        subject=UserId(subject),
        account_id=AccountId(account),
        kind="user",
        name="",
        session_id="",
        expires_at=START,
    )


def mower(identifier: str) -> ObjectRef:
    return ObjectRef(type=ObjectType.MOWER, id=identifier)


VIEW, CONTROL = Relation.CAN_VIEW, Relation.CAN_CONTROL


async def test_only_what_is_not_known_is_asked() -> None:
    rights = Rights()
    cached = CachedAuthorizer(rights, ManualClock())
    await cached.check(person(), VIEW, mower("m1"))
    assert await cached.check_many(person(), VIEW, [mower("m1"), mower("m2"), mower("m1")]) == [True] * 3
    assert rights.asked == [["m1"], ["m2"]]


async def test_another_relation_account_or_subject_is_another_question() -> None:
    rights = Rights()
    cached = CachedAuthorizer(rights, ManualClock())
    for who, relation in ((person(), VIEW), (person(), CONTROL), (person("bob"), VIEW), (person(account="b"), VIEW)):
        await cached.check(who, relation, mower("m1"))
    assert len(rights.asked) == 4


async def test_no_is_remembered_too() -> None:
    rights = Rights()
    rights.answer = False
    cached = CachedAuthorizer(rights, ManualClock())
    assert [await cached.check(person(), VIEW, mower("m1")) for _ in range(3)] == [False] * 3
    assert await cached.list_objects(person(), VIEW, ObjectType.MOWER) == frozenset()
    assert await cached.list_objects(person(), VIEW, ObjectType.MOWER) == frozenset()
    assert len(rights.asked) == 2


async def test_drop_forgets_the_subjects_named_and_none_means_all() -> None:
    rights = Rights()
    cached = CachedAuthorizer(rights, ManualClock())
    changed = Notifier("grants.changed")
    undo = changed.subscribe(cached.drop)
    people = (person("ann"), person("bob"))

    async def ask() -> list[bool]:
        return [await cached.check(who, VIEW, mower("m1")) for who in people]

    assert await ask() == [True, True]
    rights.answer = False
    changed.notify(frozenset({"ann"}))
    assert await ask() == [False, True]
    changed.notify(None)
    assert await ask() == [False, False]
    undo()
    undo()
    rights.answer = True
    changed.notify(None)
    assert await ask() == [False, False]


async def test_an_answer_read_before_a_change_is_not_kept_after_it() -> None:
    rights = Rights()
    rights.gate = asyncio.Event()
    cached = CachedAuthorizer(rights, ManualClock())
    async with asyncio.TaskGroup() as group:
        early = group.create_task(cached.check(person(), VIEW, mower("m1")), name="early")
        await rights.reached.wait()
        rights.answer = False
        cached.drop(frozenset({"ann"}))
        rights.gate.set()
    assert early.result() is True
    assert await cached.check(person(), VIEW, mower("m1")) is False


async def test_memory_is_bounded() -> None:
    rights = Rights()
    cached = CachedAuthorizer(rights, ManualClock())
    for number in range(SUBJECTS + 10):
        await cached.check(person(f"u{number}"), VIEW, mower("m1"))
    assert len(cached._bools._of) == SUBJECTS
    await cached.check_many(person("big"), VIEW, [mower(f"m{n}") for n in range(DECISIONS + 10)])
    assert len(cached._bools._of["big"]) <= DECISIONS


async def test_ping_goes_through() -> None:
    rights = Rights()
    await CachedAuthorizer(rights, ManualClock()).ping()
    assert rights.asked == [["ping"]]


def test_a_listener_that_fails_keeps_nobody_from_hearing() -> None:
    changed = Notifier("grants.changed")
    heard: list[frozenset[str] | None] = []

    def fail(_: frozenset[str] | None) -> None:
        raise LookupError

    changed.subscribe(fail)
    changed.subscribe(heard.append)
    changed.notify(frozenset({"ann"}))
    assert heard == [frozenset({"ann"})]
