"""`mowdeck survey`: walk the garden, and write down where the mower's Bluetooth is heard."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from core.command_line.ble import bar
from core.command_line.host_client import HostClient
from core.command_line.mowers import find_mower
from core.command_line.terminal import HostOption, JsonOption, console, errors, open_host, plain, print_json, told
from core.command_line.whereabouts import (
    MarkedWhereabouts,
    MowerWhereabouts,
    NmeaWhereabouts,
    Nowhere,
    Whereabouts,
    open_keyboard,
)
from core.domain.errors import InvalidInputError, MowdeckError
from core.platform.durable_file import DurableFile
from core.survey.gpx import place_at, read_gpx
from core.survey.listening import Listener
from core.survey.record import VERSION, Record
from core.survey.sample import Carried, Head, Sample, band_of
from core.survey.summary import Summary, geojson, summarise

EVERY_S = 1.0
RECENT = 20
SAMPLES_MAX = 200_000
_COLOURS = {"good": "green", "weak": "yellow", "too weak": "red", "silent": "dim"}


def survey(
    mower: Annotated[str | None, typer.Argument(help="Address or name that is heard; by default the only one.")] = None,
    output: Annotated[Path, typer.Option(help="Beginning of the files: .jsonl, .geojson, .png.")] = Path("survey"),
    positions: Annotated[
        Path | None, typer.Option(help="GPX track of a phone that walked along; read when the walk is over.")
    ] = None,
    nmea: Annotated[str | None, typer.Option(help="NMEA of a receiver: host:port or a serial device.")] = None,
    gpsd: Annotated[str | None, typer.Option(help="NMEA of gpsd: host or host:port.")] = None,
    track: Annotated[
        str | None, typer.Option(help="Positions and signals of this mower of the box, as it mows.")
    ] = None,
    marks: Annotated[bool, typer.Option("--marks", help="Press Enter at each spot: a name, x,y or name=x,y.")] = False,
    spot: Annotated[
        list[str] | None, typer.Option("--spot", help="Spot to walk to, in order: name or name=x,y (implies --marks).")
    ] = None,
    mower_moves: Annotated[
        bool, typer.Option("--mower-moves", help="The position is the mower's; the box stands still.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the record of --output.")] = False,
    seconds: Annotated[float | None, typer.Option(help="End after this time; 0 only writes the files anew.")] = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write down where the mower is heard while you walk (Ctrl-C ends), and say where a box or proxy belongs."""
    with told(as_json=as_json):
        if sum((nmea is not None, gpsd is not None, track is not None, marks or bool(spot), positions is not None)) > 1:
            raise InvalidInputError.of("positions", "give one of --positions, --nmea, --gpsd, --track, --marks")
        path = output.with_name(f"{output.name}.jsonl")
        carried: Carried = "mower" if mower_moves or track is not None else "box"
        with contextlib.ExitStack() as stack:
            if seconds == 0 and resume:
                record = stack.enter_context(Record.resume(path))
            else:
                client = stack.enter_context(open_host(host))
                target = None if track is None else find_mower(client, track)
                if resume:
                    record = stack.enter_context(Record.resume(path))
                else:
                    address, name = _find_peer(client, mower, target)
                    head = Head(
                        version=VERSION, mower=name, address=address, carried=carried, started_at=datetime.now(UTC)
                    )
                    record = stack.enter_context(Record.begin(path, head))

                async def choose() -> Whereabouts:
                    return await _whereabouts(
                        client, nmea=nmea, gpsd=gpsd, target=target, marks=marks, spots=spot or []
                    )

                asyncio.run(_Walk(client, record, as_json=as_json).run(choose, seconds))
            _finish(record, output, positions, as_json=as_json)


def _find_peer(client: HostClient, wanted: str | None, target: dict[str, Any] | None) -> tuple[str | None, str]:
    """Address and name of the mower meant. A tracked mower that is not heard under its name is followed by what its
    state says alone. InvalidInputError says who is heard."""
    near = [one for one in client.get("/box/bluetooth")["nearby"] if one["domains"]]
    if wanted is None and target is not None:
        named = [one["address"] for one in near if str(one["name"]).casefold() == target["name"].casefold()]
        return (named[0] if len(named) == 1 else None), str(target["name"])
    key = None if wanted is None else wanted.casefold()
    fits = [one for one in near if key is None or key in {one["address"].casefold(), str(one["name"]).casefold()}]
    if len(fits) == 1:
        return str(fits[0]["address"]), str(fits[0]["name"] or fits[0]["address"])
    known = "; ".join(f"{one['name']} ({one['address']})" for one in near) or "none; mowdeck ble scan shows who is near"
    reason = "say which one" if fits else "no such mower is heard; begin where it is"
    raise InvalidInputError.of("mower", f"{reason} (heard: {known})")


async def _whereabouts(
    client: HostClient,
    *,
    nmea: str | None,
    gpsd: str | None,
    target: dict[str, Any] | None,
    marks: bool,
    spots: list[str],
) -> Whereabouts:
    if nmea is not None or gpsd is not None:
        return NmeaWhereabouts(nmea or gpsd or "", is_gpsd=nmea is None, clock=time.monotonic)
    if target is not None:
        return MowerWhereabouts(client, target, time.monotonic)
    if marks or spots:
        return MarkedWhereabouts(spots, open_keyboard(sys.stdin.fileno()), time.monotonic)
    return Nowhere()


class _Walk:
    """The live part: looks once a second, writes what is new, shows it."""

    def __init__(self, client: HostClient, record: Record, *, as_json: bool) -> None:
        self._client = client
        self._record = record
        self._as_json = as_json
        self._listener = Listener(address=record.head.address)
        self._ending = asyncio.Event()
        self._complaint = ""

    async def run(self, choose: Callable[[], Any], seconds: float | None) -> None:
        """Until Ctrl-C, the time, or the end of the positions."""
        where: Whereabouts = await choose()
        with _ended_by_signal(self._ending.set):
            async with asyncio.TaskGroup() as group:
                following = group.create_task(self._follow(where), name="survey positions")
                try:
                    await self._look_on(where, seconds)
                finally:
                    following.cancel()

    async def _follow(self, where: Whereabouts) -> None:
        await where.run()
        self._ending.set()

    async def _look_on(self, where: Whereabouts, seconds: float | None) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        with Live(console=errors, auto_refresh=False) if not self._as_json else contextlib.nullcontext() as live:
            while True:
                await self._look(where)
                if live is not None:
                    live.update(self._view(where), refresh=True)
                if self._ending.is_set() or (until is not None and time.monotonic() >= until):
                    return
                if len(self._record.samples) >= SAMPLES_MAX:
                    self._complaint = f"{SAMPLES_MAX} samples are enough"
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(EVERY_S):
                        await self._ending.wait()

    async def _look(self, where: Whereabouts) -> None:
        found: list[Sample] = []
        try:
            view = await asyncio.to_thread(self._client.get, "/box/bluetooth")
        except MowdeckError as err:
            self._complaint = err.detail  # the box may come back; what it did not say is not taken for silence
        else:
            self._complaint = "" if view["adapters"] else "this box has no Bluetooth adapter"
            now = time.monotonic()
            found = self._listener.take(view, at=datetime.now(UTC), now=now, place=where.place(now))
        if isinstance(where, MowerWhereabouts):
            found, where.signals = [*found, *where.signals], []
        await asyncio.to_thread(self._record.append, found)
        if self._as_json:
            for sample in found:
                print_json(msgspec.to_builtins(sample))

    def _view(self, where: Whereabouts) -> Group:
        samples = self._record.samples
        heard = [s.rssi_dbm for s in samples if s.rssi_dbm is not None]
        last = samples[-1].rssi_dbm if samples else None
        colour = _COLOURS[band_of(last)]
        lines = [
            Text.from_markup(f"[{colour}]{bar(last, 40) if last is not None else '▯' * 40}[/] {last or '--'} dBm")
            if samples
            else Text("waiting for the mower ..."),
            Text(
                f"{len(samples)} samples, {sum(s.place is not None for s in samples)} with a place"
                + (
                    f"; median {median(heard):g} dBm, of the last {RECENT} {median(heard[-RECENT:]):g} dBm"
                    if heard
                    else ""
                )
            ),
            Text(where.status, style="bold"),
        ]
        if self._listener.is_connected:
            lines.append(Text("The box is connected to the mower, which may keep it silent: mowdeck ble release"))
        if self._complaint:
            lines.append(Text(self._complaint, style="red"))
        return Group(*lines, Text("Ctrl-C ends and writes the files", style="dim"))


@contextlib.contextmanager
def _ended_by_signal(end: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the walk and nothing else."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _finish(record: Record, output: Path, positions: Path | None, *, as_json: bool) -> None:
    """Writes map and picture from the record, each in one step."""
    samples = record.samples
    if positions is not None:
        samples = _placed(samples, positions)
    summary = summarise(record.head, samples)
    files = {"record": str(record.path)}
    text = msgspec.json.encode(geojson(record.head, samples, summary))
    files["geojson"] = _write(output.with_name(f"{output.name}.geojson"), text)
    from core.survey.picture import draw

    picture = draw(record.head, samples, summary)
    if picture is not None:
        files["picture"] = _write(output.with_name(f"{output.name}.png"), picture)
    if as_json:
        print_json({"type": "summary", "files": files, **msgspec.to_builtins(summary)})
        return
    _tell(summary, files)


def _placed(samples: list[Sample], positions: Path) -> list[Sample]:
    """Samples with the places that the track knows; one that has a place keeps it."""
    try:
        track = read_gpx(positions.read_bytes())
    except OSError as err:
        raise InvalidInputError.of("--positions", f"{positions} cannot be read: {err}") from err
    return [s if s.place is not None else msgspec.structs.replace(s, place=place_at(track, s.at)) for s in samples]


def _write(path: Path, data: bytes) -> str:
    file = DurableFile(path)
    file.write_now(data, file.ask())
    return str(path)


def _tell(summary: Summary, files: dict[str, str]) -> None:
    for line in summary.advice:
        console.print(plain(line), soft_wrap=True, highlight=False)
    for name, shares in summary.adapters.items():
        console.print(
            f"  {plain(name)}: {shares.samples} samples, median {shares.median_dbm:g} dBm, worst {shares.worst_dbm} dBm"
            if shares.median_dbm is not None
            else f"  {plain(name)}: {shares.samples} samples without a Bluetooth signal",
            highlight=False,
        )
    if summary.without_place:
        console.print(f"{summary.without_place} samples have no place; they are counted and on no map.")
    if "picture" not in files:
        console.print("No picture: no sample has a place that could be drawn.")
    console.print("Written: " + ", ".join(plain(file) for file in files.values()), soft_wrap=True, highlight=False)
