"""Commands of the household's own API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from core.domain.access import ObjectRef, ObjectType, Relation
from core.domain.capabilities import Capabilities
from core.domain.commands import RIGHT_LOST, Command, CommandStatus, EmergencyStop, FindMower, SetBladeHeight, StartMow
from core.domain.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from core.domain.ids import AccountId, MowerId, UserId
from core.domain.mower import Activity
from core.identity.principal import Principal
from core.web.ports import CommandView
from edge_agent.runtime.command_desk import LocalCommandDesk
from tests.edge_agent.runtime.box import EDGE, MOWER, OURS, CommandBox, command_box
from tests.fakes.clock import START

WHO = Principal(
    subject=UserId("u"), account_id=OURS, kind="user", name="Anna", session_id="s", expires_at=START + timedelta(days=1)
)


class Desk:
    def __init__(self, box: CommandBox) -> None:
        self.box = box
        self.desk = LocalCommandDesk(
            commander=box.commander,
            ledger=box.safe,
            clock=box.keeper,
            edge_id=lambda: EDGE,
            capabilities=lambda _: box.capabilities,
            authorizer=self,  # type: ignore[arg-type]
        )
        self.may: bool | Exception = True
        self.asked: list[tuple[Relation, ObjectRef]] = []

    async def check(self, _who: Principal, relation: Relation, what: ObjectRef) -> bool:
        self.asked.append((relation, what))
        if isinstance(self.may, Exception):
            raise self.may
        return self.may

    async def submit(self, command: Command, who: Principal = WHO, mower_id: MowerId = MOWER) -> CommandView:
        self.box.clock.advance(1)
        return await self.desk.submit(who, mower_id, command, time_to_live=timedelta(seconds=30), correlation_id="corr")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with command_box(tmp_path) as box:
        box.show(Activity.DOCKED)
        yield Desk(box)


async def test_a_command_and_what_became_of_it(desk: Desk) -> None:
    view = await desk.submit(FindMower())
    assert (view.issued_by.subject, view.issued_by.display, view.issued_by.kind) == ("u", "Anna", "user")
    assert view.expires_at - view.issued_at == timedelta(seconds=30)
    await desk.box.until(lambda: len(desk.box.results) == 2)
    found = await desk.desk.command(OURS, view.command_id)
    assert found.status is CommandStatus.EXECUTED
    assert found.command == FindMower()


async def test_refused_before_anything_is_written(desk: Desk) -> None:
    with pytest.raises(InvalidInputError):
        await desk.submit(SetBladeHeight(height_mm=5))
    desk.box.capabilities = Capabilities()
    with pytest.raises(ConflictError):
        await desk.submit(FindMower())
    assert await desk.desk.commands(OURS, MOWER, before=None, limit=10) == []
    assert desk.box.results == []


async def test_other_accounts_see_and_do_nothing(desk: Desk) -> None:
    stranger = msgspec.structs.replace(WHO, account_id=AccountId("theirs"))
    view = await desk.submit(FindMower(), stranger)
    assert view.status is CommandStatus.REJECTED
    mine = await desk.submit(FindMower())
    with pytest.raises(NotFoundError):
        await desk.desk.command(AccountId("theirs"), mine.command_id)
    assert await desk.desk.commands(AccountId("theirs"), MOWER, before=None, limit=10) == []


async def test_newest_first_and_paged(desk: Desk) -> None:
    made = [(await desk.submit(FindMower())).command_id for _ in range(5)]
    first = await desk.desk.commands(OURS, MOWER, before=None, limit=3)
    assert [view.command_id for view in first] == made[:1:-1]
    rest = await desk.desk.commands(OURS, MOWER, before=first[-1].command_id, limit=3)
    assert [view.command_id for view in rest] == made[1::-1]


async def test_a_mower_that_was_never_reached(desk: Desk) -> None:
    desk.box.link = None
    desk.box.capabilities = None  # type: ignore[assignment]
    view = await desk.submit(EmergencyStop())
    assert (view.status, view.reason) == (CommandStatus.REJECTED, "mower is offline")


async def test_while_the_box_ends(desk: Desk) -> None:
    await desk.box.stop()
    with pytest.raises(UnavailableError):
        await desk.submit(FindMower())


async def held_up(desk: Desk) -> CommandView:
    """A command that waits behind one that is being sent."""
    link = desk.box.link
    assert link is not None
    link.gate.clear()
    await desk.submit(FindMower())
    await link.arrived.wait()
    return await desk.submit(StartMow(duration_s=60))


async def test_a_right_that_was_taken_away_meanwhile(desk: Desk) -> None:
    waiting = await held_up(desk)
    desk.may = False
    desk.box.link.gate.set()  # type: ignore[union-attr]
    await desk.box.until(lambda: desk.box.results[-1].command_id == waiting.command_id)
    found = await desk.desk.command(OURS, waiting.command_id)
    assert (found.status, found.reason) == (CommandStatus.REJECTED, RIGHT_LOST)
    assert desk.box.starts() == []
    assert desk.asked[-1] == (Relation.CAN_CONTROL, ObjectRef(type=ObjectType.MOWER, id=MOWER))


async def test_rights_that_nobody_can_look_up_are_not_taken_away(desk: Desk) -> None:
    waiting = await held_up(desk)
    desk.may = UnavailableError("the database is busy")
    desk.box.link.gate.set()  # type: ignore[union-attr]
    desk.box.show(Activity.DOCKED)
    await desk.box.until(lambda: desk.box.starts() == [60])
    assert waiting.status is CommandStatus.PENDING
