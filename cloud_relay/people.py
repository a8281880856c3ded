"""The relay's relational database and who may use it: identity and access, opened and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cloud_relay.commands import tables as command_tables
from cloud_relay.edges import tables as edge_tables
from cloud_relay.fleet import tables as fleet_tables
from cloud_relay.settings import RelaySettings
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

TABLES = (identity_tables, access_tables, fleet_tables, edge_tables, command_tables)
"""Modules that put their tables on METADATA; named so that they are imported before it is used."""
ISSUER = "mowdeck-relay"


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The parts; `grants_changed` and `sessions_ended` tell after a commit."""

    database: RelationalDatabase
    identity: IdentityService
    authorizer: CachedAuthorizer
    grants_changed: Notifier
    sessions_ended: Notifier


@asynccontextmanager
async def open_people(settings: RelaySettings, clock: Clock) -> AsyncIterator[People]:
    """Opens the database and reads the keys of access tokens. StorageError says what is wrong with them."""
    database = RelationalDatabase(settings.relational_url)
    await database.open(METADATA)
    hasher = PasswordHasher()
    grants_changed, sessions_ended = Notifier("grants.changed"), Notifier("sessions.ended")
    try:
        keys = await asyncio.to_thread(SigningKeys.open, settings.data_dir / "keys", clock)
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
            issuer=ISSUER,
            register_mode=RegisterMode(settings.register),
            on_grants_changed=grants_changed.notify,
            on_sessions_ended=sessions_ended.notify,
        )
        yield People(
            database=database,
            identity=identity,
            authorizer=authorizer,
            grants_changed=grants_changed,
            sessions_ended=sessions_ended,
        )
    finally:
        await hasher.close()
        await database.close()
