"""Routes of somebody's own identity: register, sign in, and what is theirs. `access_routes` has the account's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from core.access.authorizer import Authorizer
from core.domain.access import Relation
from core.domain.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    RateLimitedError,
    UnauthenticatedError,
)
from core.domain.ids import AccountId
from core.domain.secretive import hidden_repr
from core.identity.accounts import AccountView, Registered
from core.identity.assignments import AssignmentView, account_ref
from core.identity.service import IdentityService
from core.identity.sessions import AccessTokenView, SessionView, TokenPair
from core.web.gate import IDENTITY_TAG
from core.web.route import Answer, Public, Request, Route, SignedIn

SESSIONS_TAG = "sessions"
NO_STORE = {"Cache-Control": "no-store"}
"""On every answer that holds a secret."""

Secret = Annotated[str, Meta(max_length=512)]


class RegisterBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new account and its owner."""

    __repr__ = hidden_repr

    username: str
    password: str
    account_name: str
    email: str | None = None


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a sign-up page makes sense."""

    is_open: bool


class SignInBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`username` may be the e-mail address."""

    __repr__ = hidden_repr

    username: str
    password: str


class RefreshBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The refresh token of the last pair; it works once."""

    __repr__ = hidden_repr

    refresh_token: Secret


class SwitchBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the caller's accounts."""

    account_id: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]


class PasswordBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Both are needed: who finds an open browser must not take the user over."""

    __repr__ = hidden_repr

    current_password: str
    new_password: str


class ResetBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token of a reset link."""

    __repr__ = hidden_repr

    token: Secret
    new_password: str


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """The caller, and what they may do on the whole account (more may follow from roles on parts of it)."""

    user_id: str
    kind: Literal["user", "service"]
    name: str
    session_id: str
    expires_at: datetime
    must_change_password: bool
    account: AccountView
    accounts: tuple[AccountView, ...]
    """All that the caller may switch to, the present one included."""
    relations: tuple[Relation, ...]
    assignments: tuple[AssignmentView, ...]


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's signed-in devices, the last used first."""

    items: Sequence[SessionView]


def identity_routes(service: IdentityService, authorizer: Authorizer) -> list[Route]:
    """The table. `authorizer` says what the caller may do, for `GET /identity/me`."""
    handlers = _Handlers(service, authorizer)
    return [*_doors(handlers), *_own(handlers)]


def _doors(handlers: _Handlers) -> list[Route]:
    """What needs no access token."""
    return [
        Route(
            method="GET",
            path="/identity/register",
            guard=Public(reason="a sign-up page asks before anybody can sign in"),
            handler=handlers.registration,
            summary="Whether somebody may open an account",
            tag=IDENTITY_TAG,
            answer=Registration,
        ),
        Route(
            method="POST",
            path="/identity/register",
            guard=Public(reason="makes the first user of an account, if the operator lets anybody do that"),
            handler=handlers.register,
            summary="Open an account",
            tag=IDENTITY_TAG,
            body=RegisterBody,
            answer=Registered,
            status=201,
            errors=(ForbiddenError, ConflictError, InvalidInputError, RateLimitedError),
        ),
        Route(
            method="POST",
            path="/identity/session",
            guard=Public(reason="signs in with a password"),
            handler=handlers.sign_in,
            summary="Sign in",
            tag=IDENTITY_TAG,
            body=SignInBody,
            answer=TokenPair,
            status=201,
            errors=(UnauthenticatedError, RateLimitedError),
        ),
        Route(
            method="POST",
            path="/identity/session/refresh",
            guard=Public(reason="the refresh token in the body says who it is"),
            handler=handlers.refresh,
            summary="The next pair of tokens",
            tag=IDENTITY_TAG,
            body=RefreshBody,
            answer=TokenPair,
            errors=(UnauthenticatedError, RateLimitedError),
        ),
        Route(
            method="POST",
            path="/identity/reset",
            guard=Public(reason="the one-time token in the body says who it is"),
            handler=handlers.reset,
            summary="Set a new password by a link",
            tag=IDENTITY_TAG,
            body=ResetBody,
            status=204,
            errors=(NotFoundError, InvalidInputError, RateLimitedError),
        ),
        Route(
            method="GET",
            path="/.well-known/jwks.json",
            guard=Public(reason="public keys, for others who verify our tokens"),
            handler=handlers.jwks,
            summary="The keys that sign access tokens",
            tag=IDENTITY_TAG,
            answer=dict[str, list[dict[str, str]]],
            is_absolute=True,
        ),
    ]


def _own(handlers: _Handlers) -> list[Route]:
    """What concerns only the caller. Those tagged as identity are open before the password has been changed."""
    return [
        Route(
            method="DELETE",
            path="/identity/session",
            guard=SignedIn(reason="ends the caller's own session"),
            handler=handlers.sign_out,
            summary="Sign out",
            tag=IDENTITY_TAG,
            status=204,
            errors=(ForbiddenError,),
        ),
        Route(
            method="GET",
            path="/identity/me",
            guard=SignedIn(reason="tells the caller about themselves"),
            handler=handlers.me,
            summary="Who am I",
            tag=IDENTITY_TAG,
            answer=Me,
        ),
        Route(
            method="POST",
            path="/identity/me/password",
            guard=SignedIn(reason="changes the caller's own password"),
            handler=handlers.change_password,
            summary="Change the password",
            tag=IDENTITY_TAG,
            body=PasswordBody,
            status=204,
            errors=(ForbiddenError, ConflictError, InvalidInputError, RateLimitedError),
        ),
        Route(
            method="POST",
            path="/identity/me/switch",
            guard=SignedIn(reason="only to accounts that the caller is a member of"),
            handler=handlers.switch,
            summary="Act for another account",
            tag=SESSIONS_TAG,
            body=SwitchBody,
            answer=AccessTokenView,
            errors=(NotFoundError, ForbiddenError),
        ),
        Route(
            method="GET",
            path="/identity/sessions",
            guard=SignedIn(reason="lists the caller's own devices"),
            handler=handlers.sessions,
            summary="Signed-in devices",
            tag=SESSIONS_TAG,
            answer=SessionList,
            errors=(ForbiddenError,),
        ),
        Route(
            method="DELETE",
            path="/identity/sessions",
            guard=SignedIn(reason="ends the caller's own other sessions"),
            handler=handlers.revoke_others,
            summary="Sign out everywhere else",
            tag=SESSIONS_TAG,
            status=204,
            errors=(ForbiddenError,),
        ),
        Route(
            method="DELETE",
            path="/identity/sessions/{session_id}",
            guard=SignedIn(reason="ends one of the caller's own sessions"),
            handler=handlers.revoke,
            summary="Sign a device out",
            tag=SESSIONS_TAG,
            status=204,
            errors=(NotFoundError, ForbiddenError),
        ),
    ]


class _Handlers:
    def __init__(self, service: IdentityService, authorizer: Authorizer) -> None:
        self._service = service
        self._authorizer = authorizer

    async def registration(self, _: Request) -> Registration:
        return Registration(is_open=await self._service.accounts.is_registration_open())

    async def register(self, request: Request) -> Registered:
        body: RegisterBody = request.body
        return await self._service.accounts.register(
            username=body.username,
            password=body.password,
            account_name=body.account_name,
            email=body.email,
            address=request.remote,
        )

    async def sign_in(self, request: Request) -> Answer:
        body: SignInBody = request.body
        pair = await self._service.sessions.sign_in(
            login=body.username,
            password=body.password,
            address=request.remote,
            device=request.raw.headers.get("User-Agent", ""),
        )
        return Answer(value=pair, headers=NO_STORE)

    async def refresh(self, request: Request) -> Answer:
        body: RefreshBody = request.body
        pair = await self._service.sessions.refresh(body.refresh_token, address=request.remote)
        return Answer(value=pair, headers=NO_STORE)

    async def reset(self, request: Request) -> None:
        body: ResetBody = request.body
        await self._service.users.reset(token=body.token, new_password=body.new_password, address=request.remote)

    async def jwks(self, _: Request) -> Any:
        return self._service.jwks()

    async def sign_out(self, request: Request) -> None:
        await self._service.sessions.revoke(request.who, request.who.session_id)

    async def me(self, request: Request) -> Me:
        who = request.who
        account = await self._service.accounts.account(who.account_id)
        is_person = who.kind == "user"
        level = account_ref(who.account_id)
        return Me(
            user_id=who.subject,
            kind=who.kind,
            name=who.name,
            session_id=who.session_id,
            expires_at=who.expires_at,
            must_change_password=who.must_change_password,
            account=account,
            accounts=await self._service.accounts.of_user(who.subject) if is_person else (account,),
            relations=tuple([one for one in Relation if await self._authorizer.check(who, one, level)]),
            assignments=await self._service.assignments.of_account(who.account_id, user_id=who.subject),
        )

    async def change_password(self, request: Request) -> None:
        body: PasswordBody = request.body
        await self._service.users.change_password(
            request.who, current=body.current_password, new=body.new_password, address=request.remote
        )

    async def switch(self, request: Request) -> Answer:
        body: SwitchBody = request.body
        token = await self._service.sessions.switch(request.who, AccountId(body.account_id))
        return Answer(value=token, headers=NO_STORE)

    async def sessions(self, request: Request) -> SessionList:
        return SessionList(items=await self._service.sessions.own(request.who))

    async def revoke_others(self, request: Request) -> None:
        await self._service.sessions.revoke_others(request.who)

    async def revoke(self, request: Request) -> None:
        await self._service.sessions.revoke(request.who, request.path["session_id"])
