"""Routes of an account's people, roles and service tokens. The account in the path must be the caller's: any other
one is not found, whoever asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from core.domain.access import ROLES, ROLES_WITH_END, Grant, ObjectType, Relation
from core.domain.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    LimitExceededError,
    MowdeckError,
    NotFoundError,
)
from core.domain.ids import UserId
from core.identity.assignments import AssignmentView, NewAssignment
from core.identity.service import IdentityService
from core.identity.service_tokens import CreatedServiceToken, NewServiceToken, ServiceTokenView
from core.identity.users import NewUser, ResetLink, UserChange, UserView
from core.web.identity_routes import NO_STORE
from core.web.route import Answer, Decided, Guard, Handler, OnObject, Request, Route, SignedIn

TAG = "accounts"

MANAGES_USERS = OnObject(relation=Relation.CAN_MANAGE_USERS, type=ObjectType.ACCOUNT, parameter="account_id")


def _on_level(reason: str) -> Decided:
    return Decided(relations=(Relation.CAN_MANAGE_USERS,), reason=reason)


class UserList(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody in the account, oldest first."""

    items: Sequence[UserView]


class RoleView(msgspec.Struct, frozen=True, kw_only=True):
    """A role that can be given."""

    role: str
    grants: tuple[Grant, ...]
    needs_end: bool


class RoleList(msgspec.Struct, frozen=True, kw_only=True):
    """All roles, the strongest first."""

    items: Sequence[RoleView]


class AssignmentQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Narrows the list to one person."""

    user_id: str | None = None


class AssignmentList(msgspec.Struct, frozen=True, kw_only=True):
    """Roles given on levels where the caller manages users, oldest first."""

    items: Sequence[AssignmentView]


class ServiceTokenList(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens on levels where the caller manages users, oldest first."""

    items: Sequence[ServiceTokenView]


def access_routes(service: IdentityService) -> list[Route]:
    """The table."""
    handlers = _Handlers(service)
    return [*_user_routes(handlers), *_role_routes(handlers), *_token_routes(handlers)]


def _route(
    method: Literal["GET", "POST", "PATCH", "DELETE"],
    path: str,
    guard: Guard,
    handler: Handler,
    summary: str,
    *,
    errors: tuple[type[MowdeckError], ...] = (),
    body: object = None,
    query: object = None,
    answer: object = None,
) -> Route:
    status = {"POST": 201, "DELETE": 204}.get(method, 200)
    return Route(
        method=method,
        path=f"/identity/accounts/{{account_id}}{path}",
        guard=guard,
        handler=_in_own_account(handler),
        summary=summary,
        tag=TAG,
        body=body,
        query=query,
        answer=answer,
        status=status,
        errors=(NotFoundError, ForbiddenError, *errors),
    )


def _in_own_account(handler: Handler) -> Handler:
    async def handle(request: Request) -> object:
        if request.path["account_id"] != request.who.account_id:
            raise NotFoundError("no such account")
        return await handler(request)

    return handle


def _user_routes(handlers: _Handlers) -> list[Route]:
    first = _on_level("each first role names its level in the body; without one the account is the level")
    return [
        _route("GET", "/users", MANAGES_USERS, handlers.users, "People of the account", answer=UserList),
        _route(
            "POST",
            "/users",
            first,
            handlers.create_user,
            "Let a person in; they have to change the password at once",
            body=NewUser,
            answer=UserView,
            errors=(ConflictError, InvalidInputError, LimitExceededError),
        ),
        _route(
            "PATCH",
            "/users/{user_id}",
            MANAGES_USERS,
            handlers.change_user,
            "Change the address, disable or enable",
            body=UserChange,
            answer=UserView,
            errors=(ConflictError, InvalidInputError),
        ),
        _route(
            "DELETE",
            "/users/{user_id}",
            MANAGES_USERS,
            handlers.delete_user,
            "Remove a person from the account",
            errors=(ConflictError,),
        ),
        _route(
            "POST",
            "/users/{user_id}/reset",
            MANAGES_USERS,
            handlers.make_reset_link,
            "A one-time link for a new password",
            answer=ResetLink,
        ),
    ]


def _role_routes(handlers: _Handlers) -> list[Route]:
    shown = _on_level("only what is on levels where the caller manages users is shown")
    return [
        _route(
            "GET",
            "/roles",
            SignedIn(reason="the built-in roles are no secret, and the same for all"),
            handlers.roles,
            "Roles that can be given",
            answer=RoleList,
        ),
        _route(
            "GET",
            "/role-assignments",
            shown,
            handlers.assignments,
            "Roles given",
            query=AssignmentQuery,
            answer=AssignmentList,
        ),
        _route(
            "POST",
            "/role-assignments",
            _on_level("the body names the level"),
            handlers.create_assignment,
            "Give a role",
            body=NewAssignment,
            answer=AssignmentView,
            errors=(ConflictError, InvalidInputError, LimitExceededError),
        ),
        _route(
            "DELETE",
            "/role-assignments/{assignment_id}",
            _on_level("the assignment names the level"),
            handlers.delete_assignment,
            "Take a role back",
            errors=(ConflictError,),
        ),
    ]


def _token_routes(handlers: _Handlers) -> list[Route]:
    shown = _on_level("only what is on levels where the caller manages users is shown")
    return [
        _route("GET", "/tokens", shown, handlers.tokens, "Service tokens", answer=ServiceTokenList),
        _route(
            "POST",
            "/tokens",
            _on_level("the body names the level"),
            handlers.create_token,
            "Make a service token; its secret is shown only now",
            body=NewServiceToken,
            answer=CreatedServiceToken,
            errors=(InvalidInputError, LimitExceededError),
        ),
        _route(
            "DELETE",
            "/tokens/{token_id}",
            _on_level("the token names the level"),
            handlers.delete_token,
            "Revoke a service token",
        ),
    ]


class _Handlers:
    def __init__(self, service: IdentityService) -> None:
        self._service = service

    async def users(self, request: Request) -> UserList:
        return UserList(items=await self._service.users.visible(request.who))

    async def create_user(self, request: Request) -> UserView:
        return await self._service.users.create(request.who, request.body)

    async def change_user(self, request: Request) -> UserView:
        return await self._service.users.change(request.who, UserId(request.path["user_id"]), request.body)

    async def delete_user(self, request: Request) -> None:
        await self._service.users.delete(request.who, UserId(request.path["user_id"]))

    async def make_reset_link(self, request: Request) -> Answer:
        link = await self._service.users.make_reset_link(request.who, UserId(request.path["user_id"]))
        return Answer(value=link, headers=NO_STORE)

    async def roles(self, _: Request) -> RoleList:
        return RoleList(
            items=[
                RoleView(role=role, grants=tuple(one for one in Grant if one in held), needs_end=role in ROLES_WITH_END)
                for role, held in ROLES.items()
            ]
        )

    async def assignments(self, request: Request) -> AssignmentList:
        query: AssignmentQuery = request.query
        user_id = None if query.user_id is None else UserId(query.user_id)
        return AssignmentList(items=await self._service.assignments.visible(request.who, user_id=user_id))

    async def create_assignment(self, request: Request) -> AssignmentView:
        return await self._service.assignments.create(request.who, request.body)

    async def delete_assignment(self, request: Request) -> None:
        await self._service.assignments.delete(request.who, request.path["assignment_id"])

    async def tokens(self, request: Request) -> ServiceTokenList:
        return ServiceTokenList(items=await self._service.tokens.visible(request.who))

    async def create_token(self, request: Request) -> Answer:
        created = await self._service.tokens.create(request.who, request.body)
        return Answer(value=created, headers=NO_STORE)

    async def delete_token(self, request: Request) -> None:
        await self._service.tokens.delete(request.who, request.path["token_id"])
