"""A host's data folder: made when it is missing, and used by one process at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from core.domain.errors import StorageError

_FILES = {"box": ("edge.lock", "MOWDECK_EDGE_DATA_DIR"), "relay": ("relay.lock", "MOWDECK_RELAY_DATA_DIR")}


@contextmanager
def open_data_folder(folder: Path, host: Literal["box", "relay"]) -> Iterator[None]:
    """Keeps the folder for this process: two boxes on one would both command the same mowers, and a second relay ends
    the broker of the first. StorageError when it cannot be made, or another one runs on it. The lock ends with the
    process, also with one that is killed."""
    name, setting = _FILES[host]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / name).open("w")
    except OSError as err:
        raise StorageError(f"cannot use {folder}: {err.strerror}") from err
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            hint = f"End it first, or set {setting} to a folder of its own."
            raise StorageError(f"another {host} runs on {folder}", hint=hint) from err
        yield
