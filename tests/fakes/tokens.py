"""A verifier that knows the tokens a test has handed out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from core.domain.errors import UnauthenticatedError, UnavailableError
from core.domain.ids import AccountId, UserId
from core.identity.principal import Principal
from tests.fakes.clock import START


def make_principal(
    subject: str,
    account_id: str = "acc-a",
    *,
    kind: Literal["user", "service"] = "user",
    expires_at: datetime = START + timedelta(days=1),
    must_change_password: bool = False,
) -> Principal:
    return Principal(
        subject=UserId(subject),
        account_id=AccountId(account_id),
        kind=kind,
        name=subject.title(),
        session_id=f"session-{subject}",
        expires_at=expires_at,
        must_change_password=must_change_password,
    )


class FakeVerifier:
    """Tokens by text; anything else does not hold."""

    def __init__(self) -> None:
        self.principals: dict[str, Principal] = {}
        self.is_down = False

    def issue(self, who: Principal, token: str | None = None) -> str:
        """A token for a principal."""
        token = token or f"token-{who.subject}-{len(self.principals)}"
        self.principals[token] = who
        return token

    async def verify(self, token: str) -> Principal:
        if self.is_down:
            raise UnavailableError("the identity database is away")
        try:
            return self.principals[token]
        except KeyError:
            raise UnauthenticatedError("the token does not hold") from None
