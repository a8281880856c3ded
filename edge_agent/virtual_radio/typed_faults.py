"""Faults as a person types them, at `mowdeck emulate` or after its `--fault`: a word, and a number where one helps.

They befall all mowers of this radio. What only one mower or one path shall have goes through `RadioControl`.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields

from core.domain.errors import InvalidInputError
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.peer_faults import PeerFaults
from edge_agent.virtual_radio.peer_host import HostedPeer
from edge_agent.virtual_radio.radio_path import NEAR_DBM, RadioPath

LINE_BYTES = 256
OFF_S_MAX = 600.0


@dataclass(frozen=True, slots=True)
class Word:
    """What a word does. `least` to `most` bound its number, `usual` is taken without one; None: it takes none."""

    means: str
    do: Callable[[VirtualAir, float], Awaitable[None]]
    usual: float | None = None
    least: float = 0.0
    most: float = 0.0


def _firmware(**values: bool) -> Callable[[VirtualAir, float], Awaitable[None]]:
    async def do(air: VirtualAir, _: float) -> None:
        for mower in air.peers.values():
            for name, value in values.items():
                setattr(mower.faults, name, value)
            mower.refresh()

    return do


def _number(name: str, kind: type[int] | type[float]) -> Callable[[VirtualAir, float], Awaitable[None]]:
    async def do(air: VirtualAir, number: float) -> None:
        for mower in air.peers.values():
            setattr(mower.faults, name, kind(number))

    return do


def _each(act: Callable[[HostedPeer, float], Awaitable[None]]) -> Callable[[VirtualAir, float], Awaitable[None]]:
    async def do(air: VirtualAir, number: float) -> None:
        for mower in list(air.peers.values()):
            await act(mower, number)

    return do


def _paths(air: VirtualAir) -> Iterator[RadioPath]:
    """Those from the mowers to all others, and the one that a box who comes later starts from."""
    yield air.link.ordinary
    for mower in air.peers:
        for other in {station.name for station in air.link.controllers} - {mower}:
            yield air.path(mower, other)


async def _set_strength(air: VirtualAir, dbm: float) -> None:
    for path in _paths(air):
        path.rssi_dbm = int(dbm)


async def _go(air: VirtualAir, *, is_out: bool) -> None:
    air.link.ordinary.is_out_of_range = is_out
    for mower in air.peers:
        for other in {station.name for station in air.link.controllers} - {mower}:
            air.set_out_of_range(mower, other, is_out)


async def _heal(air: VirtualAir, _: float) -> None:
    for mower in air.peers.values():
        for one in fields(PeerFaults):
            setattr(mower.faults, one.name, one.default)
        mower.refresh()
    await _set_strength(air, NEAR_DBM)
    await _go(air, is_out=False)


async def _reboot(mower: HostedPeer, off_s: float) -> None:
    await mower.reboot(off_s)


WORDS: Mapping[str, Word] = {
    "closed": Word("not in pairing mode: it refuses to pair", _firmware(is_pairing_closed=True)),
    "open": Word("pairs again", _firmware(is_pairing_closed=False)),
    "forget": Word("its bonds are lost", _each(lambda mower, _: mower.forget_bonds())),
    "kick": Word("ends its connections", _each(lambda mower, _: mower.kick())),
    "drop": Word("cuts the link after so many more notifications: within an answer", _number("hang_up_after", int), 1, 1, 99),
    "lose": Word("the next notifications are lost", _number("lose_notifications", int), 1, 1, 99),
    "garble": Word("the next notifications are garbled", _number("corrupt_notifications", int), 1, 1, 99),
    "merge": Word("notifications run together", _firmware(is_merging=True)),
    "slow": Word("answers come so many seconds late", _number("answer_delay_s", float), 2, 0, 60),
    "mute": Word("takes what is written and says nothing", _firmware(is_mute=True)),
    "weak": Word("is heard with so many dBm", _set_strength, -91, -120, -20),
    "away": Word("is out of range", lambda air, _: _go(air, is_out=True)),
    "back": Word("is in range again", lambda air, _: _go(air, is_out=False)),
    "taken": Word("a phone holds its only connection", _firmware(is_occupied=True)),
    "free": Word("the phone has let go", _firmware(is_occupied=False)),
    "reboot": Word("loses power for so many seconds", _each(_reboot), 1, 0, OFF_S_MAX),
    "heal": Word("all of these end; lost bonds stay lost", _heal),
}  # fmt: skip
"""The wrong PIN is not among them: it is `--option pin=`, of a mower that was started anew with the same `--keys`."""


def help_text() -> str:
    """Every word, one a line."""
    lines = [f"  {word:<8}{one.means}{'' if one.usual is None else f' ({one.usual:g})'}" for word, one in WORDS.items()]
    return "\n".join(lines)


def check_fault(line: str) -> tuple[Word, float]:
    """The word of a line and its number. InvalidInputError."""
    name, *rest = line.split() or [""]
    word = WORDS.get(name)
    if word is None:
        raise InvalidInputError.of("fault", f"{name!r} is none of {', '.join(WORDS)}")
    if not rest:
        return word, word.usual or 0.0
    try:
        (text,) = rest
        number = float(text)
    except ValueError:
        number = float("nan")
    if word.usual is None or not word.least <= number <= word.most:
        most = "takes no number" if word.usual is None else f"takes one number from {word.least:g} to {word.most:g}"
        raise InvalidInputError.of("fault", f"{name} {most}")
    return word, number


async def do_fault(air: VirtualAir, line: str) -> None:
    """Does what a line says. InvalidInputError when it says nothing that can be done."""
    word, number = check_fault(line)
    await word.do(air, number)


def may_read(fd: int) -> bool:
    """Whether somebody may type here: a pipe, or a terminal whose foreground is ours (reading stops a program in the
    background)."""
    try:
        kind = os.fstat(fd).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
            return True
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


class TypedLines:
    """Cuts what is typed into lines; one that is too long is dropped whole."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that are whole now, without empty ones."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES:
            self._rest = b"?" * LINE_BYTES
        lines = (line.decode(errors="replace").strip() for line in whole)
        return [line[:LINE_BYTES] for line in lines if line]


@contextmanager
def typed(fd: int, on_line: Callable[[str], None]) -> Iterator[None]:
    """Within the block, calls back in the running loop with each line that is typed at `fd`."""
    loop = asyncio.get_running_loop()
    lines = TypedLines()

    def read() -> None:
        try:
            data = os.read(fd, 4_096)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(fd)
        for line in lines.feed(data):
            on_line(line)

    if not may_read(fd):
        yield
        return
    loop.add_reader(fd, read)
    try:
        yield
    finally:
        loop.remove_reader(fd)
