"""Sessions over the API, on a real store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from core.domain.commands import CommandResult, CommandStatus
from core.domain.ids import CommandId, MowerId
from core.telemetry.rows import RecordRow, TimelineRow
from core.telemetry.session import SESSION, EndedBy, Session
from core.web.session_routes import SessionDetail, SessionList
from tests.core.web.world import OWNER, STRANGER, VIEWER, World
from tests.fakes.clock import START

FRONT = MowerId("front")
SESSIONS = "/telemetry/mowers/front/sessions"


async def keep(world: World, *hours: int) -> None:
    """Sessions of half an hour, begun so many hours ago."""
    rows = []
    for number in hours:
        begin = START - timedelta(hours=number)
        end = begin + timedelta(minutes=30)
        session = Session(
            session_id=f"s{number}",
            started_at=begin,
            is_start_known=True,
            seen_at=end,
            ended_at=end,
            ended_by=EndedBy.DOCKED,
            mowing_s=1_800.0,
        )
        rows.append(SESSION.make(FRONT, session.session_id, session, at=begin, updated_at=min(START, end)))
    await world.store.records.put(OWNER.account_id, rows)


async def read(world: World, path: str, kind: Any, **params: str) -> Any:
    response = await world.get(path, params=params)
    assert response.status == 200, await response.text()
    return msgspec.json.decode(await response.read(), type=kind)


async def test_newest_first_page_by_page(world: World) -> None:
    await keep(world, *range(1, 60))
    first = await read(world, SESSIONS, SessionList)
    assert [session.session_id for session in first.items] == [f"s{number}" for number in range(1, 51)]
    assert first.cursor is not None
    rest = await read(world, SESSIONS, SessionList, cursor=first.cursor.isoformat())
    assert [session.session_id for session in rest.items] == [f"s{number}" for number in range(51, 60)]
    assert rest.cursor is None


async def test_a_range(world: World) -> None:
    await keep(world, 1, 2, 3, 24 * 40)
    assert len((await read(world, SESSIONS, SessionList)).items) == 3, "30 days"
    since, until = (START - timedelta(hours=hours) for hours in (2, 1))
    found = await read(world, SESSIONS, SessionList, **{"from": since.isoformat(), "to": until.isoformat()})
    assert [session.session_id for session in found.items] == ["s2"]
    far = (START - timedelta(days=90)).isoformat()
    assert (await read(world, SESSIONS, SessionList, cursor=far)).items == ()
    for wrong in ({"from": START.isoformat()}, {"to": "0001-01-01T00:00:00Z"}, {"limit": "0"}, {"cursor": "x"}):
        assert (await world.get(SESSIONS, params=wrong)).status == 422, wrong


async def test_one_session_with_what_leads_to_its_track_and_commands(world: World) -> None:
    await keep(world, 1)
    for minutes, name in ((-61, "before"), (-45, "within"), (-5, "after")):
        at = START + timedelta(minutes=minutes)
        result = CommandResult(command_id=CommandId(name), mower_id=FRONT, status=CommandStatus.EXECUTED, at=at)
        await world.store.record_results([TimelineRow(result=result)])
    detail = await read(world, f"{SESSIONS}/s1", SessionDetail)
    assert detail.session.mowing_s == 1_800
    assert [result.command_id for result in detail.transitions] == ["within"]
    for path in (detail.positions, detail.history):
        assert (await world.get(path.removeprefix("/api/v1"))).status == 200, path


async def test_who_may_read_and_what_is_not_there(world: World) -> None:
    await keep(world, 1)
    assert (await world.get(SESSIONS, VIEWER)).status == 200
    for path in (SESSIONS, f"{SESSIONS}/s1"):
        assert (await world.get(path, STRANGER)).status == 404
    assert (await world.get(f"{SESSIONS}/s2")).status == 404
    row = RecordRow(mower_id=FRONT, kind=SESSION.name, key="new", at=START, updated_at=START, body=b'{"session_id":7}')
    await world.store.records.put(OWNER.account_id, [row])
    assert len((await read(world, SESSIONS, SessionList)).items) == 1, "a shape of a newer version"
    assert (await world.get(f"{SESSIONS}/new")).status == 404
