"""A route as a value: what it takes, what it gives, and which right it needs. The route table makes the
aiohttp routes, the OpenAPI document and the tests that walk it; a route cannot exist without a guard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from aiohttp import web

from core.domain.access import ObjectRef, ObjectType, Relation
from core.domain.errors import MowdeckError, UnauthenticatedError
from core.identity.principal import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """Needs no token; `reason` says why that is right."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """Needs a token, and concerns only its holder; `reason` says why no relation is asked."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OnAccount:
    """Needs `relation` on the account that the token acts for (403 without)."""

    relation: Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class OnObject:
    """Needs `relation` on the object named by path parameter `parameter`. 404 for what the caller cannot view,
    403 for what they may see but not do."""

    relation: Relation
    type: ObjectType
    parameter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Needs a token; the handler itself asks for `relations` because the object (or the relation) is known only
    from the body or a look-up. `reason` says so."""

    relations: tuple[Relation, ...]
    reason: str


Guard = Public | SignedIn | OnAccount | OnObject | Decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a handler gets: everything decoded and checked."""

    principal: Principal | None
    path: Mapping[str, str]
    body: Any
    """An instance of the route's `body` type, else None."""
    query: Any
    """An instance of the route's `query` type, else None."""
    now: datetime
    correlation_id: str
    remote: str
    """The caller's address (behind a trusted proxy: the forwarded one)."""
    raw: web.Request

    @property
    def who(self) -> Principal:
        """The caller of a guarded route."""
        if self.principal is None:
            raise UnauthenticatedError("no token")
        return self.principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A handler's answer when the plain value is not enough."""

    value: Any = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    """Anything else sends `value` (bytes or str) as it is."""


Handler = Callable[[Request], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation. `path` is below `/api/v1` unless `is_absolute`; types are msgspec Structs."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    guard: Guard
    handler: Handler
    summary: str
    tag: str
    body: Any = None
    query: Any = None
    answer: Any = None
    media: tuple[str, ...] = ()
    """Other content types that a success may have, as a file."""
    status: int = 200
    other_answers: Mapping[int, Any] = field(default_factory=dict)
    """Status -> type of answers of a foreign protocol that are neither the success nor a problem."""
    errors: tuple[type[MowdeckError], ...] = ()
    is_absolute: bool = False
    is_stream: bool = False
    """A WebSocket or another answer that the handler sends by itself on `raw`."""
    is_page: bool = False
    """A file for browsers, no operation of the API: not described there, and its query is the page's own business
    (links to a page grow parameters on their way through mails and messengers)."""


def mower_ref(mower_id: str) -> ObjectRef:
    """The access object of a mower."""
    return ObjectRef(type=ObjectType.MOWER, id=mower_id)
