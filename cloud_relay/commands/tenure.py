"""Whether whoever gave a command may still give it, asked of the database as it is now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cloud_relay.fleet.hierarchy import mower_ref
from core.domain.access import ObjectRef, Relation
from core.domain.commands import RIGHT_LOST, Command, EmergencyStop, IssuedBy, relation_of
from core.domain.errors import ForbiddenError
from core.domain.ids import AccountId, CommandId, EdgeId, MowerId, UserId
from core.identity.principal import Principal

SIGN_IN_ENDED = "the sign-in that gave it has ended"

FindEnded = Callable[[Collection[str]], Awaitable[frozenset[str]]]
"""Which of these sessions of people have ended."""


class Rights(Protocol):
    """Answers without a memory (`core.access.sql_authorizer.SqlAuthorizer`)."""

    async def check_many(self, who: Principal, relation: Relation, what: Sequence[ObjectRef]) -> Sequence[bool]: ...

    async def held_until(self, who: Principal, relation: Relation, what: ObjectRef) -> datetime | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCommand:
    """A command that may still begin."""

    command_id: CommandId
    account_id: AccountId
    edge_id: EdgeId
    mower_id: MowerId
    command: Command
    issued_by: IssuedBy
    session_id: str | None
    expires_at: datetime


class Tenure:
    """Every method raises UnavailableError or StorageError when nobody can say."""

    def __init__(self, rights: Rights, find_ended: FindEnded) -> None:
        self._rights = rights
        self._find_ended = find_ended

    async def end_of(self, who: Principal, mower_id: MowerId, command: Command) -> datetime:
        """Until when they may give it: a command must not outlive a role with an end. ForbiddenError when they may
        not."""
        relation = relation_of(command)
        end = await self._rights.held_until(who, relation, mower_ref(mower_id))
        if end is None:
            raise ForbiddenError(f"needs {relation.value} on the mower")
        return end

    async def losses(self, commands: Sequence[OpenCommand]) -> dict[CommandId, str]:
        """The commands whose giver has lost the right (or the sign-in), and why. Never an emergency stop."""
        counted = [one for one in commands if not isinstance(one.command, EmergencyStop)]
        ended = await self._ended(counted)
        lost = {one.command_id: SIGN_IN_ENDED for one in counted if one.session_id in ended}
        groups: defaultdict[tuple[AccountId, str, Relation], list[OpenCommand]] = defaultdict(list)
        for one in counted:
            groups[one.account_id, one.issued_by.subject, relation_of(one.command)].append(one)
        for (_, _, relation), group in groups.items():
            mowers = [mower_ref(one.mower_id) for one in group]
            answers = await self._rights.check_many(_giver(group[0]), relation, mowers)
            lost |= {one.command_id: RIGHT_LOST for one, may in zip(group, answers, strict=True) if not may}
        return lost

    async def _ended(self, commands: Sequence[OpenCommand]) -> frozenset[str]:
        sessions = {one.session_id for one in commands if one.session_id is not None}
        return await self._find_ended(sessions) if sessions else frozenset()


def _giver(command: OpenCommand) -> Principal:
    """Who gave it, as the rights know them. When their token expires is no matter: they had it when they asked."""
    given = command.issued_by
    return Principal(
        subject=UserId(given.subject),
        account_id=command.account_id,
        kind="service" if given.kind == "service" else "user",
        name=given.display,
        session_id=command.session_id or given.subject,
        expires_at=command.expires_at,
    )
