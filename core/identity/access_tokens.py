"""Access tokens: short-lived JWTs, signed with EdDSA and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import jwt
import msgspec

from core.domain.clock import Clock
from core.domain.errors import UnauthenticatedError
from core.domain.ids import AccountId, UserId, make_id
from core.domain.limits import ACCESS_TOKEN_TTL
from core.identity.keys import SigningKeys

ALGORITHM = "EdDSA"
TYPE = "at+jwt"
"""RFC 9068: so that nothing else that we sign passes for an access token."""
CLOCK_SKEW = timedelta(seconds=60)


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What an access token says. Times are seconds since 1970."""

    iss: str
    sub: UserId
    acc: AccountId
    kind: Literal["user"]
    name: str
    sid: str
    jti: str
    iat: int
    exp: int

    @property
    def expires_at(self) -> datetime:
        return datetime.fromtimestamp(self.exp, UTC)


class AccessTokens:
    """Issues and reads them. Whether the session still stands is another question."""

    def __init__(self, keys: SigningKeys, issuer: str, clock: Clock) -> None:
        """`issuer` names this installation, e.g. the relay's URL or `mowdeck-edge:<edge id>`."""
        self._keys = keys
        self._issuer = issuer
        self._clock = clock

    def issue(self, *, user_id: UserId, account_id: AccountId, name: str, session_id: str) -> tuple[str, datetime]:
        """A token and when it expires."""
        now = self._clock.now()
        iat = int(now.timestamp())
        claims = Claims(
            iss=self._issuer,
            sub=user_id,
            acc=account_id,
            kind="user",
            name=name,
            sid=session_id,
            jti=make_id(now),
            iat=iat,
            exp=iat + int(ACCESS_TOKEN_TTL.total_seconds()),
        )
        key = self._keys.current
        headers = {"kid": key.kid, "typ": TYPE}
        token = jwt.encode(msgspec.structs.asdict(claims), key.private, algorithm=ALGORITHM, headers=headers)
        return token, claims.expires_at

    def read(self, token: str) -> Claims:
        """UnauthenticatedError unless one of our keys signed it, for us, and now is its time."""
        try:
            header = jwt.get_unverified_header(token)
            public = self._keys.public(str(header.get("kid")))
            if public is None or header.get("typ") != TYPE:
                raise UnauthenticatedError("the token was not made here")
            # The times are checked below, against our clock.
            payload = jwt.decode(
                token,
                public,
                algorithms=[ALGORITHM],
                issuer=self._issuer,
                options={"verify_exp": False, "verify_iat": False, "verify_nbf": False, "require": ["exp", "iss"]},
            )
            claims = msgspec.convert(payload, Claims)
        except (jwt.PyJWTError, msgspec.ValidationError, UnicodeError, RecursionError) as err:
            raise UnauthenticatedError("the token does not hold") from err
        now = self._clock.now().timestamp()
        if now >= claims.exp:
            raise UnauthenticatedError("the token has expired")
        if claims.iat > now + CLOCK_SKEW.total_seconds():
            raise UnauthenticatedError("the token is from the future")
        return claims
