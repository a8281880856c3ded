"""The newest states, and who hears of them."""

from __future__ import annotations

import pytest

from core.domain import limits
from core.domain.errors import LimitExceededError
from core.domain.ids import AccountId, MowerId
from core.domain.mower import Activity
from edge_agent.runtime import live as module
from edge_agent.runtime.live import LiveStates
from tests.edge_agent.runtime.plugin import state

OURS = AccountId("ours")


def make() -> LiveStates:
    return LiveStates(account_id=lambda: OURS)


async def test_last_is_only_for_the_account_of_the_box() -> None:
    live = make()
    live.put(MowerId("a"), state())
    assert [found.mower_id for found in await live.last(OURS, [MowerId("a"), MowerId("b")])] == ["a"]
    assert await live.last(AccountId("theirs"), [MowerId("a")]) == ()


def test_listeners_until_undone() -> None:
    live = make()
    seen: list[str] = []
    undo = live.subscribe(lambda mower_id, _: seen.append(mower_id))
    only = live.subscribe(lambda mower_id, _: seen.append(f"only {mower_id}"), only=MowerId("b"))
    live.put(MowerId("a"), state())
    live.put(MowerId("b"), state(Activity.MOWING))
    undo()
    undo()
    live.put(MowerId("b"), state())
    only()
    live.put(MowerId("b"), state())
    assert seen == ["a", "b", "only b", "only b"]


def test_a_broken_listener_harms_nobody() -> None:
    live = make()
    seen: list[str] = []
    live.subscribe(lambda *_: 1 / 0)
    live.subscribe(lambda mower_id, _: seen.append(mower_id))
    live.put(MowerId("a"), state())
    assert seen == ["a"]


def test_bounds() -> None:
    live = make()
    for _ in range(module.SUBSCRIBERS):
        live.subscribe(lambda *_: None)
    with pytest.raises(LimitExceededError):
        live.subscribe(lambda *_: None)
    small = make()
    for number in range(limits.LAST_VALUES):
        small.put(MowerId(str(number)), state())
    with pytest.raises(LimitExceededError):
        small.put(MowerId("more"), state())
    small.forget(MowerId("1"))
    small.put(MowerId("more"), state())
    assert small.get(MowerId("1")) is None
