"""The request budget: never more than the vendor allows, whatever happens to the box."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.errors import LimitExceededError, RateLimitedError
from core.platform.budget import DAY_S, BudgetStore
from core.platform.manifest import RequestLimit
from tests.fakes.clock import ManualClock

LIMIT = RequestLimit(burst=20, per_day=1440)  # one a minute


def store_of(folder: Path, clock: ManualClock) -> BudgetStore:
    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    store = BudgetStore(folder / "budgets.json", clock, sleep)
    store.load()
    return store


async def test_a_burst_then_a_wait_then_a_refusal(tmp_path: Path):
    clock = ManualClock()
    budget = store_of(tmp_path, clock).for_key("acme:a", LIMIT)
    began = clock.monotonic()
    for _ in range(20):
        await budget.spend()
    assert clock.monotonic() == began
    await budget.spend()
    assert clock.monotonic() - began == pytest.approx(60.0)
    with pytest.raises(RateLimitedError) as caught:
        await budget.spend(2)
    assert caught.value.retry_after_s == pytest.approx(120.0)
    clock.advance(120)
    await budget.spend(2)


async def test_keys_do_not_share(tmp_path: Path):
    store = store_of(tmp_path, ManualClock())
    await store.for_key("acme:a", LIMIT).spend(20)
    await store.for_key("acme:b", LIMIT).spend(20)
    assert store.for_key("acme:a", LIMIT) is store.for_key("acme:a", LIMIT)


@pytest.mark.parametrize("requests", [0, -1, 21])
async def test_what_never_fits(tmp_path: Path, requests: int):
    with pytest.raises(LimitExceededError):
        await store_of(tmp_path, ManualClock()).for_key("k", LIMIT).spend(requests)


async def test_a_restart_gives_nothing_back(tmp_path: Path):
    clock = ManualClock()
    store = store_of(tmp_path, clock)
    await store.for_key("k", LIMIT).spend(20)
    await store.close()
    assert store_of(tmp_path, clock).for_key("k", LIMIT).tokens() == pytest.approx(0.0)
    clock.advance(600)
    assert store_of(tmp_path, clock).for_key("k", LIMIT).tokens() == pytest.approx(10.0)
    clock.jump(-DAY_S)
    assert store_of(tmp_path, clock).for_key("k", LIMIT).tokens() == pytest.approx(0.0)


async def test_a_request_that_was_not_sent_is_given_back(tmp_path: Path):
    clock = ManualClock()

    async def never(seconds: float) -> None:
        await asyncio.Event().wait()

    store = BudgetStore(tmp_path / "budgets.json", clock, never)
    budget = store.for_key("k", LIMIT)
    await budget.spend(20)
    waiting = asyncio.create_task(budget.spend())
    await asyncio.sleep(0)
    assert budget.tokens() == pytest.approx(-1.0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert budget.tokens() == pytest.approx(0.0)


async def test_a_corrupt_file_begins_empty(tmp_path: Path):
    (tmp_path / "budgets.json").write_text("{")
    assert store_of(tmp_path, ManualClock()).for_key("k", LIMIT).tokens() == 0.0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("spend"), st.integers(1, 5)),
        st.tuples(st.just("wait"), st.floats(0, 7200)),
        st.tuples(st.just("crash"), st.none()),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("clock back"), st.floats(0, 7200)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_never_more_than_allowed_in_any_window(tmp_path_factory, steps):
    """Whatever crashes, restarts and set-back clocks: in every window at most burst + rate x length."""
    asyncio.run(_play(tmp_path_factory.mktemp("budget"), steps))


async def _play(folder: Path, steps) -> None:
    clock = ManualClock()
    sent: list[float] = []
    store = store_of(folder, clock)
    for what, value in steps:
        if what == "spend":
            try:
                await store.for_key("k", LIMIT).spend(value)
                sent += [clock.monotonic()] * value
            except RateLimitedError:
                pass
        elif what == "wait":
            clock.advance(value)
        elif what == "clock back":
            clock.jump(-value)
        else:
            if what == "restart":
                await store.close()
            store = store_of(folder, clock)
    for first, began in enumerate(sent):
        for last in range(first, len(sent)):
            allowed = LIMIT.burst + (sent[last] - began) * LIMIT.per_day / DAY_S
            assert last - first + 1 <= allowed + 1e-6
