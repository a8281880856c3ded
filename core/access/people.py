"""Who may use a host: its relational database, identity and access, opened and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from core.access import tables as access_tables
from core.access.cached_authorizer import CachedAuthorizer
from core.access.notifier import Notifier
from core.access.sql_authorizer import SqlAuthorizer
from core.access.tuples import TupleWriter
from core.domain.clock import Clock
from core.identity import tables as identity_tables
from core.identity.accounts import RegisterMode
from core.identity.keys import SigningKeys
from core.identity.passwords import PasswordHasher
from core.identity.service import IdentityService
from core.storage.relational import METADATA, RelationalDatabase

TABLES = (identity_tables, access_tables)
"""Modules that put their tables on METADATA; a host imports its own before it opens the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The parts; `grants_changed` and `sessions_ended` tell after a commit."""

    database: RelationalDatabase
    identity: IdentityService
    authorizer: CachedAuthorizer
    rights: SqlAuthorizer
    """The same answers without a memory."""
    grants_changed: Notifier
    sessions_ended: Notifier


@asynccontextmanager
async def open_people(
    database_url: str, *, keys_folder: Path, issuer: str, register_mode: RegisterMode, clock: Clock
) -> AsyncIterator[People]:
    """Opens the database and reads the keys of access tokens. StorageError says what is wrong with them."""
    database = RelationalDatabase(database_url)
    await database.open(METADATA)
    hasher = PasswordHasher()
    grants_changed, sessions_ended = Notifier("grants.changed"), Notifier("sessions.ended")
    try:
        keys = await asyncio.to_thread(SigningKeys.open, keys_folder, clock)
        rights = SqlAuthorizer(database, clock)
        authorizer = CachedAuthorizer(rights, clock)
        grants_changed.subscribe(authorizer.drop)
        identity = IdentityService(
            database,
            clock,
            keys=keys,
            hasher=hasher,
            writer=TupleWriter("identity"),
            rights=rights,
            issuer=issuer,
            register_mode=register_mode,
            on_grants_changed=grants_changed.notify,
            on_sessions_ended=sessions_ended.notify,
        )
        yield People(
            database=database,
            identity=identity,
            authorizer=authorizer,
            rights=rights,
            grants_changed=grants_changed,
            sessions_ended=sessions_ended,
        )
    finally:
        await hasher.close()
        await database.close()
