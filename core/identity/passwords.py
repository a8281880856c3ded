"""Passwords: what may be one, and argon2id in a few threads."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import argon2
import structlog
from argon2.exceptions import InvalidHashError, VerificationError

from core.domain.errors import InvalidInputError, UnavailableError
from core.domain.limits import PASSWORD_MAX, PASSWORD_MIN
from core.identity.names import fold

WORKERS = 2
"""Hashes at a time: each takes 19 MiB and a core."""
WAITING = 64
"""Hashes that wait for a worker; more are refused."""

T = TypeVar("T")
_log = structlog.get_logger(__name__)


def make_argon2() -> argon2.PasswordHasher:
    """OWASP's smaller setting for argon2id (19 MiB, 2 passes, 1 lane): about 0.1 s on a Raspberry Pi 4."""
    return argon2.PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, type=argon2.Type.ID)


def check_password(password: str, *, username: str, field: str = "password") -> None:
    """InvalidInputError unless `password` has 10 to 256 characters, more than three of them different, and is not
    the name."""
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise InvalidInputError.of(field, f"must have {PASSWORD_MIN} to {PASSWORD_MAX} characters")
    if fold(password) == fold(username):
        raise InvalidInputError.of(field, "must not be the username")
    if len(set(password)) <= 3:
        raise InvalidInputError.of(field, "must have more than three different characters")


class PasswordHasher:
    """Owned by the composition root, which closes it."""

    def __init__(self, engine: argon2.PasswordHasher | None = None, *, workers: int = WORKERS) -> None:
        self._engine = make_argon2() if engine is None else engine
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="password")
        self._waiting = 0
        self._dummy: str | None = None

    async def hash(self, password: str) -> str:
        """The hash to keep, with its parameters and salt."""
        return await self._in_thread(lambda: self._engine.hash(_normal(password)))

    async def verify(self, kept: str | None, password: str) -> bool:
        """Whether the password is right. `kept` is None for a user who does not exist: it takes as long, and is
        never right."""
        fits = len(password) <= PASSWORD_MAX
        answer = await self._in_thread(lambda: self._matches(kept, password if fits else "x" * PASSWORD_MIN))
        return answer and fits and kept is not None

    def is_outdated(self, kept: str) -> bool:
        """Whether a hash was made with other parameters than today's."""
        return self._engine.check_needs_rehash(kept)

    async def close(self) -> None:
        """Waits for the hashes under way and ends the threads."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    def _matches(self, kept: str | None, password: str) -> bool:
        stand_in = self._stand_in()  # made by whoever comes first, known or not: strangers must not take longer
        try:
            return self._engine.verify(stand_in if kept is None else kept, _normal(password))
        except InvalidHashError:
            _log.error("a kept password hash is damaged")
            return False
        except VerificationError:
            return False

    def _stand_in(self) -> str:
        if self._dummy is None:
            self._dummy = self._engine.hash("nobody has this password")
        return self._dummy

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._waiting >= WAITING:
            raise UnavailableError("too many people sign in at once")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._waiting -= 1


def _normal(password: str) -> bytes:
    """The same password typed on another keyboard is the same (NFC)."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
