"""Heatmaps over HTTP, on a real SQLite store."""

from __future__ import annotations

import asyncio
import io
import threading
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from PIL import Image

from core.domain.errors import RateLimitedError
from core.domain.ids import AccountId, MowerId
from core.domain.mower import Activity, MowerState, Position, RtkFix, Signals
from core.telemetry.track_columns import TrackColumns
from core.web.heatmap_desk import WAITING, HeatmapDesk
from core.web.heatmap_routes import HeatmapView, accepted_kind
from tests.core.web.test_telemetry_routes import record
from tests.core.web.world import OWNER, STRANGER, World, problem
from tests.fakes.clock import START

PATH = "/telemetry/mowers/front/heatmap"


async def mow(world: World, count: int = 40) -> None:
    """A lane of 20 m northwards, a row a second, half of it with a fix."""
    world.clock.advance(count)
    for n in range(count):
        place = Position(lat=48.0 + n * 0.5 / 111_200, lon=11.0)
        await record(
            world,
            MowerState(
                observed_at=START + timedelta(seconds=n),
                activity=Activity.MOWING,
                blades_on=True,
                position=place,
                rtk_fix=RtkFix.FIXED if n < count / 2 else RtkFix.FLOAT,
                signals=Signals(wifi_dbm=-60 - n, mobile_dbm=-100),
            ),
        )


async def read(world: World, **params: str) -> HeatmapView:
    answer = await world.get(PATH, params=params)
    assert (answer.status, answer.content_type) == (200, "application/json"), await answer.text()
    return msgspec.json.decode(await answer.read(), type=HeatmapView)


async def test_a_mown_lane(world: World) -> None:
    await mow(world)
    found = await read(world)
    assert (found.layer, found.cell_m, found.rows, found.left_out) == ("coverage", 0.25, 40, 0)
    assert len(found.values) == found.width * found.height > 80
    assert {value for value in found.values if value is not None} == {1.0}
    assert (await read(world, cell_m="0.1")).covered_m2 == pytest.approx(19.5 * 0.22, rel=0.15)
    assert found.last_mown_s is not None
    last = [second for second in found.last_mown_s if second is not None]
    assert (min(last), max(last)) == (int(START.timestamp()) + 1, int(START.timestamp()) + 39)
    assert found.lat == pytest.approx(48.0, abs=1e-5)
    assert (found.legend.unit, found.legend.least, found.legend.most) == ("passes", 1.0, 1.0)


async def test_signals_and_fix(world: World) -> None:
    await mow(world)
    rtk = await read(world, layer="rtk")
    assert {value for value in rtk.values if value is not None} >= {0.0, 1.0}
    wifi = await read(world, layer="wifi", cell_m="100")
    assert wifi.values == [-69.5, -89.5]
    assert (await read(world, layer="mobile", cell_m="100")).values == [-100.0, -100.0]


async def test_a_picture_by_accept_and_by_format(world: World) -> None:
    await mow(world)
    token = {"Authorization": f"Bearer {world.token(OWNER)}"}
    for layer in ("coverage", "rtk", "wifi", "mobile"):
        answer = await world.client.get(
            f"/api/v1{PATH}", params={"layer": layer}, headers=token | {"Accept": "image/png"}
        )
        assert (answer.status, answer.content_type) == (200, "image/png")
        picture = Image.open(io.BytesIO(await answer.read()))
        assert len(picture.getcolors(100_000) or []) > 20
    empty = await world.get(PATH, params={"format": "png", "to": "2020-01-01T00:00:00Z"})
    assert Image.open(io.BytesIO(await empty.read())).size == (960, 720)


async def test_nothing_known_is_an_empty_grid(world: World) -> None:
    found = await read(world, layer="wifi")
    assert (found.width, found.height, found.values, found.lat, found.legend.most) == (0, 0, [], None, None)


async def test_what_is_refused(world: World) -> None:
    await mow(world)
    for query in ({"layer": "grass"}, {"cell_m": "0"}, {"cell_m": "nan"}, {"from": "2027-01-01T00:00:00Z"}):
        assert (await world.get(PATH, params=query)).status == 422
    assert (await problem(await world.get(PATH, STRANGER))).code == "not-found"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "json"),
        ("*/*", "json"),
        ("image/png", "png"),
        ("image/*;q=0.8, */*", "png"),
        ("application/json, image/png", "json"),
    ],
)
def test_which_kind(accept: str, kind: str) -> None:
    assert accepted_kind(accept) == kind


async def test_one_at_a_time_and_not_too_many(world: World) -> None:
    """An asker who goes away does not let two work at once either."""
    desk = HeatmapDesk(world.store)
    gate, busy, most = threading.Event(), [0], [0]

    def job(track: TrackColumns) -> int:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        gate.wait(10)
        busy[0] -= 1
        return len(track)

    async def ask() -> Any:
        return await desk.make(AccountId(OWNER.account_id), MowerId("front"), (START, START + timedelta(1)), "rtk", job)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(), name=f"ask {n}") for n in range(WAITING + 1)]
        while not busy[0]:
            await asyncio.sleep(0)
        with pytest.raises(RateLimitedError):
            await ask()
        tasks[0].cancel()
        gate.set()
    assert [task.result() for task in tasks[1:]] == [0] * WAITING
    assert most == [1]
