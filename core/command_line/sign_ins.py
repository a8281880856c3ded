"""Sign-ins of the person at this terminal: one file, readable by them only, a sign-in per host."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from core.domain.errors import InvalidInputError


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A session at one host."""

    host: str
    username: str
    access_token: str
    access_expires_at: datetime
    refresh_token: str

    def __repr__(self) -> str:
        return f"SignIn(host={self.host!r}, username={self.username!r})"


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds."""

    last_host: str | None = None
    sign_ins: dict[str, SignIn] = {}


class SignIns:
    """The file `sign-ins.json` in the client's folder."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "sign-ins.json"

    @property
    def last_host(self) -> str | None:
        """The host that was signed in to last."""
        return self._read().last_host

    def get(self, host: str) -> SignIn | None:
        """The sign-in at `host`."""
        return self._read().sign_ins.get(host)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process of this person at a time: a refresh token works once, and two that use it at the same time
        look to the host like a thief."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = self._path.with_suffix(".lock").open("w")
        except OSError as err:
            raise InvalidInputError(f"cannot write {self._path.parent}: {err.strerror}") from err
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def put(self, sign_in: SignIn, *, is_last: bool) -> None:
        """Keeps a sign-in; `is_last` makes its host the default."""
        file = self._read()
        last = sign_in.host if is_last else file.last_host
        self._write(_File(last_host=last, sign_ins={**file.sign_ins, sign_in.host: sign_in}))

    def drop(self, host: str) -> None:
        """Forgets the sign-in at `host`."""
        file = self._read()
        rest = {name: one for name, one in file.sign_ins.items() if name != host}
        last = file.last_host if file.last_host != host else next(iter(rest), None)
        self._write(_File(last_host=last, sign_ins=rest))

    def _read(self) -> _File:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return _File()
        except (OSError, msgspec.DecodeError) as err:
            raise InvalidInputError(f"cannot read {self._path}: {err}", hint="Remove it and sign in again.") from err

    def _write(self, file: _File) -> None:
        temporary = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(descriptor, 0o600)  # a file left by a crash keeps the mode it had
                stream.write(msgspec.json.encode(file))
            temporary.replace(self._path)
        except OSError as err:
            raise InvalidInputError(f"cannot write {self._path}: {err.strerror}") from err
