"""Small files that must survive a power cut: replaced atomically, synced, readable by the agent only."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import threading
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import structlog

from core.domain.clock import Clock
from core.domain.errors import DatabaseNewerError, StorageError, StorageFullError

T = TypeVar("T")

log = structlog.get_logger(__name__)


class DurableFile:
    """One file, mode 0600. Either the old or the new content is on the disk, never a part of one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._written = 0
        self._asked = 0

    def read(self) -> bytes | None:
        """The content, or None when there is no file. StorageError when it cannot be read."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as err:
            raise StorageError(f"{self.path} cannot be read: {err.strerror}") from err

    async def write(self, data: bytes) -> None:
        """Replaces the content from a thread. Of several writes the one asked for last stays, also when a caller is
        cancelled meanwhile. StorageError (StorageFullError) leaves the old content."""
        await asyncio.to_thread(self.write_now, data, self.ask())

    def ask(self) -> int:
        """The place of a write in the order of writes."""
        self._asked += 1
        return self._asked

    def write_now(self, data: bytes, place: int) -> None:
        """Blocks until the content is on the disk; does nothing when a newer one is there already."""
        with self._lock:
            if place < self._written:
                return
            try:
                self._replace(data)
            except OSError as err:
                kind = StorageFullError if err.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
                raise kind(f"{self.path} cannot be written: {err.strerror}") from err
            self._written = place

    def _replace(self, data: bytes) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            fresh.replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # the new name itself
        finally:
            os.close(folder)

    def set_aside(self, stamp: str) -> Path:
        """Renames a file that makes no sense, so that a person can look at it; returns its new path."""
        number = 0
        while (aside := self.path.with_name(f"{self.path.name}.corrupt-{stamp}-{number}")).exists():
            number += 1
        try:
            self.path.rename(aside)
        except OSError as err:
            raise StorageError(f"{self.path} makes no sense and cannot be moved aside: {err.strerror}") from err
        return aside


class _Envelope(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    body: msgspec.Raw


class JsonDocument(Generic[T]):
    """A durable file that holds `{"format": n, "body": ...}`."""

    def __init__(self, path: Path, kind: type[T], *, version: int, clock: Clock) -> None:
        self.file = DurableFile(path)
        self.problem: str | None = None
        """What was wrong with the file when it was loaded, for a person; it has been moved aside."""
        self._kind = kind
        self._version = version
        self._clock = clock

    def load(self) -> T | None:
        """The body, or None when there is none. DatabaseNewerError for a file of a newer Mowdeck. A file that makes
        no sense is moved aside, logged, named in `problem`, and counts as none: it is never overwritten."""
        data = self.file.read()
        if data is None:
            return None
        try:
            envelope = msgspec.json.decode(data, type=_Envelope)
            if envelope.format > self._version:
                raise DatabaseNewerError(
                    f"{self.file.path} has format {envelope.format}; this Mowdeck knows {self._version}"
                )
            return msgspec.json.decode(envelope.body, type=self._kind)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:
            aside = self.file.set_aside(self._clock.now().strftime("%Y%m%dT%H%M%SZ"))
            self.problem = f"{self.file.path} made no sense ({err}) and was moved to {aside.name}"
            log.error("file moved aside", path=str(self.file.path), aside=aside.name, error=str(err))
            return None

    async def save(self, body: T) -> None:
        """Replaces the file; StorageError leaves it as it was."""
        await self.file.write(self.encode(body))

    def encode(self, body: T) -> bytes:
        """The bytes of the file."""
        return msgspec.json.encode({"format": self._version, "body": body})
