"""Driving by hand with real processes and a real broker: an operator drives through the relay, and it stands in time."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC, datetime

import pytest

from tests.flow.databases import difference, rows
from tests.flow.person import until
from tests.flow.stage import Stage, link, register_mower

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FRAME_S = 0.1
TTL_S = 0.5
GRACE_S = 0.5
REPORT_S = 0.2


@pytest.fixture
def garden(tmp_path):
    """A linked box with a mower that lives in real time, and everybody who matters."""
    with Stage(tmp_path) as stage:
        stage.keep_ports()
        owner = stage.person("owner").register("Garden")
        box = stage.box("Shed")
        box.change_settings(listen_port=box.url.rsplit(":", 1)[1])
        household = stage.person("anna", box.url).register("Home")
        edge_id = link(box, household, owner)
        mower_id = register_mower(owner, edge_id, "Shaun", time_scale=1, report_interval_s=REPORT_S)
        yield Garden(stage, box, owner, household, mower_id)


class Garden:
    """The people and processes of one drive."""

    def __init__(self, stage, box, owner, household, mower_id) -> None:
        self.stage, self.box, self.owner, self.household, self.mower_id = stage, box, owner, household, mower_id
        self.box_database = box.data_dir / "telemetry.sqlite3"
        self.relay_database = stage.relay.data_dir / "telemetry.sqlite3"

    @property
    def sessions(self) -> str:
        return f"/fleet/mowers/{self.mower_id}/drive-sessions"

    def sit_down(self, driver) -> str:
        """An open session whose mower was seen in manual mode; its id."""
        issued = driver.command(self.mower_id, "manual_drive")
        assert issued.status_code == 202, issued.text
        until(
            lambda: [s["session_id"] for s in driver.get(self.sessions)["items"]],
            lambda s: s == [issued.json()["command_id"]],
        )
        until(lambda: self.household.get(self.sessions)["items"])  # the box has seen it in manual mode
        return issued.json()["command_id"]

    async def drive(self, socket, seconds: float, first: int, linear: float = -1.0) -> float:
        """Holds the stick at ten frames a second; when the last one was sent (UTC seconds)."""
        begun, count, sent_at = time.monotonic(), 0, 0.0
        while time.monotonic() - begun < seconds:
            frame = {"sequence": first + count, "linear": linear, "angular": 0.1, "ttl_ms": int(TTL_S * 1000)}
            await socket.say(type="drive", mower_id=self.mower_id, frame=frame)
            sent_at, count = time.time(), count + 1
            await asyncio.sleep(FRAME_S)
        return sent_at

    async def watch(self, seconds: float) -> list[dict]:
        """What the box itself shows of the mower in that time."""
        async with self.household.socket() as socket:
            await socket.say(type="subscribe", mower_ids=[self.mower_id])
            return [m["state"] for m in await socket.listen(seconds) if m["type"] == "state"]


def seconds_of(state) -> float:
    return datetime.fromisoformat(state["observed_at"]).astimezone(UTC).timestamp()


def is_moving(state) -> bool:
    return bool(state["speed_mps"])


def metres(states) -> float:
    """From the first to the last known place."""
    places = [s["position"] for s in states if s["position"]]
    north = (places[-1]["lat"] - places[0]["lat"]) * 111_320
    east = (places[-1]["lon"] - places[0]["lon"]) * 111_320 * math.cos(math.radians(places[0]["lat"]))
    return math.hypot(north, east)


async def test_an_operator_drives_through_the_relay(garden):
    operator, rival = garden.owner.make_member("operator", "operator"), garden.owner.make_member("rival", "operator")
    viewer = garden.owner.make_member("viewer", "viewer")
    session_id = await asyncio.to_thread(garden.sit_down, operator)

    async with operator.socket() as socket:
        watching = asyncio.ensure_future(garden.watch(5.0))
        last_at = await garden.drive(socket, 2.0, first=1)
        states = await watching
        assert socket.seen[1:] == [], "no frame was refused"
        it_moved_and_stood_in_time(states, last_at)
        assert all(state["blades_on"] is not True for state in states)

        nobody_else_drives(garden, operator, rival, viewer)
        async with rival.socket() as other:
            await other.say(
                type="drive", mower_id=garden.mower_id, frame={"sequence": 1, "linear": 1.0, "angular": 0.0}
            )
            assert (await other.see(lambda m: m["type"] == "error"))["code"] == "unauthorized"

        stop = viewer.command(garden.mower_id, "emergency_stop")
        assert stop.status_code == 202
        viewer.await_command(stop.json()["command_id"], "executed")
        ended = operator.await_command(session_id, "executed")
        assert ended["reason"] == "ended by an emergency stop"
        watching = asyncio.ensure_future(garden.watch(1.5))
        await garden.drive(socket, 0.5, first=1_000)
        assert (await socket.see(lambda m: m["type"] == "error"))["code"] == "unauthorized"
        assert [s for s in await watching if is_moving(s)] == []
    await the_books_agree(garden)


def it_moved_and_stood_in_time(states, last_at: float) -> None:
    moving = [s for s in states if is_moving(s)]
    assert len(moving) >= 3
    assert metres(states) > 0.2
    late_s = max(seconds_of(s) for s in moving) - last_at
    assert late_s < TTL_S + GRACE_S, f"it still moved {late_s:.2f} s after the last frame"
    standing = [s for s in states if seconds_of(s) > last_at + TTL_S + GRACE_S]
    assert [is_moving(s) for s in standing] == [False] * len(standing)
    assert not is_moving(states[-1])


def nobody_else_drives(garden, operator, rival, viewer) -> None:
    refused = rival.command(garden.mower_id, "manual_drive")
    assert (refused.status_code, refused.json()["detail"]) == (409, "operator is driving this mower")
    assert viewer.command(garden.mower_id, "manual_drive").status_code == 403
    mow = rival.command(garden.mower_id, "start_mow").json()
    rejected = rival.await_command(mow["command_id"], "rejected")
    assert rejected["reason"] == "somebody is driving the mower by hand"
    [session] = viewer.get(garden.sessions)["items"]
    assert session["driver"]["subject"] == operator.user_id


async def the_books_agree(garden) -> None:
    def agree() -> bool:
        return difference(garden.box_database, garden.relay_database) == {}

    garden.box.stop()  # what is recorded last goes up when it is back
    garden.box.start()
    garden.household.sign_in()
    await asyncio.to_thread(until, agree, timeout_s=60)
    assert len(rows(garden.relay_database, "command_timeline")) >= 2


async def test_the_socket_of_the_driver_breaks(garden):
    session_id = await asyncio.to_thread(garden.sit_down, garden.owner)
    watching = asyncio.ensure_future(garden.watch(4.0))
    async with garden.owner.socket() as socket:
        last_at = await garden.drive(socket, 1.0, first=1)
        socket.ws._response.connection.transport.abort()
    states = await watching
    it_moved_and_stood_in_time(states, last_at)
    ended = garden.owner.await_command(session_id, "executed")
    assert ended["reason"] == "the driver's connection ended"
    assert garden.owner.get(garden.sessions) == {"items": []}
    start = garden.owner.command(garden.mower_id, "start_mow").json()
    assert garden.owner.await_command(start["command_id"], "executed", "rejected", "failed")["status"] == "executed"


async def test_nothing_is_driven_after_the_box_was_killed(garden):
    session_id = await asyncio.to_thread(garden.sit_down, garden.owner)
    async with garden.owner.socket() as socket:
        await garden.drive(socket, 0.5, first=1)
        garden.box.kill()
        await asyncio.to_thread(garden.box.start)
        garden.household.sign_in()
        watching = asyncio.ensure_future(garden.watch(3.0))
        await garden.drive(socket, 2.0, first=100)
        assert [s for s in await watching if is_moving(s) or s["activity"] == "manual"] == []
    ended = garden.owner.await_command(session_id, "failed")
    assert ended["reason"] == "interrupted"
    await the_books_agree(garden)
