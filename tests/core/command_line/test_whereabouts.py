"""Where a walker is: receivers on sockets and serial lines, and marks by hand. Nothing is known for longer than it holds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tty
from collections.abc import AsyncIterator

import pytest

from core.command_line.whereabouts import (
    FRESH_S,
    STATE_FRESH_S,
    MarkedWhereabouts,
    MowerWhereabouts,
    NmeaWhereabouts,
    Whereabouts,
    open_keyboard,
    parse_mark,
)
from core.domain.errors import InvalidInputError
from core.survey.sample import Place
from tests.core.survey.test_nmea import GGA
from tests.fakes.clock import ManualClock

HERE = Place(via="nmea", lat=48.1173, lon=11.516666666666667)


@contextlib.asynccontextmanager
async def running(where: Whereabouts) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(where.run(), name="whereabouts")
        yield
        task.cancel()


async def known(where: Whereabouts, clock: ManualClock) -> Place:
    async with asyncio.timeout(10):
        while (place := where.place(clock.monotonic())) is None:
            await asyncio.sleep(0.01)
    return place


async def test_a_fix_holds_for_a_moment():
    clock, asked = ManualClock(), []

    async def gpsd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"class":"VERSION"}\r\n')
        asked.append(await reader.readline())
        writer.write(GGA)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(gpsd, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    where = NmeaWhereabouts(f"127.0.0.1:{port}", is_gpsd=True, clock=clock.monotonic)
    assert where.place(clock.monotonic()) is None
    async with running(where):
        assert await known(where, clock) == HERE
        clock.advance(FRESH_S)
        assert where.place(clock.monotonic()) == HERE
        clock.advance(0.1)
        assert where.place(clock.monotonic()) is None
    server.close()
    assert b'"nmea":true' in asked[0]


async def test_a_serial_receiver():
    clock = ManualClock()
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    where = NmeaWhereabouts(os.ttyname(theirs), is_gpsd=False, clock=clock.monotonic)
    async with running(where):
        async with asyncio.timeout(10):
            while (place := where.place(clock.monotonic())) is None:
                os.write(ours, b"noise\r\n" + GGA)  # what came before the line was opened is thrown away
                await asyncio.sleep(0.01)
        assert place == HERE
    os.close(ours)
    os.close(theirs)


async def test_a_line_that_cannot_be_opened_is_named():
    where = NmeaWhereabouts("/dev/no-such-receiver", is_gpsd=False, clock=ManualClock().monotonic)
    async with running(where), asyncio.timeout(10):
        while "no-such-receiver" not in where.status:
            await asyncio.sleep(0.01)
    for wrong in ("", "host", "host:", "host:0", ":5", "host:x"):
        with pytest.raises(InvalidInputError):
            NmeaWhereabouts(wrong, is_gpsd=False, clock=ManualClock().monotonic)


def test_marks_as_people_write_them():
    assert parse_mark("gate") == Place(via="mark", spot="gate")
    assert parse_mark("gate=1,-2.5") == Place(via="mark", spot="gate", x_m=1.0, y_m=-2.5)
    assert parse_mark("3, 4") == Place(via="mark", x_m=3.0, y_m=4.0)
    for wrong in ("gate=", "gate=1", "gate=1,2,3", "a,b", "nan,1", "inf,1", "1e9,0"):
        with pytest.raises(InvalidInputError):
            parse_mark(wrong)


async def test_marks_in_order():
    clock, (reading, writing) = ManualClock(), os.pipe()
    where = MarkedWhereabouts([], open_keyboard(reading), clock.monotonic)
    async with running(where):
        os.write(writing, b"x,y\nterrace=1,2\n")
        assert await known(where, clock) == Place(via="mark", spot="terrace", x_m=1.0, y_m=2.0)
        assert "stand still at terrace" in where.status
        clock.advance(6.1)
        assert where.place(clock.monotonic()) is None
    asyncio.get_running_loop().remove_reader(reading)
    os.close(reading)
    os.close(writing)


def test_a_mowers_state_counts_from_when_it_changed():
    clock = ManualClock()
    where = MowerWhereabouts(None, {"name": "Shaun", "mower_id": "m"}, clock.monotonic)  # type: ignore[arg-type]
    state = {
        "observed_at": "2026-06-01T08:00:00Z",
        "position": {"lat": 48.0, "lon": 11.0},
        "signals": {"ble_dbm": -70, "wifi_dbm": -60, "active_link": "ble"},
    }
    where._hear(state)
    assert (where.place(clock.monotonic()), where.signals) == (None, [])  # it may be hours old
    where._hear({**state, "observed_at": "2026-06-01T08:00:10Z"})
    assert where.place(clock.monotonic()) == Place(via="mower", lat=48.0, lon=11.0)
    (signal,) = where.signals
    assert (signal.rssi_dbm, signal.wifi_dbm) == (None, -60)  # over Bluetooth: the box's own last advertisement
    where._hear({**state, "observed_at": "2026-06-01T08:00:20Z", "signals": {"ble_dbm": -70, "active_link": "cloud"}})
    assert where.signals[1].rssi_dbm == -70
    clock.advance(STATE_FRESH_S + 0.1)
    assert where.place(clock.monotonic()) is None
    where._hear({**state, "observed_at": "2026-06-01T08:00:30Z", "position": {"lat": 48.0}})
    assert where.place(clock.monotonic()) is None
