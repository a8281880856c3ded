"""Who is asking, once a token has been verified."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from core.domain.ids import AccountId, UserId


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in subject within one account."""

    subject: UserId
    account_id: AccountId
    kind: Literal["user", "service"]
    name: str
    session_id: str
    expires_at: datetime
    must_change_password: bool = False
