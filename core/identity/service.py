"""Identity as a whole: its nouns, wired together, and the verifier of every token."""

from __future__ import annotations

import asyncio

from sqlalchemy import delete

from core.domain.clock import Clock
from core.domain.limits import REFRESH_TOKEN_TTL
from core.identity.access_tokens import AccessTokens
from core.identity.accounts import Accounts, RegisterMode
from core.identity.assignments import Assignments, Authority
from core.identity.keys import SigningKeys
from core.identity.opaque import SERVICE_PREFIX
from core.identity.passwords import PasswordHasher
from core.identity.ports import GrantWriter, Rights
from core.identity.principal import Principal
from core.identity.rate_limit import Guard
from core.identity.service_tokens import ServiceTokens
from core.identity.sessions import Sessions
from core.identity.standing import Announce, Changes
from core.identity.tables import refresh_tokens, reset_links, sessions
from core.identity.users import Users
from core.storage.relational import RelationalDatabase


class IdentityService:
    """Implements `core.web.ports.TokenVerifier`. The nouns are `accounts`, `sessions`, `users`, `assignments` and
    `tokens`. Call `sweep` every hour or so."""

    def __init__(
        self,
        database: RelationalDatabase,
        clock: Clock,
        *,
        keys: SigningKeys,
        hasher: PasswordHasher,
        writer: GrantWriter,
        rights: Rights,
        issuer: str,
        register_mode: RegisterMode,
        on_grants_changed: Announce,
        on_sessions_ended: Announce,
        guard: Guard | None = None,
    ) -> None:
        """`writer` owns identity's tuples; `rights` answers at once (no cache that outlives a change). Both
        callables are called after the commit: with subjects, and with ids of sessions and service tokens."""
        self._database = database
        self._clock = clock
        self._keys = keys
        guard = Guard(clock) if guard is None else guard
        changes = Changes(on_grants_changed=on_grants_changed, on_sessions_ended=on_sessions_ended)
        authority = Authority(rights)
        self.assignments = Assignments(database, clock, writer=writer, authority=authority, changes=changes)
        self.accounts = Accounts(
            database,
            clock,
            hasher=hasher,
            guard=guard,
            assignments=self.assignments,
            changes=changes,
            mode=register_mode,
        )
        tokens = AccessTokens(keys, issuer, clock)
        self.sessions = Sessions(database, clock, hasher=hasher, guard=guard, tokens=tokens, changes=changes)
        self.tokens = ServiceTokens(database, clock, writer=writer, authority=authority, changes=changes)
        self.users = Users(
            database,
            clock,
            hasher=hasher,
            guard=guard,
            authority=authority,
            assignments=self.assignments,
            tokens=self.tokens,
            changes=changes,
        )

    async def verify(self, token: str) -> Principal:
        """The holder of an access or service token; UnauthenticatedError for anything that does not hold."""
        if token.startswith(SERVICE_PREFIX):
            return await self.tokens.verify(token)
        return await self.sessions.verify(token)

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        """The public keys, for others who verify our tokens."""
        return self._keys.jwks()

    async def sweep(self) -> None:
        """Removes what has expired, writes down when service tokens were used, and rotates the keys when due."""
        now = self._clock.now()
        old = now - REFRESH_TOKEN_TTL
        await self.tokens.sweep()
        await self.assignments.sweep()
        async with self._database.write() as conn:
            await conn.execute(delete(sessions).where(sessions.c.expires_at <= now))
            await conn.execute(delete(reset_links).where(reset_links.c.expires_at <= now))
            await conn.execute(delete(refresh_tokens).where(refresh_tokens.c.used_at <= old))
        if self._keys.is_due():
            await asyncio.to_thread(self._keys.rotate)
        await asyncio.to_thread(self._keys.expire)
