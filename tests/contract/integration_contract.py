"""What every integration has to hold, whatever its brand: the checks of `core.platform.contract` as tests.

    class TestAcmeContract(IntegrationContract):
        def make(self, context: IntegrationContext) -> AbstractAsyncContextManager[Integration]:
            ...start the emulator, yield create(context, entry)...

The peer behind the integration must have at least one mower in its dock, without a fault, ready to mow, and must
run fast enough for the confirm timeouts of its own capabilities.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from core.domain.mower import MowerDescription
from core.platform.contract import checks
from core.platform.contract.breach import NotApplicableError
from core.platform.contract.checks import Subject, World
from core.platform.contract.plausible import require_plausible as assert_plausible
from core.platform.contract.running import FIRST_STATE_S, QUIET_S, Running, obeyed, run_link
from core.platform.contract.samples import beyond, sample_commands
from core.platform.contract.surroundings import FreeBudget, PlainSecrets, open_context
from core.platform.integration import Integration, IntegrationContext

__all__ = [
    "FIRST_STATE_S",
    "QUIET_S",
    "FreeBudget",
    "IntegrationContract",
    "PlainSecrets",
    "Running",
    "assert_plausible",
    "beyond",
    "obeyed",
    "open_context",
    "run_link",
    "sample_commands",
]


class IntegrationContract:
    """Subclass it as `Test...` and override `make`."""

    may_refuse: frozenset[str] = frozenset()
    """Kinds of commands that the healthy peer may refuse although its capabilities name them."""

    def make(self, context: IntegrationContext) -> AbstractAsyncContextManager[Integration]:
        """The integration on a fresh peer that is the same machine each time."""
        raise AssertionError("override make()")

    @pytest.fixture
    async def integration(self) -> AsyncIterator[Integration]:
        async with open_context() as context, self.make(context) as integration:
            yield integration
            await integration.close()

    @pytest.fixture
    async def mower(self, integration: Integration) -> MowerDescription:
        return (await integration.mowers())[0]

    async def _hold(
        self, check: Callable[[Subject], Awaitable[None]], integration: Integration, mower: MowerDescription
    ) -> None:
        world = World(make=self.make, may_refuse=self.may_refuse)
        try:
            await check(Subject(world=world, integration=integration, mower=mower))
        except NotApplicableError as err:
            pytest.skip(str(err))

    async def test_mowers_have_a_lasting_identity(self, integration: Integration, mower: MowerDescription) -> None:
        await self._hold(checks.mowers_have_a_lasting_identity, integration, mower)

    async def test_open_refuses_an_unknown_mower(self, integration: Integration, mower: MowerDescription) -> None:
        await self._hold(checks.open_refuses_an_unknown_mower, integration, mower)

    async def test_nothing_moves_unless_told(self, integration: Integration, mower: MowerDescription) -> None:
        await self._hold(checks.nothing_moves_unless_told, integration, mower)

    async def test_states_are_plausible_and_in_order(self, integration: Integration, mower: MowerDescription) -> None:
        await self._hold(checks.states_are_plausible_and_in_order, integration, mower)

    async def test_commands_have_a_visible_effect(self, integration: Integration, mower: MowerDescription) -> None:
        await self._hold(checks.commands_have_a_visible_effect, integration, mower)

    async def test_stops_at_once_wherever_it_is(self, integration: Integration, mower: MowerDescription) -> None:
        await self._hold(checks.stops_at_once_wherever_it_is, integration, mower)

    async def test_what_it_cannot_do_is_refused(self, integration: Integration, mower: MowerDescription) -> None:
        await self._hold(checks.what_it_cannot_do_is_refused, integration, mower)

    async def test_driving_by_hand_has_a_dead_man(self, integration: Integration, mower: MowerDescription) -> None:
        await self._hold(checks.driving_by_hand_has_a_dead_man, integration, mower)

    async def test_a_link_is_never_reopened(self, integration: Integration, mower: MowerDescription) -> None:
        await self._hold(checks.a_link_is_never_reopened, integration, mower)

    async def test_leaves_no_task_behind(self) -> None:
        await checks.leaves_no_task_behind(World(make=self.make, may_refuse=self.may_refuse))
