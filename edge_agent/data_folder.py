"""The box's data folder: made when it is missing, and used by one box at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from core.domain.errors import StorageError


@contextmanager
def open_data_folder(folder: Path) -> Iterator[None]:
    """Keeps the folder for this process: two boxes on one would both command the same mowers. StorageError when it
    cannot be made, or another box runs on it. The lock ends with the process, also with one that is killed."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "edge.lock").open("w")
    except OSError as err:
        raise StorageError(f"cannot use {folder}: {err.strerror}") from err
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            hint = "End it first, or set MOWDECK_EDGE_DATA_DIR to a folder of its own."
            raise StorageError(f"another box runs on {folder}", hint=hint) from err
        yield
