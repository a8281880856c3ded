"""The record of a survey: one JSON line for each sample, appended and synced, so that a crash costs a second at most."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from core.domain.errors import ConflictError, InvalidInputError, StorageError
from core.survey.sample import Head, Sample

VERSION = 1
_Line = Head | Sample


def read_record(path: Path) -> tuple[Head, list[Sample], int]:
    """Head, samples, and how many bytes of the file are whole lines: a last one that was cut off does not count.
    InvalidInputError for a file that is none."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as err:
        raise InvalidInputError.of("--resume", f"there is no record {path}") from err
    except OSError as err:
        raise StorageError(f"{path} cannot be read: {err.strerror}") from err
    whole = data.rfind(b"\n") + 1
    try:
        lines = [msgspec.json.decode(line, type=_Line) for line in data[:whole].splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise InvalidInputError.of("--resume", f"{path} is no record of a survey ({err})") from err
    head, samples = lines[:1], lines[1:]
    if not head or not isinstance(head[0], Head) or head[0].version > VERSION:
        raise InvalidInputError.of("--resume", f"{path} is no record of a survey that this Mowdeck knows")
    return head[0], [sample for sample in samples if isinstance(sample, Sample)], whole


class Record:
    """`with Record.begin(path, head) as record:` or `Record.resume(path)`. `samples` are all of them."""

    def __init__(self, path: Path, head: Head, samples: list[Sample], handle: int) -> None:
        self.path = path
        self.head = head
        self.samples = samples
        self._handle = handle

    @classmethod
    def begin(cls, path: Path, head: Head) -> Record:
        """A new file, mode 0600. ConflictError when there is one: a survey is never written over."""
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError as err:
            raise ConflictError(
                f"{path} is there already", hint="Go on with it by --resume, or choose another --output."
            ) from err
        except OSError as err:
            raise StorageError(f"{path} cannot be written: {err.strerror}") from err
        record = cls(path, head, [], handle)
        record._write([head])
        return record

    @classmethod
    def resume(cls, path: Path) -> Record:
        """A record that ended, or was cut off."""
        head, samples, whole = read_record(path)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.ftruncate(handle, whole)
        except OSError as err:
            raise StorageError(f"{path} cannot be written: {err.strerror}") from err
        return cls(path, head, samples, handle)

    def append(self, samples: Sequence[Sample]) -> None:
        """On the disk when this returns. StorageError."""
        if samples:
            self._write(samples)
            self.samples.extend(samples)

    def _write(self, lines: Sequence[_Line]) -> None:
        try:
            data = memoryview(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            while data:
                data = data[os.write(self._handle, data) :]
            os.fdatasync(self._handle)
        except OSError as err:
            raise StorageError(f"{self.path} cannot be written: {err.strerror}") from err

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)
