"""Service tokens for Home Assistant and scripts: long-lived, hashed, scoped to a role on a level, expiring."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
import structlog
from msgspec import Meta
from sqlalchemy import ColumnElement, Row, and_, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.domain.access import ROLES, Grant, ObjectRef, ObjectType
from core.domain.clock import Clock
from core.domain.errors import InvalidInputError, LimitExceededError, NotFoundError, UnauthenticatedError
from core.domain.ids import AccountId, UserId, make_id
from core.domain.secretive import hidden_repr
from core.identity.assignments import Authority
from core.identity.names import parse_name
from core.identity.opaque import SERVICE_PREFIX, fingerprint, make_secret
from core.identity.ports import GrantWriter
from core.identity.principal import Principal
from core.identity.sessions import demand_person
from core.identity.standing import Changes, Standing
from core.identity.tables import service_tokens
from core.storage.relational import RelationalDatabase

TOKENS_PER_ACCOUNT = 100
TOKEN_LIFE = timedelta(days=365)
"""Unless another end is asked for."""
TOKEN_LIFE_MAX = timedelta(days=5 * 365)
KEPT_AFTER_END = timedelta(days=30)
"""An expired token stays in the list for this long, so that its owner sees why a script stopped."""

_log = structlog.get_logger(__name__)


class NewServiceToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to make. Its role never holds the right to manage users: a leaked token must not make more of them."""

    name: str
    role: str
    level: ObjectRef
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None


class ServiceTokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    token_id: str
    name: str
    role: str
    level: ObjectRef
    created_by: str
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None


class CreatedServiceToken(ServiceTokenView, frozen=True, kw_only=True):
    """The only time that the secret is shown."""

    __repr__ = hidden_repr

    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stands:
    token_id: str
    account_id: str
    name: str
    expires_at: datetime


class ServiceTokens:
    """Makes, lists, verifies and revokes them. The subject of their grants is the token's id."""

    def __init__(
        self,
        database: RelationalDatabase,
        clock: Clock,
        *,
        writer: GrantWriter,
        authority: Authority,
        changes: Changes,
    ) -> None:
        self._database = database
        self._clock = clock
        self._writer = writer
        self._authority = authority
        self._changes = changes
        self._used: dict[str, datetime] = {}
        self._standing: Standing[_Stands] = Standing(clock)
        changes.follow(self._standing.forget)

    async def create(self, who: Principal, new: NewServiceToken) -> CreatedServiceToken:
        """ForbiddenError, NotFoundError (the level), InvalidInputError, LimitExceededError."""
        demand_person(who)
        now = self._clock.now()
        expires_at = (new.expires_at or now + TOKEN_LIFE).astimezone(UTC)
        if not now < expires_at <= now + TOKEN_LIFE_MAX:
            raise InvalidInputError.of("expires_at", f"must be within {TOKEN_LIFE_MAX.days} days from now")
        if Grant.USERS in ROLES.get(new.role, ()):
            raise InvalidInputError.of("role", "a token cannot manage users")
        await self._authority.demand_role(who, new.role, new.level)
        secret = make_secret(SERVICE_PREFIX)
        view = ServiceTokenView(
            token_id=make_id(now),
            name=parse_name(new.name, "name"),
            role=new.role,
            level=new.level,
            created_by=who.subject,
            created_at=now,
            expires_at=expires_at,
            last_used_at=None,
        )
        async with self._database.write() as conn:
            await self._insert(conn, who.account_id, view, secret)
        self._changes.tell(subjects=[view.token_id])
        _log.info("service token made", token_id=view.token_id, role=view.role, by=who.subject)
        return CreatedServiceToken(**msgspec.structs.asdict(view), token=secret)

    async def _insert(self, conn: AsyncConnection, account_id: AccountId, view: ServiceTokenView, secret: str) -> None:
        of_account = service_tokens.c.account_id == account_id
        count = await conn.scalar(select(func.count()).select_from(service_tokens).where(of_account))
        if count is not None and count >= TOKENS_PER_ACCOUNT:
            raise LimitExceededError(f"at most {TOKENS_PER_ACCOUNT} tokens in an account")
        row = {
            **{name: getattr(view, name) for name in view.__struct_fields__ if name != "level"},
            "account_id": account_id,
            "object_type": view.level.type.value,
            "object_id": view.level.id,
            "fingerprint": fingerprint(secret),
        }
        await conn.execute(insert(service_tokens).values(row))
        await self._writer.grant(
            conn,
            account_id=account_id,
            assignment_id=view.token_id,
            subject=view.token_id,
            held=ROLES[view.role],
            level=view.level,
            ends_at=view.expires_at,
        )

    async def visible(self, who: Principal) -> tuple[ServiceTokenView, ...]:
        """Those of the caller's account on levels where they manage users, oldest first."""
        query = select(service_tokens).where(service_tokens.c.account_id == who.account_id)
        async with self._database.read() as conn:
            rows = (await conn.execute(query.order_by(service_tokens.c.token_id))).all()
        found = [self._view(row) for row in rows]
        shown = await self._authority.managed(who, [one.level for one in found])
        return tuple(one for one, may in zip(found, shown, strict=True) if may)

    async def delete(self, who: Principal, token_id: str) -> None:
        """Revokes one at once; NotFoundError for one that the caller does not see in the list."""
        async with self._database.read() as conn:
            row = (await conn.execute(select(service_tokens).where(_is(who.account_id, token_id)))).one_or_none()
        if row is None or not (await self._authority.managed(who, [self._view(row).level]))[0]:
            raise NotFoundError("no such token")
        async with self._database.write() as conn:
            await self._remove(conn, who.account_id, [token_id])
        self._changes.tell(subjects=[token_id], sessions=[token_id])
        _log.info("service token revoked", token_id=token_id, by=who.subject)

    async def remove_of(self, conn: AsyncConnection, account_id: AccountId, user_id: UserId) -> list[str]:
        """Revokes all that somebody made in an account which they leave: they still know the secrets. Answers the
        ids, to be told after the commit."""
        theirs = service_tokens.c.account_id == account_id, service_tokens.c.created_by == user_id
        gone = list((await conn.execute(select(service_tokens.c.token_id).where(*theirs))).scalars())
        await self._remove(conn, account_id, gone)
        return gone

    async def _remove(self, conn: AsyncConnection, account_id: AccountId, token_ids: list[str]) -> None:
        for token_id in token_ids:
            await conn.execute(delete(service_tokens).where(_is(account_id, token_id)))
            await self._writer.revoke(conn, account_id=account_id, assignment_id=token_id)
            self._used.pop(token_id, None)

    async def verify(self, token: str) -> Principal:
        """Who holds a service token; UnauthenticatedError when it is unknown, revoked or has expired."""
        mark = fingerprint(token)
        stands = await self._standing.get(mark, lambda: self._ask(mark))
        now = self._clock.now()
        if stands is None or stands.expires_at <= now:
            raise UnauthenticatedError("the token does not hold", hint="Make a new token.")
        # Written down by `sweep`: a full disk must not keep Home Assistant out.
        self._used[stands.token_id] = now
        return Principal(
            subject=UserId(stands.token_id),
            account_id=AccountId(stands.account_id),
            kind="service",
            name=stands.name,
            session_id=stands.token_id,
            expires_at=stands.expires_at,
        )

    async def sweep(self) -> None:
        """Writes down when tokens were last used, and removes those that ended long ago."""
        used, self._used = self._used, {}
        old = self._clock.now() - KEPT_AFTER_END
        async with self._database.write() as conn:
            for token_id, at in used.items():
                is_older = or_(service_tokens.c.last_used_at.is_(None), service_tokens.c.last_used_at < at)
                query = update(service_tokens).where(service_tokens.c.token_id == token_id, is_older)
                await conn.execute(query.values(last_used_at=at))
            ended = select(service_tokens.c.account_id, service_tokens.c.token_id)
            for account_id, token_id in (await conn.execute(ended.where(service_tokens.c.expires_at <= old))).all():
                await self._remove(conn, AccountId(account_id), [token_id])

    async def _ask(self, mark: str) -> _Stands | None:
        columns = (service_tokens.c[name] for name in ("token_id", "account_id", "name", "expires_at"))
        async with self._database.read() as conn:
            row = (await conn.execute(select(*columns).where(service_tokens.c.fingerprint == mark))).one_or_none()
        return None if row is None else _Stands(**row._asdict())

    def _view(self, row: Row[*tuple[object, ...]]) -> ServiceTokenView:
        values = row._asdict()
        level = ObjectRef(type=ObjectType(values.pop("object_type")), id=values.pop("object_id"))
        last_used_at = self._used.get(values["token_id"], values.pop("last_used_at"))
        del values["account_id"], values["fingerprint"]
        return ServiceTokenView(level=level, last_used_at=last_used_at, **values)


def _is(account_id: AccountId, token_id: str) -> ColumnElement[bool]:
    return and_(service_tokens.c.account_id == account_id, service_tokens.c.token_id == token_id)
