"""Who may drive, over which connection, how often; and who may end it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from core.domain.access import Grant
from core.domain.drive import DriveEnd, DriveFrame
from core.domain.errors import (
    ForbiddenError,
    InvalidInputError,
    NotPublishedError,
    RateLimitedError,
    UnavailableError,
)
from core.domain.ids import MowerId
from core.identity.principal import Principal
from core.web.drive_desk import DrivingDesk
from core.web.drive_routes import DriveSessionList
from core.web.route import mower_ref
from tests.core.web.world import OWNER, STRANGER, VIEWER, World, problem
from tests.fakes.authorizer import FakeAuthorizer
from tests.fakes.clock import ManualClock
from tests.fakes.drive_host import FakeDriveHost
from tests.fakes.tokens import make_principal

ANNA, BEN = make_principal("anna"), make_principal("ben")
MOWER = MowerId("m")


class Desk:
    """A desk over a fake host; Anna and Ben may drive the mower."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.host = FakeDriveHost(self.clock)
        self.authorizer = FakeAuthorizer()
        for who in (ANNA, BEN):
            self.authorizer.allow(who, mower_ref(MOWER), Grant.VIEW, Grant.DRIVE)
        self.desk = DrivingDesk(host=self.host, authorizer=self.authorizer, clock=self.clock)
        self._sequence = 0

    async def drive(self, who: Principal = ANNA, *, over: str = "socket", **fields: object) -> None:
        self._sequence += 1
        frame = DriveFrame(**{"sequence": self._sequence, "linear": 0.5, "angular": 0.0, **fields})  # type: ignore[arg-type]
        await self.desk.drive(who, MOWER, frame, connection_id=over)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_a_frame_of_the_driver_is_passed_on_with_its_time(desk: Desk) -> None:
    session = desk.host.open(MOWER, ANNA)
    await desk.drive()
    await desk.drive(sent_ms=7)
    stamped = int(desk.clock.monotonic() * 1000)
    assert [(sid, frame.sent_ms) for sid, frame in desk.host.frames] == [
        (session.session_id, stamped),
        (session.session_id, 7),
    ]


async def test_nobody_else_drives(desk: Desk) -> None:
    with pytest.raises(ForbiddenError, match="no drive session"):
        await desk.drive()
    desk.host.open(MOWER, ANNA)
    with pytest.raises(ForbiddenError, match="no drive session"):
        await desk.drive(BEN)
    namesake = msgspec.structs.replace(ANNA, account_id="another")
    with pytest.raises(ForbiddenError, match="no drive session"):
        await desk.drive(namesake)
    assert desk.host.frames == []


async def test_a_session_is_driven_over_one_connection(desk: Desk) -> None:
    desk.host.open(MOWER, ANNA)
    await desk.drive(over="phone")
    with pytest.raises(ForbiddenError, match="another connection"):
        await desk.drive(over="laptop")
    desk.host.open(MOWER, ANNA)
    await desk.drive(over="laptop")
    assert len(desk.host.frames) == 2


async def test_the_end_of_the_connection_is_the_end_of_the_drive(desk: Desk) -> None:
    session = desk.host.open(MOWER, ANNA)
    await desk.drive(over="phone")
    await desk.desk.close("laptop")
    assert desk.host.ends == []
    await desk.desk.close("phone")
    await desk.desk.close("phone")
    assert desk.host.ends == [(session.session_id, DriveEnd.DISCONNECTED, "")]


async def test_the_end_of_an_old_connection_leaves_a_new_session_alone(desk: Desk) -> None:
    desk.host.open(MOWER, ANNA)
    await desk.drive(over="phone")
    desk.host.open(MOWER, ANNA)
    await desk.drive(over="laptop")
    await desk.desk.close("phone")
    assert desk.host.ends == []


async def test_a_box_that_cannot_be_told_fails_nobodys_goodbye(desk: Desk) -> None:
    desk.host.open(MOWER, ANNA)
    await desk.drive()
    desk.host.error = NotPublishedError("no broker")
    await desk.desk.close("socket")


async def test_the_right_is_asked_for_with_every_frame(desk: Desk) -> None:
    session = desk.host.open(MOWER, ANNA)
    await desk.drive()
    desk.authorizer.grants = {g for g in desk.authorizer.grants if g[2] is not Grant.DRIVE}
    with pytest.raises(ForbiddenError, match="may not drive any more"):
        await desk.drive()
    assert desk.host.ends == [(session.session_id, DriveEnd.RIGHT_LOST, "")]
    assert len(desk.host.frames) == 1


async def test_while_nobody_can_say_nothing_is_driven_and_nothing_is_lost(desk: Desk) -> None:
    desk.host.open(MOWER, ANNA)
    desk.authorizer.is_down = True
    with pytest.raises(UnavailableError):
        await desk.drive()
    desk.authorizer.is_down = False
    await desk.drive()
    assert (len(desk.host.frames), desk.host.ends) == (1, [])


@pytest.mark.parametrize("fields", [{"linear": 1.01}, {"angular": -2.0}, {"ttl_ms": 5_000}, {"sequence": -1}])
async def test_values_outside_are_refused(desk: Desk, fields: dict[str, object]) -> None:
    desk.host.open(MOWER, ANNA)
    with pytest.raises(InvalidInputError) as refused:
        await desk.drive(**fields)
    assert [m.field for m in refused.value.mistakes] == list(fields)
    assert desk.host.frames == []


async def test_twenty_frames_a_second(desk: Desk) -> None:
    desk.host.open(MOWER, ANNA)
    taken = 0
    for _ in range(300):  # three seconds at 100 frames a second
        try:
            await desk.drive()
            taken += 1
        except RateLimitedError:
            pass
        desk.clock.advance(0.01)
    assert 60 <= taken <= 71
    assert len(desk.host.frames) == taken


async def test_a_frame_that_cannot_be_passed_on_in_its_time_is_given_up(desk: Desk) -> None:
    desk.host.open(MOWER, ANNA)
    desk.host.gate = asyncio.Event()
    with pytest.raises(TimeoutError):
        await desk.drive(ttl_ms=100)
    assert desk.host.frames == []


# -- the routes


async def test_who_drives(world: World) -> None:
    path = "/fleet/mowers/front/drive-sessions"
    assert await (await world.get(path)).json() == {"items": []}
    session = world.drive_host.open("front", OWNER)
    answer = await world.get(path, VIEWER)
    assert msgspec.json.decode(await answer.read(), type=DriveSessionList).items == (session,)
    assert (await world.get(path, STRANGER)).status == 404


@pytest.mark.parametrize(
    ("who", "why", "detail"), [(OWNER, DriveEnd.DRIVER, ""), (VIEWER, DriveEnd.PERSON, VIEWER.name)]
)
async def test_whoever_may_stop_a_mower_may_end_a_drive(
    world: World, who: Principal, why: DriveEnd, detail: str
) -> None:
    session = world.drive_host.open("front", OWNER)
    path = f"/fleet/mowers/front/drive-sessions/{session.session_id}"
    assert (await world.delete(path, STRANGER)).status == 404
    assert (await world.delete(path, who)).status == 204
    assert world.drive_host.ends == [(session.session_id, why, detail)]
    assert (await world.delete(path, who)).status == 404


async def test_an_older_session_cannot_be_ended_again(world: World) -> None:
    old = world.drive_host.open("front", OWNER)
    world.drive_host.open("front", OWNER)
    found = await problem(await world.delete(f"/fleet/mowers/front/drive-sessions/{old.session_id}"))
    assert (found.status, found.detail) == (404, "no such drive session")
    assert world.drive_host.ends == []


async def test_a_box_that_was_not_told_is_a_503(world: World) -> None:
    session = world.drive_host.open("front", OWNER)
    world.drive_host.error = NotPublishedError("no broker")
    answer = await world.delete(f"/fleet/mowers/front/drive-sessions/{session.session_id}")
    assert answer.status == 503
