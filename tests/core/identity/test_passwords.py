"""Hashes: in a few threads, with honest parameters, never on the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from core.domain.errors import UnavailableError
from core.identity.passwords import WAITING, PasswordHasher, make_argon2
from tests.core.identity.house import CountingArgon2


class Gated(CountingArgon2):
    """Argon2 that waits to be let go, and knows how many run at once."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.lock = threading.Lock()
        self.running = 0
        self.most = 0

    def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.go.wait(10)
        with self.lock:
            self.running -= 1
        return super().hash(password, salt=salt)


async def test_few_at_a_time_the_others_wait_and_too_many_are_refused() -> None:
    engine = Gated()
    hasher = PasswordHasher(engine, workers=2)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(hasher.hash(f"password {n}"), name=f"hash-{n}") for n in range(WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(UnavailableError):
            await hasher.hash("one too many")
        engine.go.set()
    assert engine.most == 2
    assert len({task.result() for task in tasks}) == WAITING
    assert await hasher.hash("room again")
    await hasher.close()


async def test_closing_ends_the_threads() -> None:
    hasher = PasswordHasher(CountingArgon2())
    await hasher.hash("password")
    assert any(t.name.startswith("password") for t in threading.enumerate())
    await hasher.close()
    assert not any(t.name.startswith("password") for t in threading.enumerate())


async def test_a_caller_that_gives_up_makes_room() -> None:
    engine = Gated()
    hasher = PasswordHasher(engine, workers=1)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(hasher.hash("x"), name=f"hash-{n}") for n in range(WAITING)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        engine.go.set()
        assert await hasher.hash("room again")
    await hasher.close()
    assert len(engine.hashed) < WAITING


async def test_a_damaged_hash_lets_nobody_in() -> None:
    hasher = PasswordHasher(CountingArgon2())
    good = await hasher.hash("password")
    assert await hasher.verify(good, "password")
    for kept in ("", "plain", good[:-5], good.replace("argon2id", "argon2x"), "$argon2id$"):
        assert not await hasher.verify(kept, "password")
    assert not await hasher.verify(None, "nobody has this password")
    await hasher.close()


def test_the_parameters_are_those_of_owasp() -> None:
    engine = make_argon2()
    assert engine.hash("x").startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert (len(engine.hash("x")), engine.hash_len, engine.salt_len) == (97, 32, 16)
