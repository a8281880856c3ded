"""Keys of bonds in a file, as BlueZ and a mower's memory keep them: a bond outlives the process that made it.

One file holds the keys of all stations of one side (the adapters of a box, or the mowers of an emulation), by the
station's own address and the peer's. It is readable by its owner only; keys are never logged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import msgspec
import structlog
from bumble.keys import MemoryKeyStore, PairingKeys

from core.domain.clock import Clock
from core.domain.errors import StorageError
from core.platform.durable_file import JsonDocument

log = structlog.get_logger(__name__)

FORMAT = 1
KeyHex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
RandHex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]


class _Key(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A long-term key in the spelling of the library's own dictionaries."""

    value: KeyHex
    authenticated: bool = False
    ediv: int | None = None
    rand: RandHex | None = None

    def __repr__(self) -> str:
        return "_Key(...)"


class _Bond(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is kept of one peer. Identity keys are not distributed on this radio, so there are none."""

    address_type: int | None = None
    ltk: _Key | None = None
    ltk_central: _Key | None = None
    ltk_peripheral: _Key | None = None


_Stations = dict[str, dict[str, _Bond]]


class KeyFile:
    """`async with KeyFile(...) as keys:`; then `store` gives each station its part of the file. Leaving the block
    waits for what is still being written."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._document = JsonDocument(path, _Stations, version=FORMAT, clock=clock)
        self._stores: dict[str, FileKeyStore] = {}
        self._has_changed = False

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._load)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._has_changed:  # the library stores keys in tasks of its own, which nobody waits for
            with contextlib.suppress(StorageError):  # logged
                await self.save()

    @property
    def problem(self) -> str | None:
        """What was wrong with the file when it was loaded; it has been moved aside, and the bonds are gone."""
        return self._document.problem

    def _load(self) -> None:
        for station, bonds in (self._document.load() or {}).items():
            self.store(station).all_keys = {
                peer: PairingKeys.from_dict(msgspec.to_builtins(bond)) for peer, bond in bonds.items()
            }

    def store(self, station: str) -> FileKeyStore:
        """The keys of the station with this address; the same object each time."""
        return self._stores.setdefault(station.upper(), FileKeyStore(self))

    async def save(self) -> None:
        """Writes what all stations know now. StorageError, logged: the bond then holds until the process ends."""
        self._has_changed = True
        stations: _Stations = {
            station: {peer: _bond_of(keys) for peer, keys in store.all_keys.items()}
            for station, store in self._stores.items()
            if store.all_keys
        }
        try:
            await self._document.save(stations)
        except StorageError as err:
            log.error("bonds are not on the disk", detail=err.detail)
            raise


class FileKeyStore(MemoryKeyStore):
    """The key store of one station: in memory, and in the file before a change counts as done."""

    def __init__(self, file: KeyFile) -> None:
        super().__init__()
        self._file = file
        self.on_update: Callable[[str, PairingKeys], None] | None = None
        """Told of new keys before they are on the disk: the other side may use them already."""

    async def update(self, name: str, keys: PairingKeys) -> None:
        await super().update(name, keys)
        if self.on_update is not None:
            self.on_update(name, keys)
        await self._file.save()

    async def delete(self, name: str) -> None:
        if name in self.all_keys:
            await super().delete(name)
            await self._file.save()


def _bond_of(keys: PairingKeys) -> _Bond:
    known = {name: value for name, value in keys.to_dict().items() if name in _Bond.__struct_fields__}
    return msgspec.convert(known, _Bond)
