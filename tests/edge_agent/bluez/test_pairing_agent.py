"""The pairing agent on a real message bus: bleak pairs, the fake bluetoothd asks, the box answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import structlog
from dbus_fast.aio.message_bus import MessageBus
from dbus_fast.constants import MessageType
from dbus_fast.message import Message
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import NotInPairingModeError, PairingRefusedError
from edge_agent.bluetooth.service import BluetoothService
from edge_agent.bluez.bus import BluezBus
from edge_agent.bluez.pairing_agent import PATH as AGENT_PATH
from edge_agent.bluez.pairing_agent import REJECTED, BluezAgent, Expected, answer
from tests.edge_agent.bluez.conftest import ADDRESS, NAME, PATH, OpenBox
from tests.fakes.dbus_daemon import DbusDaemon
from tests.fakes.fake_bluez import FakeBluez, Peer

STRANGER = "/org/bluez/hci0/dev_AA_AA_AA_AA_AA_AA"
OTHER_ADAPTER = "/org/bluez/hci1/dev_C0_00_00_00_00_01"
QUESTIONS: list[tuple[str, str, list[Any]]] = [
    ("RequestPinCode", "o", []),
    ("RequestPasskey", "o", []),
    ("RequestConfirmation", "ou", [123_456]),
    ("RequestAuthorization", "o", []),
    ("AuthorizeService", "os", [NAME]),
    ("DisplayPasskey", "ouq", [1, 0]),
    ("DisplayPinCode", "os", ["1"]),
]


async def registered(bluez: FakeBluez) -> None:
    async with asyncio.timeout(10):
        await bluez.registered.wait()


async def test_is_the_default_agent_and_says_goodbye(bluez: FakeBluez, open_box: OpenBox) -> None:
    async with open_box():
        await registered(bluez)
        ((path, capability),) = bluez.agents.values()
        assert (path, capability) == (AGENT_PATH, "DisplayYesNo")
        assert bluez.defaults == list(bluez.agents)
    assert bluez.log[-1] == "UnregisterAgent"
    assert bluez.agents == {}


async def test_says_goodbye_also_when_it_ends_in_the_middle_of_the_greeting(
    bluez: FakeBluez, open_box: OpenBox
) -> None:
    bluez.refuses_default = True
    async with open_box():
        async with asyncio.timeout(10):
            while "RequestDefaultAgent" not in bluez.log:
                await asyncio.sleep(0.005)
        assert bluez.agents
    assert bluez.log[-1] == "UnregisterAgent"
    assert bluez.agents == {}


async def test_registers_again_with_a_bluetoothd_that_was_started_anew(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    mower.pairs, mower.passkey = "compares", 4711
    await registered(bluez)
    await bluez.stop()
    assert bluez.agents == {}
    bluez.refuses_agents = 1  # at first it is not ready for agents
    await bluez.start()
    await registered(bluez)
    async with box.connect(ADDRESS, bond="pair", deadline_s=30) as connection:
        assert await connection.read(NAME) == b"Mower"
    assert bluez.paired == {PATH}


async def test_a_scan_that_hears_nothing_notices_it_too(bluez: FakeBluez, box: BluetoothService) -> None:
    await registered(bluez)
    async with asyncio.timeout(10):
        while not box.status()[0].is_scanning:
            await asyncio.sleep(0.01)
    await bluez.stop()
    await bluez.start()
    await registered(bluez)
    bluez.peers[ADDRESS] = Peer(address=ADDRESS)
    async with box.connect(ADDRESS, deadline_s=20) as connection:
        assert await connection.read(NAME) == b"Mower"


async def test_a_box_that_is_there_before_bluetoothd(bluez: FakeBluez, open_box: OpenBox) -> None:
    await bluez.stop()
    async with open_box():
        await bluez.start()
        await registered(bluez)


async def test_pairs_where_nothing_is_asked(bluez: FakeBluez, box: BluetoothService, mower: Peer) -> None:
    mower.needs_bond = True
    await registered(bluez)
    async with box.connect(ADDRESS, bond="pair") as connection:
        assert await connection.read(NAME) == b"Mower"
        await connection.write(NAME, b"x" * 62)
    assert mower.written == [b"x" * 62]
    async with box.connect(ADDRESS, bond="existing") as connection:
        assert await connection.read(NAME) == b"Mower"
    assert bluez.log.count("Pair") == 1


async def test_without_an_agent_bluez_does_not_pair(bluez: FakeBluez, open_box: OpenBox, mower: Peer) -> None:
    """What the agent is for: this is how a headless box fails without it."""
    bluez.refuses_agents = 1_000
    async with open_box() as box:
        with pytest.raises(NotInPairingModeError):
            async with box.connect(ADDRESS, bond="pair"):
                pass


async def test_confirms_a_comparison_for_the_mower_that_is_paired(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    mower.pairs, mower.passkey = "compares", 123_456
    async with box.connect(ADDRESS, bond="pair"):
        pass
    assert mower.is_authenticated


async def test_a_comparison_must_agree_with_what_a_person_has_read(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    mower.pairs, mower.passkey = "compares", 123_456
    with pytest.raises(PairingRefusedError):
        async with box.connect(ADDRESS, bond="pair", passkey=654_321):
            pass
    assert bluez.log.count("Pair") == 1, "never tried again by itself"
    async with box.connect(ADDRESS, bond="pair", passkey=123_456):
        pass
    assert mower.is_authenticated


async def test_answers_with_the_passkey_of_the_flow_and_never_tells_it_anybody(
    bluez: FakeBluez, box: BluetoothService, mower: Peer
) -> None:
    mower.pairs, mower.passkey = "shows", 271_828
    with structlog.testing.capture_logs() as told:
        with pytest.raises(PairingRefusedError, match="passkey") as failure:
            async with box.connect(ADDRESS, bond="pair", passkey=314_159):
                pass
        async with box.connect(ADDRESS, bond="pair", passkey=271_828) as connection:
            assert await connection.read(NAME) == b"Mower"
    assert mower.is_authenticated
    assert bluez.agents[bluez.defaults[-1]][1] == "KeyboardDisplay", "only with keys is the number asked for"
    for number in ("314159", "271828"):
        assert number not in str(told)
        assert number not in str(failure.value)


async def test_rejects_everybody_else(bluez: FakeBluez, box: BluetoothService) -> None:
    await registered(bluez)
    for member, signature, rest in QUESTIONS:
        refused = await bluez.ask_agent(member, signature, [PATH, *rest])
        assert (refused.message_type, refused.error_name) == (MessageType.ERROR, REJECTED), member


async def test_rejects_others_while_it_is_pairing_one(bluez: FakeBluez, daemon: DbusDaemon) -> None:
    bus = BluezBus()
    agent = BluezAgent(bus)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bus.run()), group.create_task(agent.run())]
        await registered(bluez)
        async with agent.on_adapter("hci0").expecting(ADDRESS, None):
            for device in (STRANGER, OTHER_ADAPTER):
                for member, signature, rest in QUESTIONS:
                    refused = await bluez.ask_agent(member, signature, [device, *rest])
                    assert refused.error_name == REJECTED, (device, member)
            agreed = await bluez.ask_agent("RequestConfirmation", "ou", [PATH, 1])
            assert agreed.message_type is MessageType.METHOD_RETURN
            assert (await bluez.ask_agent("Cancel", "", [])).message_type is MessageType.METHOD_RETURN
        late = await bluez.ask_agent("RequestConfirmation", "ou", [PATH, 1])
        assert late.error_name == REJECTED
        for task in tasks:
            task.cancel()


async def test_only_bluez_may_ask(bluez: FakeBluez, daemon: DbusDaemon) -> None:
    """Another program on the bus does not get the passkey."""
    bus = BluezBus()
    agent = BluezAgent(bus)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bus.run()), group.create_task(agent.run())]
        await registered(bluez)
        async with agent.on_adapter("hci0").expecting(ADDRESS, 123_456):
            spy = await MessageBus(bus_address=daemon.address).connect()
            refused = await spy.call(
                Message(
                    destination=bluez.defaults[-1],
                    path=AGENT_PATH,
                    interface="org.bluez.Agent1",
                    member="RequestPasskey",
                    signature="o",
                    body=[PATH],
                )
            )
            spy.disconnect()
            await spy.wait_for_disconnect()
            assert refused is not None
            assert refused.error_name == REJECTED
            asked = await bluez.ask_agent("RequestPasskey", "o", [PATH])
            assert asked.body == [123_456]
        for task in tasks:
            task.cancel()


async def test_a_machine_without_a_message_bus_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/none")
    bus = BluezBus()
    agent = BluezAgent(bus)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bus.run()), group.create_task(agent.run())]
        async with agent.on_adapter("hci0").expecting(ADDRESS, 1):
            assert not agent.is_registered
        for task in tasks:
            task.cancel()


passkeys = st.one_of(st.none(), st.integers(0, 999_999))


@given(
    member=st.sampled_from([*(question[0] for question in QUESTIONS), "Anything"]),
    device=st.sampled_from([PATH, STRANGER, OTHER_ADAPTER, PATH + "0", ""]),
    asked=st.integers(0, 999_999),
    passkey=passkeys,
    is_pairing=st.booleans(),
)
def test_nothing_is_agreed_to_but_the_pairing_that_a_person_asked_for(
    member: str, device: str, asked: int, passkey: int | None, is_pairing: bool
) -> None:
    expected = Expected(device_path=PATH, passkey=passkey) if is_pairing else None
    found = answer(member, [device, asked], expected)
    if found is not None:
        assert is_pairing
        assert device == PATH
        assert member in {"RequestPasskey", "RequestConfirmation", "RequestAuthorization"}
        if member == "RequestConfirmation":
            assert passkey in (None, asked)
        assert found[1] == ([passkey] if member == "RequestPasskey" else [])
    assert str(passkey) not in repr(expected) or passkey is None or str(passkey) in PATH
