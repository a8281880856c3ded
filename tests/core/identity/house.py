"""An installation of identity on a real database, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import argon2

from core.access.notifier import Notifier
from core.access.sql_authorizer import SqlAuthorizer
from core.access.tuples import TupleWriter
from core.domain.access import ObjectRef, ObjectType
from core.domain.ids import AccountId
from core.identity.accounts import RegisterMode
from core.identity.keys import SigningKeys
from core.identity.passwords import PasswordHasher
from core.identity.principal import Principal
from core.identity.service import IdentityService
from core.identity.sessions import TokenPair
from core.storage.relational import METADATA, RelationalDatabase, sqlite_url
from tests.fakes.clock import ManualClock

ISSUER = "https://relay.example"
PASSWORD = "correct horse battery"
ADDRESS = "192.0.2.1"


class CountingArgon2(argon2.PasswordHasher):
    """Argon2 at its cheapest, which counts what it is asked."""

    def __init__(self, time_cost: int = 1) -> None:
        super().__init__(time_cost=time_cost, memory_cost=8, parallelism=1)
        self.verified: list[str | bytes] = []
        self.hashed: list[str | bytes] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # noqa: A002  (the base's name)
        self.verified.append(password)
        return super().verify(hash, password)

    def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
        self.hashed.append(password)
        return super().hash(password, salt=salt)


@dataclass(kw_only=True)
class House:
    """All parts in reach of a test."""

    clock: ManualClock
    database: RelationalDatabase
    keys: SigningKeys
    argon2: CountingArgon2
    hasher: PasswordHasher
    authorizer: SqlAuthorizer
    service: IdentityService
    fleet: TupleWriter
    changed: list[frozenset[str] | None] = field(default_factory=list)
    ended: list[frozenset[str] | None] = field(default_factory=list)

    async def owner(self, name: str = "ann") -> Principal:
        """A new account with its owner, signed in."""
        await self.service.accounts.register(
            username=name, password=PASSWORD, account_name=f"{name}'s", email=None, address=ADDRESS
        )
        return await self.sign_in(name)

    async def pair(self, name: str, password: str = PASSWORD) -> TokenPair:
        return await self.service.sessions.sign_in(login=name, password=password, address=ADDRESS, device="test")

    async def sign_in(self, name: str, password: str = PASSWORD) -> Principal:
        return await self.service.verify((await self.pair(name, password)).access_token)

    async def place(self, account_id: AccountId, *path: tuple[str, str]) -> None:
        """Objects of fleet, each below the one before it, the first below the account."""
        parent = ObjectRef(type=ObjectType.ACCOUNT, id=account_id)
        async with self.database.write() as conn:
            for kind, identifier in path:
                child = ref(kind, identifier)
                await self.fleet.place(conn, account_id=account_id, child=child, parent=parent)
                parent = child


def ref(kind: str, identifier: str) -> ObjectRef:
    return ObjectRef(type=ObjectType(kind), id=identifier)


@asynccontextmanager
async def open_house(folder: Path, mode: RegisterMode = RegisterMode.OPEN) -> AsyncIterator[House]:
    clock = ManualClock()
    database = RelationalDatabase(sqlite_url(folder / "mowdeck.db"))
    await database.open(METADATA)
    engine = CountingArgon2()
    hasher = PasswordHasher(engine)
    keys = SigningKeys.open(folder / "keys", clock)
    authorizer = SqlAuthorizer(database, clock)
    grants_changed, sessions_ended = Notifier("grants.changed"), Notifier("sessions.ended")
    house = House(
        clock=clock,
        database=database,
        keys=keys,
        argon2=engine,
        hasher=hasher,
        authorizer=authorizer,
        fleet=TupleWriter("fleet"),
        service=IdentityService(
            database,
            clock,
            keys=keys,
            hasher=hasher,
            writer=TupleWriter("identity"),
            rights=authorizer,
            issuer=ISSUER,
            register_mode=mode,
            on_grants_changed=grants_changed.notify,
            on_sessions_ended=sessions_ended.notify,
        ),
    )
    grants_changed.subscribe(house.changed.append)
    sessions_ended.subscribe(house.ended.append)
    try:
        yield house
    finally:
        await hasher.close()
        await database.close()
