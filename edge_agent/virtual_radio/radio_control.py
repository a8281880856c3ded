"""Faults from outside: one JSON object per line in, one per line out, on a socket of this machine.

    {"do": "path", "between": ["remote-1", "C0:..:01"], "rssi_dbm": -88, "loss": 0.2}
    {"do": "range", "between": [...], "is_out": true}
    {"do": "cut", "between": [...]}
    {"do": "faults", "mower": "C0:..:01", "is_mute": true}
    {"do": "kick" | "reboot" | "forget_bonds", "mower": "C0:..:01"}
    {"do": "stations"}

Answers: {"ok": true, ...} or {"ok": false, "why": "..."}.
"""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, Self

import structlog

from core.domain.errors import InvalidInputError
from edge_agent.virtual_radio.air import VirtualAir
from edge_agent.virtual_radio.peer_host import HostedPeer
from edge_agent.virtual_radio.radio_spec import RadioSpec

log = structlog.get_logger(__name__)

LINE_BYTES = 4_096
Answer = dict[str, Any]


class RadioControl:
    """`async with RadioControl(air, spec) as control: control.spec`."""

    def __init__(self, air: VirtualAir, spec: RadioSpec) -> None:
        self.spec = spec
        self._air = air
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        if self.spec.path is not None:
            self._server = await asyncio.start_unix_server(self._serve, self.spec.path, limit=LINE_BYTES)
        else:
            self._server = await asyncio.start_server(self._serve, self.spec.host, self.spec.port, limit=LINE_BYTES)
            self.spec = RadioSpec(host=self.spec.host, port=self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as err:
            log.info("radio control client is gone", reason=str(err))
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, line: bytes) -> Answer:
        try:
            asked = json.loads(line)
            if not isinstance(asked, dict):
                raise InvalidInputError.of("line", "must be an object")
            return {"ok": True, **await self.do(asked)}
        except (InvalidInputError, json.JSONDecodeError) as err:
            return {"ok": False, "why": str(err)}

    async def do(self, asked: dict[str, Any]) -> Answer:
        """One request. InvalidInputError when it makes no sense."""
        match asked.pop("do", None):
            case "stations":
                return {"stations": sorted(c.name for c in self._air.link.controllers)}
            case "path":
                first, second = _between(asked)
                _set(self._air.path(first, second), asked)
            case "range":
                first, second = _between(asked)
                self._air.set_out_of_range(first, second, bool(asked.get("is_out", True)))
            case "cut":
                first, second = _between(asked)
                return {"was_connected": self._air.cut(first, second)}
            case "faults":
                mower = self._mower(asked)
                _set(mower.faults, asked)
                mower.refresh()
            case "kick":
                await self._mower(asked).kick()
            case "reboot":
                await self._mower(asked).reboot(float(asked.get("off_s", 1.0)))
            case "forget_bonds":
                await self._mower(asked).forget_bonds()
            case other:
                raise InvalidInputError.of("do", f"unknown: {other!r}")
        return {}

    def _mower(self, asked: dict[str, Any]) -> HostedPeer:
        mower = self._air.peers.get(str(asked.pop("mower", "")).upper())
        if mower is None:
            raise InvalidInputError.of("mower", f"one of {', '.join(self._air.peers)}")
        return mower


def _between(asked: dict[str, Any]) -> tuple[str, str]:
    match asked.pop("between", None):
        case [str(first), str(second)]:
            return first, second
        case _:
            raise InvalidInputError.of("between", "must be the names of two stations")


def _set(target: object, values: dict[str, Any]) -> None:
    """Fields that the target has, with values of the type that they have. All or none."""
    for name, value in values.items():
        current = getattr(target, name, ...)
        if current is ... or name.startswith("_"):
            raise InvalidInputError.of(name, "unknown")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = is_number if not isinstance(current, bool) else isinstance(value, bool)
        if not fits and not (current is None and is_number):
            raise InvalidInputError.of(name, f"{value!r} is of the wrong type")
    for name, value in values.items():
        setattr(target, name, value)
