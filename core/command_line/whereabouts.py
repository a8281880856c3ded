"""Where the walker is during a survey: a receiver's NMEA stream, the mower's own position, or marks by hand."""

from __future__ import annotations

import asyncio
import os
import termios
import tty
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from core.command_line.host_client import HostClient
from core.domain.errors import InvalidInputError, MowdeckError
from core.survey.nmea import Fix, NmeaReader
from core.survey.sample import Place, Sample

FRESH_S = 3.0
"""An older fix is no place any more: a walker is metres further on."""
STATE_FRESH_S = 5.0
STAY_S = 6.0
"""After a mark the person stands still for this long; what is heard then belongs to the spot."""
RETRY_S = 2.0
CONNECT_DEADLINE_S = 10.0
SILENT_LINE_S = 15.0
"""A receiver speaks every second; a line that is silent for longer is broken."""
GPSD_PORT = 2947
_WATCH = b'?WATCH={"enable":true,"nmea":true}\n'


class Whereabouts(Protocol):
    """A source of places. `run` is its life and ends only when it has no more to say."""

    status: str

    async def run(self) -> None: ...

    def place(self, now: float) -> Place | None:
        """Where the walker is at this monotonic time; None when nobody knows."""
        ...


class Nowhere:
    """No source: samples are counted, and may get their places later from a GPX file."""

    status = "no positions"

    async def run(self) -> None:
        await asyncio.Event().wait()

    def place(self, now: float) -> Place | None:  # noqa: ARG002  (the port has it)
        return None


class NmeaWhereabouts:
    """`source` is `host:port` or a serial device (`/dev/ttyACM0`); `is_gpsd`: ask gpsd there for NMEA. Opened again
    when the line breaks."""

    def __init__(self, source: str, *, is_gpsd: bool, clock: Callable[[], float]) -> None:
        self.status = "waiting for a fix"
        self._source = source
        self._is_gpsd = is_gpsd
        self._clock = clock
        self._fix: Fix | None = None
        self._fixed_at = float("-inf")
        if not source.startswith("/"):
            self._host, self._port = _split(source, is_gpsd=is_gpsd)

    async def run(self) -> None:
        while True:
            try:
                await self._follow()
                why = "the line ended"
            except (OSError, TimeoutError, termios.error) as err:
                why = str(err) or "it is silent"
            self.status = f"{self._source}: {why}"
            await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        async with asyncio.timeout(CONNECT_DEADLINE_S):
            reader, close = await self._open()
        lines = NmeaReader()
        try:
            while True:
                async with asyncio.timeout(SILENT_LINE_S):
                    data = await reader.read(4096)
                if not data:
                    return
                for fix in lines.feed(data):
                    self._fix, self._fixed_at = fix, self._clock()
                    self.status = f"{fix.lat:.6f}, {fix.lon:.6f}"
        finally:
            close()

    async def _open(self) -> tuple[asyncio.StreamReader, Callable[[], None]]:
        if not self._source.startswith("/"):
            reader, writer = await asyncio.open_connection(self._host, self._port)
            if self._is_gpsd:
                writer.write(_WATCH)
                await writer.drain()
            return reader, writer.close  # which also keeps the writer: without it the connection would end
        stream = os.fdopen(os.open(self._source, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK), "rb", buffering=0)
        if stream.isatty():
            tty.setraw(stream.fileno())  # the speed stays as it is: USB receivers have none, others are set by stty
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
        return reader, transport.close

    def place(self, now: float) -> Place | None:
        if self._fix is None or now - self._fixed_at > FRESH_S:
            return None
        return Place(via="nmea", lat=self._fix.lat, lon=self._fix.lon)


class MowerWhereabouts:
    """The track of a mower that the box knows. `look` is called once a second; a state counts from when it changed."""

    def __init__(self, client: HostClient, mower: dict[str, Any], clock: Callable[[], float]) -> None:
        self.status = f"waiting for {mower['name']} to say where it is"
        self._client = client
        self._mower_id = mower["mower_id"]
        self._clock = clock
        self._state: dict[str, Any] | None = None
        self._changed_at = float("-inf")
        self.signals: list[Sample] = []
        """What the mower's states themselves said of its signal since they were last taken."""

    async def run(self) -> None:
        while True:
            try:
                items = (await asyncio.to_thread(self._client.get, "/telemetry/states"))["items"]
            except MowdeckError as err:
                self.status = err.detail
            else:
                self._hear(next((s["state"] for s in items if s["mower_id"] == self._mower_id), None))
            await asyncio.sleep(1.0)

    def _hear(self, state: dict[str, Any] | None) -> None:
        if state is None or (self._state is not None and self._state["observed_at"] == state["observed_at"]):
            return
        is_first, self._state = self._state is None, state
        if is_first or state.get("connectivity") == "offline":
            return  # the first one may be old
        self._changed_at = self._clock()
        place = _place_of(state.get("position") or {})
        self.status = "the mower says where it is" if place else "the mower does not say where it is"
        signals = state.get("signals") or {}
        if any(signals.get(name) is not None for name in ("ble_dbm", "wifi_dbm", "mobile_dbm")):
            self.signals.append(_sample_of(state, signals, place))

    def place(self, now: float) -> Place | None:
        if self._state is None or now - self._changed_at > STATE_FRESH_S:
            return None
        return _place_of(self._state.get("position") or {})


class MarkedWhereabouts:
    """Spots that a person marks by the Enter key: `name`, `name=x,y` or `x,y` (metres), or just Enter for the next of
    `spots` (or a number). The end of the input, or of the list, ends the survey."""

    def __init__(self, spots: Sequence[str], lines: asyncio.StreamReader, clock: Callable[[], float]) -> None:
        self._waiting = [parse_mark(text) for text in spots]
        self._is_listed = bool(spots)
        self._lines = lines
        self._clock = clock
        self._place: Place | None = None
        self._marked_at = float("-inf")
        self._count = 0
        self.status = self._ask()

    async def run(self) -> None:
        while not self._is_listed or self._waiting:
            line = await self._lines.readline()
            if not line:
                return
            text = line.decode("utf-8", "replace").strip()
            try:
                place = parse_mark(text) if text else self._next()
            except InvalidInputError as err:
                self.status = str(err)
                continue
            self._count += 1
            self._place, self._marked_at = place, self._clock()
            self.status = f"stand still at {place.spot or f'{place.x_m:g}, {place.y_m:g}'} ..."
            await asyncio.sleep(STAY_S)
            self.status = self._ask()

    def _next(self) -> Place:
        return self._waiting.pop(0) if self._waiting else Place(via="mark", spot=f"spot {self._count + 1}")

    def _ask(self) -> str:
        where = self._waiting[0].spot if self._waiting else None
        return f"walk to {where or 'the next spot'} and press Enter"

    def place(self, now: float) -> Place | None:
        return self._place if now - self._marked_at <= STAY_S else None


def parse_mark(text: str) -> Place:
    """A spot as a person writes it. InvalidInputError."""
    name, separator, numbers = text.partition("=")
    if not separator and "," in text:
        name, numbers = "", text
    if not numbers and not separator:
        return Place(via="mark", spot=name.strip()[:80])
    try:
        x_m, y_m = (float(part) for part in numbers.split(","))
    except ValueError as err:
        raise InvalidInputError.of("spot", f"{text!r} is not a name, `x,y` or `name=x,y` in metres") from err
    if not (abs(x_m) < 1e5 and abs(y_m) < 1e5):  # NaN compares false
        raise InvalidInputError.of("spot", f"{text!r} is not in a garden")
    return Place(via="mark", spot=name.strip()[:80] or None, x_m=x_m, y_m=y_m)


def open_keyboard(descriptor: int) -> asyncio.StreamReader:
    """Lines of standard input, read when there are some: the terminal stays as it is. InvalidInputError when it is a
    file."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()

    def read() -> None:
        data = os.read(descriptor, 4096)
        if data:
            reader.feed_data(data)
        else:
            loop.remove_reader(descriptor)
            reader.feed_eof()

    try:
        loop.add_reader(descriptor, read)
    except OSError as err:
        raise InvalidInputError.of("stdin", "marks need a keyboard") from err
    return reader


def _split(source: str, *, is_gpsd: bool) -> tuple[str, int]:
    host, separator, port = source.rpartition(":")
    if is_gpsd and not separator:
        host, port = source, str(GPSD_PORT)
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidInputError.of("positions", f"{source!r} is not host:port or a serial device such as /dev/ttyACM0")
    return host.strip("[]"), int(port)


def _place_of(position: dict[str, Any]) -> Place | None:
    known = {name: position.get(name) for name in ("lat", "lon", "x_m", "y_m")}
    if (known["lat"] is None or known["lon"] is None) and (known["x_m"] is None or known["y_m"] is None):
        return None
    return Place(via="mower", **known)


def _sample_of(state: dict[str, Any], signals: dict[str, Any], place: Place | None) -> Sample:
    """What a state says of the radio. Over Bluetooth its strength is that of the last advertisement, which the walk has
    taken itself, at its own time."""
    is_own = signals.get("active_link") != "ble"
    return Sample(
        at=datetime.fromisoformat(state["observed_at"]),
        rssi_dbm=signals.get("ble_dbm") if is_own else None,
        adapter="state",
        place=place,
        wifi_dbm=signals.get("wifi_dbm"),
        mobile_dbm=signals.get("mobile_dbm"),
        rtk_fix=state.get("rtk_fix"),
        satellites=state.get("satellites"),
    )
