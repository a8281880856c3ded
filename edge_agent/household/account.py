"""The one account of a box, made by its first person; and the place of each mower below it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sqlalchemy import select

from core.access.tuples import TupleWriter
from core.domain.access import ObjectRef, ObjectType
from core.domain.errors import UnavailableError
from core.domain.ids import AccountId, MowerId
from core.identity.tables import accounts
from core.storage.relational import RelationalDatabase


class HouseholdAccount:
    """Known after `load`; `wait` returns as soon as somebody has registered."""

    def __init__(
        self, database: RelationalDatabase, writer: TupleWriter, *, on_placed: Callable[[], None] = lambda: None
    ) -> None:
        """`on_placed` hears, after the commit, that a mower has come or gone: what was decided before is stale."""
        self._database = database
        self._writer = writer
        self._on_placed = on_placed
        self._account_id: AccountId | None = None
        self._known = asyncio.Event()

    @property
    def account_id(self) -> AccountId | None:
        """The account, or None before the first start."""
        return self._account_id

    def require(self) -> AccountId:
        """The account; UnavailableError before the first start."""
        if self._account_id is None:
            raise UnavailableError("nobody has registered at this box yet", hint="Register at the box first.")
        return self._account_id

    async def load(self) -> None:
        """Looks again (after a registration)."""
        if self._account_id is not None:
            return
        query = select(accounts.c.account_id).order_by(accounts.c.created_at).limit(1)
        async with self._database.read() as conn:
            found = await conn.scalar(query)
        if found is not None:
            self._account_id = AccountId(found)
            self._known.set()

    async def wait(self) -> AccountId:
        """The account, as soon as there is one."""
        await self._known.wait()
        return self.require()

    async def place(self, mower_id: MowerId) -> None:
        """Puts a mower below the account, so that rights on the account reach it."""
        account_id = self.require()
        async with self._database.write() as conn:
            await self._writer.place(
                conn,
                account_id=account_id,
                child=ObjectRef(type=ObjectType.MOWER, id=mower_id),
                parent=ObjectRef(type=ObjectType.ACCOUNT, id=account_id),
            )
        self._on_placed()

    async def displace(self, mower_id: MowerId) -> None:
        """Takes a mower out."""
        async with self._database.write() as conn:
            await self._writer.remove(
                conn, account_id=self.require(), what=ObjectRef(type=ObjectType.MOWER, id=mower_id)
            )
        self._on_placed()
