"""Who may pass: the bearer token becomes a principal, and the route's guard is enforced before its handler runs."""

from __future__ import annotations

from aiohttp import web

from core.access.authorizer import Authorizer
from core.domain.access import GRANT_OF, Grant, ObjectRef, ObjectType, Relation
from core.domain.errors import ForbiddenError, NotFoundError, UnauthenticatedError
from core.domain.ids import is_safe_id
from core.identity.principal import Principal
from core.web.ports import TokenVerifier
from core.web.route import Decided, OnAccount, OnObject, Public, Route, SignedIn

TOKEN_BYTES = 8 * 1024
IDENTITY_TAG = "identity"
"""SignedIn routes with this tag stay open to somebody who has to change the password first."""


class Gate:
    """Enforces guards."""

    def __init__(self, verifier: TokenVerifier, authorizer: Authorizer) -> None:
        self._verifier = verifier
        self._authorizer = authorizer

    async def admit(self, route: Route, raw: web.Request) -> Principal | None:
        """The caller if the guard lets them pass (None on a public route); raises the error to answer otherwise."""
        guard = route.guard
        if isinstance(guard, Public):
            return None
        who = await self._verifier.verify(bearer_token(raw))
        if who.must_change_password and not (isinstance(guard, SignedIn) and route.tag == IDENTITY_TAG):
            raise ForbiddenError("the password has to be changed first", hint="Change the password, then go on.")
        match guard:
            case OnAccount(relation=relation):
                account = ObjectRef(type=ObjectType.ACCOUNT, id=who.account_id)
                if not await self._authorizer.check(who, relation, account):
                    raise ForbiddenError(f"needs {relation} on the account")
            case OnObject(relation=relation, type=kind, parameter=parameter):
                await demand(self._authorizer, who, relation, ObjectRef(type=kind, id=raw.match_info[parameter]))
            case SignedIn() | Decided():
                pass
        return who


async def demand(authorizer: Authorizer, who: Principal, relation: Relation, what: ObjectRef) -> None:
    """Returns if the caller has the relation. NotFoundError for what they cannot view (whether it exists is not
    told), ForbiddenError for what they see but may not do."""
    if not is_safe_id(what.id) or not await authorizer.check(who, Relation.CAN_VIEW, what):
        raise NotFoundError(f"no such {what.type}")
    if GRANT_OF[relation] is Grant.VIEW:
        return
    if not await authorizer.check(who, relation, what):
        raise ForbiddenError(f"needs {relation} on the {what.type}")


def bearer_token(raw: web.Request) -> str:
    """The token of the Authorization header, the only place where one is taken."""
    headers = raw.headers.getall("Authorization", [])
    if len(headers) != 1:
        raise UnauthenticatedError("no token" if not headers else "more than one Authorization header")
    scheme, _, token = headers[0].partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise UnauthenticatedError("the Authorization header holds no bearer token")
    if len(token) > TOKEN_BYTES:
        raise UnauthenticatedError("the token is too long")
    return token
