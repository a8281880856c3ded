"""Commands whose giver loses the right while they wait: which are cancelled, when, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from sqlalchemy import delete

from cloud_relay.commands.tenure import SIGN_IN_ENDED
from cloud_relay.fleet.views import MowerChange, NewSite
from core.access.tables import grants
from core.access.tuples import TupleWriter
from core.domain import limits
from core.domain.access import ROLES, Grant, ObjectRef, ObjectType
from core.domain.commands import RIGHT_LOST, CommandStatus, EmergencyStop, PauseMow, StartMow
from core.domain.errors import ForbiddenError, NotPublishedError, UnavailableError
from core.domain.ids import MowerId, make_id
from core.sync.envelope import verify_cancel
from core.sync.messages import CancelEnvelope
from tests.cloud_relay.relay_parts import hello, item
from tests.cloud_relay.test_commands import result

M1, M2 = MowerId("mower-1"), MowerId("mower-2")
OPERATOR = frozenset({Grant.VIEW, Grant.CONTROL})


@pytest.fixture
async def box(parts: Any) -> Any:
    grant = await parts.link(await parts.person("acc-a"))
    await parts.inventory.take(grant.edge_id, hello(parts.clock, item(M1), item(M2, "S2")))
    return grant


async def submit(parts: Any, who: Any, command: Any = None, mower_id: MowerId = M1, ttl_s: float = 30) -> Any:
    return await parts.desk.submit(
        who, mower_id, command or StartMow(), time_to_live=timedelta(seconds=ttl_s), correlation_id="corr"
    )


async def revoke(parts: Any, who: Any) -> None:
    async with parts.database.write() as connection:
        await TupleWriter("identity").revoke_subject(connection, account_id=who.account_id, subject=who.subject)


async def person_with_level(parts: Any, mower_id: MowerId, **period: Any) -> Any:
    who = await parts.person("acc-a", frozenset())
    await give(parts, who, ObjectRef(type=ObjectType.MOWER, id=mower_id), **period)
    return who


async def give(parts: Any, who: Any, level: ObjectRef, **period: Any) -> None:
    async with parts.database.write() as connection:
        await TupleWriter("identity").grant(
            connection,
            account_id=who.account_id,
            assignment_id=make_id(parts.clock.now()),
            subject=who.subject,
            held=ROLES["operator"],
            level=level,
            **period,
        )


def cancels(parts: Any) -> list[CancelEnvelope]:
    keys = {parts.key.key_id: parts.key.private.public_key()}
    return [verify_cancel(data, keys) for _, _, data in parts.broker.cancelled]


def cancelled(parts: Any) -> list[str]:
    return [cancel.command_id for cancel in cancels(parts)]


async def test_the_lost_and_only_the_lost_are_cancelled(parts: Any, box: Any) -> None:
    leaver, stayer = await parts.person("acc-a", OPERATOR), await parts.person("acc-a", OPERATOR)
    theirs, kept = await submit(parts, leaver), await submit(parts, stayer)
    done = await submit(parts, leaver, PauseMow())
    await parts.desk.take_result(box.edge_id, result(done, "executed"))
    running = await submit(parts, leaver, PauseMow())
    await parts.desk.take_result(box.edge_id, result(running, "accepted"))
    await parts.cancellations.check()
    assert parts.broker.cancelled == []
    await revoke(parts, leaver)
    await parts.cancellations.check({stayer.subject})
    assert parts.broker.cancelled == []
    await parts.cancellations.check({leaver.subject})
    assert sorted(cancelled(parts)) == sorted([theirs.command_id, running.command_id])
    assert cancels(parts)[0] == CancelEnvelope(
        command_id=cancels(parts)[0].command_id,
        account_id=leaver.account_id,
        edge_id=box.edge_id,
        mower_id=M1,
        reason=RIGHT_LOST,
        issued_at=parts.clock.now(),
    )
    assert {(edge_id, mower_id) for edge_id, mower_id, _ in parts.broker.cancelled} == {(box.edge_id, M1)}
    # only asked: the box says what became of it
    assert (await parts.desk.command("acc-a", theirs.command_id)).status is CommandStatus.PENDING
    assert (await parts.desk.command("acc-a", kept.command_id)).status is CommandStatus.PENDING
    await parts.desk.take_result(box.edge_id, result(theirs, "rejected", reason=RIGHT_LOST))
    assert (await parts.desk.command("acc-a", theirs.command_id)).status is CommandStatus.REJECTED


async def test_said_again_until_the_box_answers_or_it_expires(parts: Any, box: Any) -> None:
    leaver = await parts.person("acc-a", OPERATOR)
    answered, silent = await submit(parts, leaver), await submit(parts, leaver)
    await revoke(parts, leaver)
    parts.broker.is_away = True
    with pytest.raises(NotPublishedError):
        await parts.cancellations.check()
    parts.broker.is_away = False
    await parts.cancellations.check()
    await parts.desk.take_result(box.edge_id, result(answered, "rejected"))
    await parts.cancellations.check()
    assert [cancelled(parts).count(one.command_id) for one in (answered, silent)] == [1, 2]
    parts.clock.advance(30)
    await parts.cancellations.check()
    assert len(parts.broker.cancelled) == 3


async def test_a_stop_is_never_cancelled(parts: Any, box: Any) -> None:
    viewer = await parts.person("acc-a", OPERATOR)
    await submit(parts, viewer, EmergencyStop(), ttl_s=limits.EMERGENCY_TTL.total_seconds())
    await revoke(parts, viewer)
    parts.ended.add("s")
    await parts.cancellations.check()
    assert parts.broker.cancelled == []


async def test_a_mower_that_is_moved_out_of_reach(parts: Any, box: Any) -> None:
    here, _ = await parts.mowers.placement("acc-a", M1)
    helper = await parts.person("acc-a", OPERATOR, ObjectRef(type=ObjectType.SITE, id=here))
    view, other = await submit(parts, helper), await submit(parts, helper, mower_id=M2)
    there = (await parts.sites.create("acc-a", NewSite(name="Elsewhere"))).site_id
    await parts.mowers.change("acc-a", M1, MowerChange(site_id=there))
    await parts.cancellations.check()
    assert cancelled(parts) == [view.command_id]
    assert (await parts.desk.command("acc-a", other.command_id)).status is CommandStatus.PENDING


async def test_a_mower_that_is_removed(parts: Any, box: Any) -> None:
    owner = await parts.person("acc-a")
    view, other = await submit(parts, owner), await submit(parts, owner, mower_id=M2)
    await parts.mowers.delete("acc-a", M1)
    await parts.cancellations.check()
    assert cancelled(parts) == [view.command_id]
    assert (await parts.desk.command("acc-a", other.command_id)).status is CommandStatus.PENDING


async def test_the_commands_of_a_sign_in_that_ended(parts: Any, box: Any) -> None:
    lost = await parts.person("acc-a")
    elsewhere = msgspec.structs.replace(lost, session_id="another")
    script = msgspec.structs.replace(lost, session_id="s", kind="service")
    theirs = await submit(parts, lost)
    await submit(parts, elsewhere)
    await submit(parts, script)
    parts.ended.add("s")
    await parts.cancellations.check({"s"})
    assert [(cancel.command_id, cancel.reason) for cancel in cancels(parts)] == [(theirs.command_id, SIGN_IN_ENDED)]


async def test_a_command_does_not_outlive_the_role(parts: Any, box: Any) -> None:
    now = parts.clock.now()
    helper = await person_with_level(parts, M1, ends_at=now + timedelta(seconds=10))
    view = await submit(parts, helper)
    assert view.expires_at == now + timedelta(seconds=10)
    await give(parts, helper, ObjectRef(type=ObjectType.ACCOUNT, id="acc-a"), ends_at=now + timedelta(seconds=20))
    assert (await submit(parts, helper)).expires_at == now + timedelta(seconds=20)
    await give(parts, helper, ObjectRef(type=ObjectType.ACCOUNT, id="acc-a"))
    assert (await submit(parts, helper)).expires_at == now + timedelta(seconds=30)


async def during(parts: Any, name: str, what: Callable[[], Awaitable[None]]) -> None:
    """Something happens just before the ledger (`add`) or the broker (`publish`) is reached."""
    owner, attribute = (parts.ledger, "add") if name == "add" else (parts.desk, "_publish")
    original = getattr(owner, attribute)

    async def first(*args: Any, **fields: Any) -> Any:
        setattr(owner, attribute, original)
        await what()
        return await original(*args, **fields)

    setattr(owner, attribute, first)


async def test_a_right_that_is_lost_before_the_row_stands(parts: Any, box: Any) -> None:
    leaver = await parts.person("acc-a", OPERATOR)

    async def lose() -> None:
        await revoke(parts, leaver)
        await parts.cancellations.check({leaver.subject})  # finds nothing yet

    await during(parts, "add", lose)
    with pytest.raises(ForbiddenError):
        await submit(parts, leaver)
    assert parts.broker.sent == parts.broker.cancelled == []
    [view] = await parts.desk.commands("acc-a", M1, before=None, limit=10)
    assert (view.status, view.reason) == (CommandStatus.REJECTED, RIGHT_LOST)
    with pytest.raises(ForbiddenError):
        await submit(parts, leaver)
    assert len(await parts.desk.commands("acc-a", M1, before=None, limit=10)) == 1


async def test_a_right_that_is_lost_before_it_leaves(parts: Any, box: Any) -> None:
    leaver = await parts.person("acc-a", OPERATOR)

    async def lose() -> None:
        await revoke(parts, leaver)
        await parts.cancellations.check({leaver.subject})

    await during(parts, "publish", lose)
    view = await submit(parts, leaver)
    assert cancelled(parts) == [view.command_id]  # before the command: the box remembers it


async def test_nothing_leaves_while_nobody_can_say(parts: Any, box: Any) -> None:
    owner = await parts.person("acc-a")

    async def fail(*_: object) -> Any:
        raise UnavailableError("busy")

    check, parts.authorizer.check_many = parts.authorizer.check_many, fail
    with pytest.raises(UnavailableError):
        await submit(parts, owner)
    parts.authorizer.check_many = check
    assert parts.broker.sent == []
    [view] = await parts.desk.commands("acc-a", M1, before=None, limit=10)
    assert view.status is CommandStatus.FAILED


async def test_many_are_looked_at_page_by_page(parts: Any, box: Any) -> None:
    parts.cancellations._page = 3
    leaver = await parts.person("acc-a", OPERATOR)
    views = [await submit(parts, leaver) for _ in range(7)]
    await revoke(parts, leaver)
    await parts.cancellations.check()
    assert cancelled(parts) == sorted(view.command_id for view in views)


async def test_it_looks_when_it_is_told_and_goes_on_after_a_failure(parts: Any, box: Any) -> None:
    leaver, other = await parts.person("acc-a", OPERATOR), await parts.person("acc-a", OPERATOR)
    view, kept = await submit(parts, leaver), await submit(parts, other)
    async with parts.database.write() as connection:
        await connection.execute(delete(grants).where(grants.c.subject.in_([leaver.subject, other.subject])))

    async def until(is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not is_so():
                await asyncio.sleep(0.005)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(parts.cancellations.run(), name="cancellations")
        parts.broker.is_away = True
        parts.cancellations.recheck(frozenset({leaver.subject}))
        await until(lambda: parts.broker.refusals == 1)
        parts.broker.is_away = False
        parts.cancellations.recheck(frozenset({leaver.subject}))
        await until(lambda: len(parts.broker.cancelled) == 1)
        assert cancelled(parts) == [view.command_id]
        parts.cancellations.recheck(None)
        await until(lambda: len(parts.broker.cancelled) == 3)
        assert sorted(cancelled(parts)) == sorted([view.command_id, view.command_id, kept.command_id])
        task.cancel()
