"""The whole way: an operator's start waits on the box behind another command, the operator is thrown out, and the
mower never hears of it. The whole relay with its broker, and a box's own line and commander."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cloud_relay.commands.tenure import SIGN_IN_ENDED
from core.domain.clock import SystemClock
from core.domain.commands import RIGHT_LOST, CommandStatus, FindMower
from core.domain.ids import BootId, EntryId
from core.domain.mower import Activity
from core.mqtt.session import BrokerAddress
from core.sync.linking import LinkGrant
from core.sync.messages import InventoryItem
from edge_agent.runtime.drive_desk import take_drive_message
from edge_agent.uplink.facts import BoxFacts
from edge_agent.uplink.uplink import Uplink
from tests.cloud_relay.fake_box import connected_box
from tests.cloud_relay.relay_parts import item
from tests.cloud_relay.running_relay import PASSWORD, RunningRelay, running_relay
from tests.edge_agent.runtime.box import MOWER
from tests.edge_agent.runtime.plugin import CAPABILITIES, FakeLink, description
from tests.edge_agent.uplink.world import RealTimeBox

NEW_PASSWORD = "another long password"
COMMANDS = f"/fleet/mowers/{MOWER}/commands"


@pytest.fixture
async def relay(tmp_path: Path) -> AsyncIterator[RunningRelay]:
    async with running_relay(tmp_path) as running:
        yield running


@dataclass(frozen=True)
class Operator:
    token: str
    user_id: str
    assignment_id: str


async def account_of(relay: RunningRelay, owner: str) -> str:
    return str((await relay.call(owner, "GET", "/identity/me"))[1]["account"]["account_id"])


async def hire(relay: RunningRelay, owner: str) -> Operator:
    """An operator of the owner's account, signed in."""
    account = await account_of(relay, owner)
    role = {"role": "operator", "level": {"type": "account", "id": account}}
    body = {"username": "oskar", "password": PASSWORD, "assignments": [role]}
    status, user = await relay.call(owner, "POST", f"/identity/accounts/{account}/users", body)
    assert status == 201, user
    sign_in = {"username": "oskar", "password": PASSWORD}
    token = (await relay.call(None, "POST", "/identity/session", sign_in))[1]["access_token"]
    change = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    assert (await relay.call(token, "POST", "/identity/me/password", change))[0] < 300
    sign_in["password"] = NEW_PASSWORD
    token = (await relay.call(None, "POST", "/identity/session", sign_in))[1]["access_token"]
    _, given = await relay.call(owner, "GET", f"/identity/accounts/{account}/role-assignments")
    [mine] = [one for one in given["items"] if one["user_id"] == user["user_id"]]
    return Operator(token, user["user_id"], mine["assignment_id"])


def uplink_of(grant: LinkGrant, box: RealTimeBox) -> Uplink:
    async def ignore(_: object) -> None:
        pass

    found = InventoryItem(
        mower_id=MOWER, description=description(), capabilities=CAPABILITIES, entry_id=EntryId("entry")
    )
    return Uplink(
        grant,
        broker=BrokerAddress(host=grant.broker.host, port=grant.broker.port, tls=grant.broker.tls),
        store=box.store,
        clock=box.keeper,
        boot_id=BootId("boot"),
        random=random.Random(1).random,
        facts=lambda: BoxFacts(name="Box", version="0.1", mowers=(found,)),
        submit=lambda envelope, source: box.commander.submit(envelope, source=source),
        drive=lambda message: take_drive_message(box.commander.seats, message),
        cancel=box.commander.cancel,
        states=box.live.all,
        account_id=lambda: grant.account_id,
        on_registrations=ignore,
        diagnostics=dict,
    )


@asynccontextmanager
async def boxed(relay: RunningRelay, owner: str, folder: Path) -> AsyncIterator[RealTimeBox]:
    """A linked box whose mower hangs in a command, so that others wait."""
    grant = await relay.link(owner, "fingerprint-of-box-1")
    box = RealTimeBox(folder / "box.db")
    box.account = grant.account_id
    box.link = FakeLink()
    box.link.gate.clear()
    await box.start()
    box.commander._execution._send_deadline_s = 60.0
    box.show(Activity.DOCKED, observed_at=SystemClock().now())
    uplink = uplink_of(grant, box)
    undo = box.hear(uplink.put_result)
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(uplink.run(), name="uplink")
            await relay.until(owner, f"/fleet/mowers/{MOWER}", lambda m: m["is_edge_online"])
            yield box
            task.cancel()
    finally:
        undo()
        await box.stop()


async def give(relay: RunningRelay, token: str, kind: str) -> str:
    body = {"command": {"kind": kind}, "time_to_live_s": 120}
    status, accepted = await relay.call(token, "POST", COMMANDS, body)
    assert status == 202, accepted
    return str(accepted["command_id"])


async def fire(relay: RunningRelay, owner: str, operator: Operator) -> tuple[int, Any]:
    account = await account_of(relay, owner)
    path = f"/identity/accounts/{account}/role-assignments/{operator.assignment_id}"
    return await relay.call(owner, "DELETE", path)


async def disable(relay: RunningRelay, owner: str, operator: Operator) -> tuple[int, Any]:
    path = f"/identity/accounts/{await account_of(relay, owner)}/users/{operator.user_id}"
    return await relay.call(owner, "PATCH", path, {"is_disabled": True})


async def sign_out(relay: RunningRelay, _owner: str, operator: Operator) -> tuple[int, Any]:
    return await relay.call(operator.token, "DELETE", "/identity/session")


@pytest.mark.parametrize(("lose", "reason"), [(fire, RIGHT_LOST), (disable, RIGHT_LOST), (sign_out, SIGN_IN_ENDED)])
async def test_a_start_that_waits_is_never_sent(relay: RunningRelay, tmp_path: Path, lose: Any, reason: str) -> None:
    owner = await relay.sign_up("anna")
    operator = await hire(relay, owner)
    async with boxed(relay, owner, tmp_path) as box:
        assert box.link is not None
        running = await give(relay, owner, "find_mower")
        await box.link.arrived.wait()
        start, kept = await give(relay, operator.token, "start_mow"), await give(relay, owner, "find_mower")
        async with asyncio.timeout(10):
            while start not in box.commander._tickets:
                await asyncio.sleep(0.01)
        assert (await lose(relay, owner, operator))[0] < 300
        # at once, while the first still runs
        view = await relay.until(owner, f"/fleet/commands/{start}", lambda c: c["status"] != "pending")
        assert (view["status"], view["reason"]) == (CommandStatus.REJECTED, reason)
        assert (await relay.call(owner, "GET", f"/fleet/commands/{running}"))[1]["status"] == "accepted"
        box.link.gate.set()
        for command_id in (running, kept):
            await relay.until(owner, f"/fleet/commands/{command_id}", lambda c: c["status"] == "executed")
        assert box.link.sent == [FindMower(), FindMower()]


@pytest.mark.slow  # waits for the relay's next round
async def test_a_cancel_that_was_missed_is_said_again(relay: RunningRelay) -> None:
    owner = await relay.sign_up("anna")
    operator = await hire(relay, owner)
    grant = await relay.link(owner, "fingerprint-of-box-1")
    async with connected_box(grant) as box:
        await box.say_hello(item(MOWER))
        await relay.until(owner, f"/fleet/mowers/{MOWER}", lambda m: m["is_edge_online"])
        start = await give(relay, operator.token, "start_mow")
        envelope = await box.command(start)
        await fire(relay, owner, operator)
        cancel = await box.cancel(start)
        assert (cancel.account_id, cancel.edge_id, cancel.mower_id) == (grant.account_id, grant.edge_id, MOWER)
        box.messages.clear()
        await box.cancel(start)  # the sweep's
        await box.say_result(envelope, CommandStatus.REJECTED)
        await relay.until(owner, f"/fleet/commands/{start}", lambda c: c["status"] == "rejected")


async def test_it_is_told_and_does_not_wait_for_its_next_round(relay: RunningRelay) -> None:
    people, recheck = relay.relay._people, relay.relay._cancellations.recheck
    assert recheck in people.grants_changed._listeners
    assert recheck in people.sessions_ended._listeners
    assert people.grants_changed._listeners[0] == people.authorizer.drop  # forgotten before anybody asks again
