"""Commands: checked, signed, published once; results move them on and never back; silence is not made up."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloud_relay.commands.ledger import OUTCOME_UNKNOWN
from cloud_relay.driving import RelayDriveHost
from core.domain import limits
from core.domain.capabilities import Capabilities, Drive
from core.domain.commands import (
    FINAL,
    NO_ANSWER,
    CommandResult,
    CommandStatus,
    EmergencyStop,
    FindMower,
    ManualDrive,
    PauseMow,
    Priority,
    SetBladeHeight,
    StartMow,
)
from core.domain.drive import DriveFrame
from core.domain.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, NotPublishedError
from core.domain.ids import CommandId, MowerId
from core.sync.envelope import verify
from tests.cloud_relay.relay_parts import hello, item

M1 = MowerId("mower-1")
TTL = timedelta(seconds=30)


@pytest.fixture
async def owner(parts):
    return await parts.person("acc-a")


@pytest.fixture
async def box(parts, owner):
    grant = await parts.link(owner)
    await parts.inventory.take(grant.edge_id, hello(parts.clock, item(M1)))
    return grant


async def submit(parts, who, command, mower_id=M1, ttl=TTL):
    return await parts.desk.submit(who, mower_id, command, time_to_live=ttl, correlation_id="corr")


def result(view, status, *, mower_id=M1, reason=None, at=None):
    return CommandResult(
        command_id=view.command_id,
        mower_id=mower_id,
        status=CommandStatus(status),
        at=at or view.issued_at,
        reason=reason,
    )


async def status(parts, view):
    return (await parts.desk.command("acc-a", view.command_id)).status


async def test_issued_signed_and_published_once(parts, owner, box):
    view = await submit(parts, owner, StartMow(area_ids=("front",)))
    [(topic, mower_id, data)] = parts.broker.sent
    assert (topic, mower_id) == ("command", M1)
    envelope = verify(data, {parts.key.key_id: parts.key.private.public_key()})
    assert (envelope.command_id, envelope.account_id, envelope.edge_id) == (view.command_id, "acc-a", box.edge_id)
    assert envelope.command == StartMow(area_ids=("front",))
    assert envelope.priority is Priority.NORMAL
    assert envelope.expires_at == parts.clock.now() + TTL
    assert envelope.issued_by.subject == owner.subject
    assert await parts.desk.command("acc-a", view.command_id) == view
    assert view.status is CommandStatus.PENDING


async def test_refused_leaves_no_row_and_no_message(parts, owner, box):
    for command, error in (
        (FindMower(), ConflictError),
        (SetBladeHeight(height_mm=90), InvalidInputError),
        (StartMow(duration_s=5), InvalidInputError),
    ):
        with pytest.raises(error):
            await submit(parts, owner, command)
    stranger = await parts.person("acc-b")
    with pytest.raises(NotFoundError):
        await submit(parts, stranger, StartMow())
    with pytest.raises(NotFoundError):
        await submit(parts, stranger, EmergencyStop())
    assert parts.broker.sent == []
    assert await parts.desk.commands("acc-a", M1, before=None, limit=10) == []


async def test_mower_without_a_box(parts, owner, box):
    await parts.registry.end("acc-a", box.edge_id)
    with pytest.raises(ConflictError):
        await submit(parts, owner, StartMow())


async def test_broker_away_fails_for_good(parts, owner, box):
    parts.broker.is_away = True
    with pytest.raises(NotPublishedError):
        await submit(parts, owner, StartMow())
    parts.broker.is_away = False
    [view] = await parts.desk.commands("acc-a", M1, before=None, limit=10)
    assert (view.status, view.reason) == (CommandStatus.FAILED, "not published")
    await parts.desk.sweep()
    assert parts.broker.sent == []
    assert [r.status for _, r in parts.announced] == [CommandStatus.FAILED]


async def test_stop_goes_first_over_its_own_lane(parts, owner, box):
    order = []

    def noting(word, call):
        async def noted(*args, **kwargs):
            order.append(word)
            return await call(*args, **kwargs)

        return noted

    parts.desk._publish_stop = noting("stop lane", parts.desk._publish_stop)
    parts.desk._publish = noting("main lane", parts.desk._publish)
    parts.desk._ledger.add = noting("row", parts.desk._ledger.add)
    view = await submit(parts, owner, EmergencyStop(), ttl=limits.EMERGENCY_TTL)
    assert order == ["stop lane", "main lane", "row"]  # the books come last: no database holds a stop up
    assert [topic for topic, _, _ in parts.broker.sent] == ["stop", "command"]
    assert parts.broker.sent[0][2] == parts.broker.sent[1][2]  # one id: the box takes it once
    assert (
        verify(parts.broker.sent[0][2], {parts.key.key_id: parts.key.private.public_key()}).priority
        is Priority.EMERGENCY
    )
    assert await status(parts, view) is CommandStatus.PENDING


async def test_stop_survives_one_lost_lane(parts, owner, box):
    parts.broker.is_stop_lane_away = True
    view = await submit(parts, owner, EmergencyStop())
    assert [topic for topic, _, _ in parts.broker.sent] == ["command"]
    assert await status(parts, view) is CommandStatus.PENDING


async def test_stop_lane_that_hangs_does_not_hold_the_stop_up(parts, owner, box):
    released = asyncio.Event()

    async def hang(edge_id, mower_id, data):
        await released.wait()
        raise NotPublishedError("no answer")

    send = parts.broker.publish

    async def send_and_release(edge_id, mower_id, data):
        await send(edge_id, mower_id, data)
        released.set()

    parts.desk._publish_stop, parts.desk._publish = hang, send_and_release
    async with asyncio.timeout(5):
        view = await submit(parts, owner, EmergencyStop())
    assert await status(parts, view) is CommandStatus.PENDING


async def test_stop_that_cannot_leave_is_failed(parts, owner, box):
    parts.broker.is_away = True
    with pytest.raises(NotPublishedError):
        await submit(parts, owner, EmergencyStop())
    [view] = await parts.desk.commands("acc-a", M1, before=None, limit=10)
    assert (view.status, view.reason) == (CommandStatus.FAILED, "not published")


async def test_answer_that_overtakes_the_row_of_a_stop(parts, owner, box):
    send = parts.broker.publish

    async def answer_at_once(edge_id, mower_id, data):
        envelope = verify(data, {parts.key.key_id: parts.key.private.public_key()})
        await parts.desk.take_result(edge_id, result(envelope, "accepted"))
        await parts.desk.take_result(edge_id, result(envelope, "executed"))
        await send(edge_id, mower_id, data)

    parts.desk._publish = answer_at_once
    view = await submit(parts, owner, EmergencyStop())
    assert await status(parts, view) is CommandStatus.EXECUTED
    assert [r.status for _, r in parts.announced] == [CommandStatus.ACCEPTED, CommandStatus.EXECUTED]


async def test_stop_leaves_although_it_cannot_be_written(parts, owner, box):
    async with parts.database.write() as connection:
        await connection.exec_driver_sql("ALTER TABLE fleet_commands RENAME TO lost")
    view = await submit(parts, owner, EmergencyStop())
    assert view.status is CommandStatus.PENDING
    assert len(parts.broker.sent) == 2
    parts.broker.is_away = True
    with pytest.raises(NotPublishedError):
        await submit(parts, owner, EmergencyStop())


async def test_results_move_on_and_are_announced_once(parts, owner, box):
    view = await submit(parts, owner, StartMow())
    for word in ("accepted", "accepted", "executed", "executed", "accepted", "failed"):
        await parts.desk.take_result(box.edge_id, result(view, word))
    assert await status(parts, view) is CommandStatus.EXECUTED
    assert [(a, r.status.value) for a, r in parts.announced] == [("acc-a", "accepted"), ("acc-a", "executed")]


async def test_only_its_own_box_may_answer(parts, owner, box):
    view = await submit(parts, owner, StartMow())
    thief = await parts.link(await parts.person("acc-b"), "box-fingerprint-2")
    await parts.desk.take_result(thief.edge_id, result(view, "executed"))
    await parts.desk.take_result(box.edge_id, result(view, "executed", mower_id=MowerId("other")))
    await parts.desk.take_result(
        box.edge_id,
        result(view, "executed").__class__(
            command_id=CommandId("unknown"), mower_id=M1, status=CommandStatus.EXECUTED, at=view.issued_at
        ),
    )
    assert await status(parts, view) is CommandStatus.PENDING
    assert parts.announced == []


async def test_a_wrong_clock_of_the_box_does_not_date_the_future(parts, owner, box):
    view = await submit(parts, owner, StartMow())
    await parts.desk.take_result(box.edge_id, result(view, "accepted", at=view.issued_at + timedelta(days=400)))
    assert (await parts.desk.command("acc-a", view.command_id)).updated_at == parts.clock.now()


async def test_no_answer_is_an_inference_that_yields(parts, owner, box):
    view = await submit(parts, owner, StartMow())
    parts.clock.advance(60)
    await parts.desk.sweep()
    assert await status(parts, view) is CommandStatus.PENDING
    parts.clock.advance(1)
    await parts.desk.sweep()
    await parts.desk.sweep()
    found = await parts.desk.command("acc-a", view.command_id)
    assert (found.status, found.reason) == (CommandStatus.EXPIRED, NO_ANSWER)
    assert len(parts.announced) == 1
    await parts.desk.take_result(box.edge_id, result(view, "executed"))  # the box comes back and says what happened
    assert await status(parts, view) is CommandStatus.EXECUTED


async def test_accepted_without_an_end_stays_accepted_and_says_so(parts, owner, box):
    view = await submit(parts, owner, StartMow())
    await parts.desk.take_result(box.edge_id, result(view, "accepted"))
    parts.clock.advance(80)
    await parts.desk.sweep()
    assert (await parts.desk.command("acc-a", view.command_id)).reason is None
    parts.clock.advance(1)
    await parts.desk.sweep()
    await parts.desk.sweep()
    found = await parts.desk.command("acc-a", view.command_id)
    assert (found.status, found.reason) == (CommandStatus.ACCEPTED, OUTCOME_UNKNOWN)
    assert [r.reason for _, r in parts.announced] == [None, OUTCOME_UNKNOWN]
    await parts.desk.take_result(box.edge_id, result(view, "failed", reason="stuck"))
    found = await parts.desk.command("acc-a", view.command_id)
    assert (found.status, found.reason) == (CommandStatus.FAILED, "stuck")


async def test_keyset_paging(parts, owner, box):
    issued = []
    for _ in range(5):
        issued.append((await submit(parts, owner, PauseMow())).command_id)
        parts.clock.advance(1)
    newest_first = issued[::-1]
    first = await parts.desk.commands("acc-a", M1, before=None, limit=2)
    second = await parts.desk.commands("acc-a", M1, before=first[-1].command_id, limit=2)
    third = await parts.desk.commands("acc-a", M1, before=second[-1].command_id, limit=2)
    assert [v.command_id for v in (*first, *second, *third)] == newest_first
    assert await parts.desk.commands("acc-b", M1, before=None, limit=10) == []
    with pytest.raises(NotFoundError):
        await parts.desk.command("acc-b", issued[0])


async def test_kept_for_90_days_and_longer_than_the_mower(parts, owner, box):
    view = await submit(parts, owner, StartMow())
    await parts.mowers.delete("acc-a", M1)
    parts.clock.advance(89 * 86400)
    assert await parts.ledger.retain(parts.clock.now()) == 0
    assert await parts.desk.command("acc-a", view.command_id)
    parts.clock.advance(2 * 86400)
    assert await parts.ledger.retain(parts.clock.now()) == 1
    with pytest.raises(NotFoundError):
        await parts.desk.command("acc-a", view.command_id)


async def test_unknown_abilities_cannot(parts, owner, box):
    await parts.inventory.take(box.edge_id, hello(parts.clock, item(M1, abilities=Capabilities())))
    with pytest.raises(ConflictError):
        await submit(parts, owner, EmergencyStop())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from([s.value for s in CommandStatus]), max_size=8))
async def test_any_order_of_results_ends_with_the_first_final_one(parts, words):
    owner = await parts.person("acc-a")
    grant = next(iter(parts.registry.linked()), None)
    if grant is None:
        grant = (await parts.link(owner)).edge_id
        await parts.inventory.take(grant, hello(parts.clock, item(M1)))
    view = await submit(parts, owner, StartMow())
    await asyncio.gather(*(parts.desk.take_result(grant, result(view, word)) for word in words))
    final = [w for w in words if CommandStatus(w) in FINAL]
    expected = final[0] if final else ("accepted" if "accepted" in words else "pending")
    assert await status(parts, view) == expected


async def drive(parts, owner):
    """A drive session that the box has accepted."""
    drivable = Capabilities(manual_drive=Drive(max_speed_mps=0.5, motor_timeout_s=1.0))
    grant = await parts.link(owner)
    await parts.inventory.take(grant.edge_id, hello(parts.clock, item(M1, abilities=drivable)))
    view = await submit(parts, owner, ManualDrive(), ttl=limits.DRIVE_TTL)
    await parts.desk.take_result(grant.edge_id, result(view, "accepted"))
    return grant, view


async def test_a_drive_is_not_overdue_while_it_lasts(parts, owner):
    grant, view = await drive(parts, owner)
    parts.clock.advance(limits.DRIVE_SESSION.total_seconds())
    await parts.desk.sweep()
    assert (await parts.desk.command("acc-a", view.command_id)).reason is None
    parts.clock.advance(120)
    await parts.desk.sweep()
    assert (await parts.desk.command("acc-a", view.command_id)).reason == OUTCOME_UNKNOWN
    await parts.desk.take_result(grant.edge_id, result(view, "executed", reason="its time was over"))
    assert await status(parts, view) is CommandStatus.EXECUTED


async def test_who_drives_stands_in_the_books_and_outlives_the_process(parts, owner):
    _, view = await drive(parts, owner)
    sent = []

    async def publish(*message):
        sent.append(message)

    def another_life():
        return RelayDriveHost(ledger=parts.ledger, key=parts.key, publish=publish, clock=parts.clock)

    session = await another_life().session("acc-a", M1)
    assert (session.session_id, session.driver.subject) == (view.command_id, owner.subject)
    assert session.ends_at == view.issued_at + limits.DRIVE_SESSION
    assert await another_life().session("acc-b", M1) is None
    with pytest.raises(ForbiddenError):
        await another_life().steer(session, DriveFrame(sequence=1, linear=0.0, angular=0.0))  # it has to be asked for
    parts.clock.advance(limits.DRIVE_SESSION.total_seconds())
    assert await another_life().session("acc-a", M1) is None
    assert sent == []
