"""Who may use the box: its relational database, identity and access, opened and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

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
from edge_agent.household.account import HouseholdAccount
from edge_agent.settings import EdgeSettings

TABLES = (identity_tables, access_tables)
"""Modules that put their tables on METADATA; named so that they are imported before it is used."""
ISSUER = "mowdeck-box"


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The parts; `grants_changed` and `sessions_ended` tell after a commit."""

    identity: IdentityService
    authorizer: CachedAuthorizer
    account: HouseholdAccount
    grants_changed: Notifier
    sessions_ended: Notifier


@asynccontextmanager
async def open_people(settings: EdgeSettings, clock: Clock) -> AsyncIterator[People]:
    """Opens the database and reads the keys. StorageError says what is wrong with them."""
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
            register_mode=RegisterMode.FIRST_START,
            on_grants_changed=grants_changed.notify,
            on_sessions_ended=sessions_ended.notify,
        )
        account = HouseholdAccount(database, TupleWriter("fleet"), on_placed=lambda: grants_changed.notify(None))
        await account.load()
        yield People(
            identity=identity,
            authorizer=authorizer,
            account=account,
            grants_changed=grants_changed,
            sessions_ended=sessions_ended,
        )
    finally:
        await hasher.close()
        await database.close()
