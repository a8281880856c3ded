"""Which adapter holds a bond with which peer. The keys themselves are with BlueZ; a bond is per adapter, so a peer
that needs one is only reached over the adapters named here."""

from __future__ import annotations

import msgspec
import structlog

from core.domain.clock import Clock, SystemClock
from core.platform.durable_file import DurableFile

log = structlog.get_logger(__name__)

Bonds = dict[str, list[str]]


class BondBook:
    """In memory, and in a file when one is given. A file that makes no sense is moved aside and named in `problem`:
    the worst that follows is pairing again."""

    def __init__(self, file: DurableFile | None = None, clock: Clock | None = None) -> None:
        self.problem: str | None = None
        """What was wrong with the file when it was loaded, for a person."""
        self._file = file
        self._clock = clock or SystemClock()
        self._bonds: Bonds = {}

    def load(self) -> None:
        """Reads the file; blocks. StorageError when it can neither be read nor moved aside."""
        file = self._file
        raw = file.read() if file is not None else None
        if file is None or raw is None:
            return
        try:
            self._bonds = msgspec.json.decode(raw, type=Bonds)
        except (msgspec.DecodeError, UnicodeDecodeError) as err:
            aside = file.set_aside(self._clock.now().strftime("%Y%m%dT%H%M%SZ"))
            self.problem = (
                f"{file.path} made no sense ({err}) and was moved to {aside.name}: mowers have to be paired anew"
            )
            log.error("bond book moved aside", path=str(file.path), aside=aside.name, reason=str(err))

    def sources(self, address: str) -> frozenset[str]:
        """The adapters that have a bond with the peer."""
        return frozenset(self._bonds.get(address, ()))

    async def add(self, address: str, source: str) -> None:
        """A bond was made."""
        held = self._bonds.setdefault(address, [])
        if source not in held:
            held.append(source)
            await self._save()

    async def remove(self, address: str, source: str | None = None) -> None:
        """A bond is gone: on one adapter, or on all."""
        held = self._bonds.get(address)
        if held is None:
            return
        kept = [] if source is None else [name for name in held if name != source]
        if kept == held:
            return
        if kept:
            self._bonds[address] = kept
        else:
            del self._bonds[address]
        await self._save()

    async def _save(self) -> None:
        if self._file is not None:
            await self._file.write(msgspec.json.encode(self._bonds))
