"""One line per link, and the next one only when the link is another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.domain.errors import InvalidInputError
from core.domain.ids import AccountId, EdgeId, MowerId
from core.sync.envelope import public_jwk
from core.sync.linking import BrokerAddress, LinkGrant
from edge_agent.uplink.relay_line import RelayLine

KEY = public_jwk(Ed25519PrivateKey.generate().public_key(), "k")


def grant(edge_id: str = "e1") -> LinkGrant:
    return LinkGrant(
        edge_id=EdgeId(edge_id),
        account_id=AccountId("a"),
        broker=BrokerAddress(host="relay.example", port=8883, tls=True),
        credential="secret",
        relay_keys=(KEY,),
        relay_url="https://relay.example",
    )


class FakeUplink:
    """Runs until it is cancelled, and remembers what was put."""

    def __init__(self, link: LinkGrant) -> None:
        self.link = link
        self.is_running = False
        self.put: list[Any] = []

    async def run(self) -> None:
        self.is_running = True
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.is_running = False

    def put_state(self, mower_id: MowerId, state: Any) -> None:
        self.put.append(mower_id)


class Lines:
    """All lines that were made; `error` is raised instead of making one."""

    def __init__(self, link: LinkGrant | None) -> None:
        self.made: list[FakeUplink] = []
        self.error: InvalidInputError | None = None
        self.line = RelayLine(self._make, link)  # type: ignore[arg-type]

    def _make(self, link: LinkGrant) -> FakeUplink:
        if self.error is not None:
            raise self.error
        self.made.append(FakeUplink(link))
        return self.made[-1]

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    def running(self) -> list[str]:
        return [uplink.link.edge_id for uplink in self.made if uplink.is_running]


@asynccontextmanager
async def lines(link: LinkGrant | None) -> AsyncIterator[Lines]:
    made = Lines(link)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(made.line.run())
        await made.settle()
        yield made
        task.cancel()
    assert made.running() == []


async def test_without_a_link_what_is_put_is_dropped():
    async with lines(None) as found:
        found.line.put_state(MowerId("m"), None)  # type: ignore[arg-type]
        found.line.on_inventory()
        found.line.on_growth()
        assert (found.made, found.line.status(), found.line.problem) == ([], None, None)


async def test_another_link_gets_another_line_and_none_ends_it():
    async with lines(grant("e1")) as found:
        assert found.running() == ["e1"]
        found.line.change(grant("e2"))
        await found.settle()
        assert found.running() == ["e2"]
        found.line.put_state(MowerId("m"), None)  # type: ignore[arg-type]
        assert [uplink.put for uplink in found.made] == [[], ["m"]]
        found.line.change(None)
        await found.settle()
        assert found.running() == []


async def test_the_same_link_again_keeps_its_line():
    async with lines(grant("e1")) as found:
        found.line.change(grant("e1"))
        await found.settle()
        assert len(found.made) == 1
        assert found.running() == ["e1"]


async def test_changes_in_quick_succession_end_with_the_last():
    async with lines(grant("e1")) as found:
        for link in (None, grant("e2"), None, grant("e3")):
            found.line.change(link)
        await found.settle()
        assert found.running() == ["e3"]
        assert len(found.made) == 2


async def test_a_link_that_cannot_be_used_is_a_problem_until_it_can():
    found = Lines(grant("e1"))
    found.error = InvalidInputError.of("relay_keys", "no key")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(found.line.run())
        await found.settle()
        assert found.line.problem == "relay_keys: no key"
        found.error = None
        found.line.change(grant("e1"))
        await found.settle()
        assert (found.running(), found.line.problem) == (["e1"], None)
        task.cancel()


async def test_a_line_that_dies_is_not_hidden():
    class Dying(FakeUplink):
        async def run(self) -> None:
            raise RuntimeError("a bug")

    line = RelayLine(Dying, grant())  # type: ignore[arg-type]
    with pytest.raises(ExceptionGroup):
        async with asyncio.timeout(5):
            await line.run()
