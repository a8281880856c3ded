"""What the box keeps of itself and of its link, in files that only the agent can read."""

from __future__ import annotations

import os
import secrets
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from core.domain.errors import StorageError
from core.sync.linking import LinkGrant

T = TypeVar("T")

log = structlog.get_logger(__name__)


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
        """The box's identity, made at first use (and again when the file is damaged). StorageError when it cannot be
        read or written."""
        found = _read(self._identity_file, BoxIdentity)
        if found is None:
            found = BoxIdentity(fingerprint=secrets.token_urlsafe(32), announced_id=secrets.token_hex(8))
            write_private(self._identity_file, msgspec.json.encode(found))
        return found

    def link(self) -> StoredLink | None:
        """The link, or None while there is none. A damaged file is moved aside: the household's own use of the box
        must not depend on it. StorageError when it cannot be read."""
        return _read(self._link_file, StoredLink)

    def put_link(self, link: StoredLink) -> None:
        """Keeps the link, on disk when this returns."""
        write_private(self._link_file, msgspec.json.encode(link))

    def drop_link(self) -> None:
        """Forgets the link and its credential. StorageError when the file cannot be deleted."""
        try:
            self._link_file.unlink(missing_ok=True)
        except OSError as err:
            raise StorageError(f"cannot delete {self._link_file}: {err.strerror}") from err


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        log.error("a damaged file is moved aside", path=str(path), aside=_set_aside(path).name, error=str(err))
        return None
    except OSError as err:
        raise StorageError(f"cannot read {path}: {err}", hint="Look at the rights of the file.") from err


def _set_aside(path: Path) -> Path:
    number = 0
    while (aside := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    try:
        path.rename(aside)
    except OSError as err:
        raise StorageError(f"{path} makes no sense and cannot be moved aside: {err.strerror}") from err
    return aside
