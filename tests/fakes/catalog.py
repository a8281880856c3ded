"""A catalog of mowers and a desk for commands, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from core.domain.capabilities import Capabilities
from core.domain.commands import Command, CommandStatus, IssuedBy
from core.domain.errors import NotFoundError
from core.domain.ids import AccountId, CommandId, MowerId
from core.identity.principal import Principal
from core.web.ports import CommandView, MowerView
from tests.fakes.clock import ManualClock


class FakeCatalog:
    """Mowers by account."""

    def __init__(self) -> None:
        self.rows: dict[MowerId, tuple[AccountId, MowerView]] = {}

    def add(self, account_id: AccountId, mower_id: str, name: str = "Mower", **more: object) -> MowerView:
        view = MowerView(mower_id=MowerId(mower_id), name=name, capabilities=Capabilities(), **more)  # type: ignore[arg-type]
        self.rows[view.mower_id] = (account_id, view)
        return view

    async def mower(self, account_id: AccountId, mower_id: MowerId) -> MowerView:
        owner, view = self.rows.get(mower_id, (None, None))
        if view is None or owner != account_id:
            raise NotFoundError("no such mower")
        return view

    async def mowers(self, account_id: AccountId) -> Sequence[MowerView]:
        return [view for owner, view in self.rows.values() if owner == account_id]


class FakeDesk:
    """Takes every command and keeps it pending; `error`, when set, is raised instead."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.error: Exception | None = None
        self.rows: list[tuple[AccountId, CommandView]] = []
        self.correlation_ids: list[str] = []

    async def submit(
        self, who: Principal, mower_id: MowerId, command: Command, *, time_to_live: timedelta, correlation_id: str
    ) -> CommandView:
        if self.error is not None:
            raise self.error
        now = self._clock.now()
        view = CommandView(
            command_id=CommandId(f"c{len(self.rows):04}"),
            mower_id=mower_id,
            command=command,
            status=CommandStatus.PENDING,
            reason=None,
            issued_by=IssuedBy(kind="user", subject=who.subject, display=who.name),
            issued_at=now,
            expires_at=now + time_to_live,
            updated_at=now,
        )
        self.rows.append((who.account_id, view))
        self.correlation_ids.append(correlation_id)
        return view

    async def command(self, account_id: AccountId, command_id: CommandId) -> CommandView:
        for owner, view in self.rows:
            if owner == account_id and view.command_id == command_id:
                return view
        raise NotFoundError(f"no command {command_id}")

    async def commands(
        self, account_id: AccountId, mower_id: MowerId, *, before: CommandId | None, limit: int
    ) -> Sequence[CommandView]:
        own = [v for owner, v in reversed(self.rows) if owner == account_id and v.mower_id == mower_id]
        return [v for v in own if before is None or v.command_id < before][:limit]
