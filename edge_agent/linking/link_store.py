"""What the box keeps of itself and of its link, in files that only the agent can read."""

from __future__ import annotations

import contextlib
import os
import secrets
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from core.domain.errors import StorageError
from core.sync.linking import LinkGrant

T = TypeVar("T")


class BoxIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The box for life: `fingerprint` is random; `announced_id` is what zeroconf shows."""

    fingerprint: str
    announced_id: str


class StoredLink(msgspec.Struct, frozen=True, kw_only=True):
    """An existing link. `repr` hides the credential."""

    grant: LinkGrant
    linked_at: datetime

    def __repr__(self) -> str:
        return f"StoredLink(edge_id={self.grant.edge_id!r}, relay_url={self.grant.relay_url!r})"


def write_private(path: Path, data: bytes) -> None:
    """Replaces the file in one step, readable by its owner only, on disk when this returns. StorageError."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as err:
        raise StorageError(f"cannot write {path}: {err.strerror}") from err


class LinkStore:
    """`box.json` and `link.json` in the box's data directory."""

    def __init__(self, directory: Path) -> None:
        self._identity_file = directory / "box.json"
        self._link_file = directory / "link.json"

    def identity(self) -> BoxIdentity:
        """The box's identity, made at first use. StorageError when the file cannot be read."""
        found = _read(self._identity_file, BoxIdentity)
        if found is None:
            found = BoxIdentity(fingerprint=secrets.token_urlsafe(32), announced_id=secrets.token_hex(8))
            write_private(self._identity_file, msgspec.json.encode(found))
        return found

    def link(self) -> StoredLink | None:
        """The link, or None while there is none."""
        return _read(self._link_file, StoredLink)

    def put_link(self, link: StoredLink) -> None:
        """Keeps the link, on disk when this returns."""
        write_private(self._link_file, msgspec.json.encode(link))

    def drop_link(self) -> None:
        """Forgets the link and its credential."""
        with contextlib.suppress(FileNotFoundError):
            self._link_file.unlink()


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as err:
        raise StorageError(
            f"cannot read {path}: {err}", hint="Restore the file from a backup, or move it away."
        ) from err
