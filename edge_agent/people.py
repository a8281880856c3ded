"""Who may use the box: the shared parts, and the household's one account."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from core.access import people
from core.access.cached_authorizer import CachedAuthorizer
from core.access.notifier import Notifier
from core.access.tuples import TupleWriter
from core.domain.clock import Clock
from core.domain.errors import MowdeckError
from core.identity.accounts import RegisterMode
from core.identity.service import IdentityService
from edge_agent.household.account import HouseholdAccount
from edge_agent.settings import EdgeSettings

ISSUER = "mowdeck-box"
SWEEP_S = 3600.0
ACCOUNT_RETRY_S = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The parts; `grants_changed` and `sessions_ended` tell after a commit."""

    identity: IdentityService
    authorizer: CachedAuthorizer
    account: HouseholdAccount
    grants_changed: Notifier
    sessions_ended: Notifier

    async def follow_account(self, changed: asyncio.Event) -> None:
        """Reads the account again whenever `changed` is set, until cancelled."""
        while True:
            await changed.wait()
            changed.clear()
            try:
                await self.account.load()
            except MowdeckError as err:
                _log.warning("the account could not be read yet", detail=err.detail)
                await asyncio.sleep(ACCOUNT_RETRY_S)
                changed.set()

    async def sweep_forever(self) -> None:
        """Removes expired sign-ins until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self.identity.sweep()
            except MowdeckError as err:
                _log.warning("expired sign-ins could not be removed", detail=err.detail)


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
