"""Alerts over the API: who sees them, their order, answers, evidence."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core.domain.ids import MowerId
from core.domain.mower import Activity, Connectivity, MowerState, Position
from core.telemetry.alert import ALERT_ANSWER, Alert, AlertKind, Severity, closed, row_of
from core.telemetry.evidence_chain import find_flaw
from core.web.alert_routes import ANSWERS_BURST, AlertList, AlertView, EvidenceLines
from tests.core.web.world import OWNER, STRANGER, VIEWER, World, problem
from tests.fakes.clock import START
from tests.fakes.tokens import make_principal

FRONT, BACK, OTHER = MowerId("front"), MowerId("back"), MowerId("other")
ACK = "/alerts/{}/acknowledge"


def alert(alert_id: str, minutes: int, *, is_closed: bool = False) -> Alert:
    at = START - timedelta(hours=2) + timedelta(minutes=minutes)
    made = Alert(
        alert_id=alert_id,
        kind=AlertKind.ERROR,
        cause="E1",
        severity=Severity.WARNING,
        since=at,
        opened_at=at,
        updated_at=at,
    )
    return closed(made, "recovery", at + timedelta(minutes=1)) if is_closed else made


async def keep(world: World) -> None:
    front = [row_of(FRONT, alert("f1", 0)), row_of(FRONT, alert("f2", 9, is_closed=True))]
    await world.store.records.put(OWNER.account_id, [*front, row_of(BACK, alert("b1", 5))])
    await world.store.records.put(STRANGER.account_id, [row_of(OTHER, alert("o1", 7))])


async def ids(world: World, path: str, who=OWNER) -> list[str]:
    response = await world.get(path, who)
    assert response.status == 200, await response.text()
    found = msgspec.json.decode(await response.read(), type=AlertList)
    return [item.alert_id for item in found.items]


async def test_open_ones_first_then_the_newest_and_only_of_mowers_that_one_may_see(world: World) -> None:
    await keep(world)
    assert await ids(world, "/alerts") == ["b1", "f1", "f2"]
    assert await ids(world, "/alerts", VIEWER) == ["f1", "f2"]
    assert await ids(world, "/alerts", STRANGER) == ["o1"]
    assert await ids(world, "/mowers/front/alerts") == ["f1", "f2"]
    assert await ids(world, "/alerts?is_open=true") == ["b1", "f1"]
    assert await ids(world, "/alerts?is_open=false") == ["f2"]
    assert (await world.get("/mowers/front/alerts", STRANGER)).status == 404


async def test_page_after_page_gives_each_once(world: World) -> None:
    await keep(world)
    seen: list[str] = []
    path = "/alerts?limit=1"
    while True:
        found = msgspec.json.decode(await (await world.get(path)).read(), type=AlertList)
        seen += [item.alert_id for item in found.items]
        if found.cursor is None:
            break
        path = f"/alerts?limit=1&cursor={found.cursor}"
    assert seen == ["b1", "f1", "f2"]
    for wrong in ("x", "2.1.a", "0.-1.a", "0.1."):
        assert (await problem(await world.get(f"/alerts?cursor={wrong}"))).code == "invalid-input"


async def test_who_controls_acknowledges_once_and_the_box_is_told(world: World) -> None:
    await keep(world)
    first = await world.post(ACK.format("f1"), {"note": "on my way"})
    shown = msgspec.json.decode(await first.read(), type=AlertView)
    assert shown.acknowledged is not None
    assert (shown.acknowledged.by, shown.acknowledged.note, shown.closed) == (OWNER.name, "on my way", None)
    world.clock.advance(60)
    again = msgspec.json.decode(await (await world.post(ACK.format("f1"), {"note": "no"})).read(), type=AlertView)
    assert again == shown, "the first answer stands"
    assert world.entered == [(OWNER.account_id, FRONT)]


async def test_closing_is_acknowledging_too_and_what_has_ended_by_itself_is_not_closed_again(world: World) -> None:
    await keep(world)
    shown = msgspec.json.decode(await (await world.post(ACK.format("b1"), {"close": True})).read(), type=AlertView)
    assert shown.closed is not None
    assert (shown.closed.why, shown.closed.by) == ("person", OWNER.name)
    assert await ids(world, "/alerts?is_open=true") == ["f1"]
    ended = msgspec.json.decode(await (await world.post(ACK.format("f2"), {"close": True})).read(), type=AlertView)
    assert ended.closed is not None
    assert ended.closed.why == "recovery"


async def test_who_only_looks_may_not_answer_and_strangers_find_nothing(world: World) -> None:
    await keep(world)
    assert (await world.post(ACK.format("f1"), {}, VIEWER)).status == 403
    for who, alert_id in ((STRANGER, "f1"), (VIEWER, "b1"), (OWNER, "o1"), (OWNER, "none"), (OWNER, "a.b")):
        assert (await world.post(ACK.format(alert_id), {}, who)).status == 404
        assert (await world.get(f"/alerts/{alert_id}/evidence", who)).status == 404
    assert world.entered == []
    rows, _ = await world.store.records.list_kind(
        OWNER.account_id, FRONT, ALERT_ANSWER.name, START - timedelta(days=9), START + timedelta(days=9), limit=9
    )
    assert rows == []


async def test_many_answers_are_held_up(world: World) -> None:
    await keep(world)
    for _ in range(ANSWERS_BURST):
        assert (await world.post(ACK.format("f1"), {})).status == 200
    assert (await world.post(ACK.format("f1"), {})).status == 429


async def test_evidence_holds_what_was_seen_around_the_alert_and_every_change_of_it_is_found(world: World) -> None:
    await keep(world)
    states = [
        MowerState(
            observed_at=START - timedelta(hours=2) + timedelta(seconds=10 * number),
            activity=Activity.MOWING,
            connectivity=Connectivity.ONLINE if number < 5 else Connectivity.OFFLINE,
            position=Position(lat=52 + number * 1e-5, lon=8.0, accuracy_m=0.1) if number < 5 else None,
        )
        for number in range(10)
    ]
    await world.store.record_states([(FRONT, OWNER.account_id, state) for state in states], received_at=START)
    found = msgspec.json.decode(await (await world.get("/alerts/f1/evidence", VIEWER)).read(), type=EvidenceLines)
    lines = [line.encode() for line in found.lines]
    kinds = [msgspec.json.decode(line)["what"] for line in lines]
    assert (kinds[0], kinds[-1]) == ("alert", "end")
    assert kinds.count("position") == 5
    assert kinds.count("link") == 2
    assert find_flaw(lines) is None
    assert find_flaw([*lines[:3], *lines[4:]]) is not None


async def test_a_service_without_rights_sees_no_alert(world: World) -> None:
    await keep(world)
    nobody = make_principal("nobody")
    assert await ids(world, "/alerts", nobody) == []
