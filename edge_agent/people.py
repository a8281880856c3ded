"""Who may use the box: the shared parts, and the household's one account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from core.access import people
from core.access.cached_authorizer import CachedAuthorizer
from core.access.notifier import Notifier
from core.access.tuples import TupleWriter
from core.domain.clock import Clock
from core.identity.accounts import RegisterMode
from core.identity.service import IdentityService
from edge_agent.household.account import HouseholdAccount
from edge_agent.settings import EdgeSettings

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
    """Opens the database and reads the keys of access tokens. StorageError says what is wrong with them."""
    opened = people.open_people(
        settings.relational_url,
        keys_folder=settings.data_dir / "keys",
        issuer=ISSUER,
        register_mode=RegisterMode.FIRST_START,
        clock=clock,
    )
    async with opened as parts:
        changed = parts.grants_changed
        account = HouseholdAccount(parts.database, TupleWriter("fleet"), on_placed=lambda: changed.notify(None))
        await account.load()
        yield People(
            identity=parts.identity,
            authorizer=parts.authorizer,
            account=account,
            grants_changed=changed,
            sessions_ended=parts.sessions_ended,
        )
