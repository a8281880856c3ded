"""A box's line and a relay made of a real broker and a few lines, to say and hear what a test wants."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.domain.clock import SystemClock
from core.domain.commands import Command, CommandResult, IssuedBy, priority_of
from core.domain.errors import UnavailableError
from core.domain.ids import AccountId, BootId, CommandId, EdgeId, EntryId, make_id
from core.mqtt.session import MqttMessage, MqttSession, open_session
from core.storage.telemetry_store import DirectoryEntry
from core.sync import linking
from core.sync.batch import decode_batch
from core.sync.envelope import public_jwk, sign, sign_cancel, sign_drive
from core.sync.messages import (
    Ack,
    CancelEnvelope,
    CommandEnvelope,
    DriveMessage,
    Hello,
    InventoryItem,
    Registrations,
    Reply,
    ResultMessage,
    StateMessage,
    Status,
    decode,
    encode,
)
from core.sync.topics import DOWN_ACK, DOWN_CANCEL, DOWN_COMMAND, DOWN_DRIVE, parse_topic, topic
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.clock.kernel import ClockQuality
from edge_agent.runtime.drive import wait_for
from edge_agent.runtime.drive_desk import take_drive_message
from edge_agent.uplink.facts import BoxFacts
from edge_agent.uplink.uplink import Uplink
from tests.edge_agent.runtime.box import MOWER, OURS, CommandBox
from tests.edge_agent.runtime.plugin import CAPABILITIES, FakeLink, description
from tests.fakes.mosquitto import Mosquitto, anybody, running_mosquitto

EDGE = EdgeId("edge")
BOOT = BootId("boot")


class FakeRelay:
    """Hears everything, acks hellos and batches (unless told not to), and signs commands."""

    def __init__(self, broker: Mosquitto, skew_s: float = 0.0) -> None:
        self.broker = broker
        self.skew_s = skew_s
        self.key = Ed25519PrivateKey.generate()
        self.heard: list[MqttMessage] = []
        self.changed = asyncio.Event()
        self.acks = True
        self.watermark = 0
        self.rows: dict[int, Any] = {}
        self.session: MqttSession | None = None

    async def run(self) -> None:
        """Connects again after the broker's death."""
        while True:
            with suppress(UnavailableError):
                await self._listen()
            await asyncio.sleep(0.02)

    async def _listen(self) -> None:
        async with open_session(self.broker.address, anybody()) as session:
            await session.subscribe("mowdeck/v1/edges/+/up/#")
            self.session = session
            self.changed.set()
            async for message in session.messages():
                self.heard.append(message)
                await self._answer(message)
                session.ack(message)
                self.changed.set()

    async def _answer(self, message: MqttMessage) -> None:
        branch = parse_topic(message.topic).branch
        if not self.acks:
            return
        if branch == "up/hello":
            hello = decode(message.payload, Hello)
            now = SystemClock().now() + timedelta(seconds=self.skew_s)
            ack = Ack(stream_id=hello.stream_id, acked_seq=self.watermark, answers="hello", received_at=now)
            await self.say(DOWN_ACK, encode(ack))
        elif branch == "up/journal":
            batch = decode_batch(message.payload)
            self.rows.update({item.seq: item.row for item in batch.rows})
            self.watermark = max(self.watermark, batch.last_seq)
            await self.say(DOWN_ACK, encode(Ack(stream_id=batch.stream_id, acked_seq=batch.last_seq)))

    async def answer_hello(self) -> None:
        """Acks the last hello."""
        await self._answer(self.messages("up/hello")[-1])

    async def say(self, branch: str, payload: bytes, tail: str | None = None, *, retain: bool = False) -> None:
        assert self.session is not None
        await self.session.publish(topic(EDGE, branch, tail), payload, qos=1, retain=retain)

    def envelope(self, command: Command, **changes: Any) -> CommandEnvelope:
        now = SystemClock().now() + timedelta(seconds=self.skew_s)
        fields: dict[str, Any] = {
            "command_id": CommandId(make_id(now)),
            "account_id": OURS,
            "edge_id": EDGE,
            "mower_id": MOWER,
            "command": command,
            "priority": priority_of(command),
            "issued_by": IssuedBy(kind="user", subject="u"),
            "issued_at": now,
            "expires_at": now + timedelta(seconds=10),
            "correlation_id": "c",
        }
        return CommandEnvelope(**{**fields, **changes})

    async def command(self, envelope: CommandEnvelope, branch: str = DOWN_COMMAND, *, retain: bool = False) -> None:
        await self.say(branch, sign(envelope, self.key, "k"), MOWER, retain=retain)

    async def drive(self, message: DriveMessage, *, tail: str = MOWER, retain: bool = False) -> None:
        await self.say(DOWN_DRIVE, sign_drive(message, self.key, "k"), tail, retain=retain)

    async def cancel(self, envelope: CommandEnvelope, *, retain: bool = False, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "command_id": envelope.command_id,
            "account_id": envelope.account_id,
            "edge_id": EDGE,
            "mower_id": MOWER,
            "reason": "taken back",
            "issued_at": envelope.issued_at,
        }
        signed = sign_cancel(CancelEnvelope(**{**fields, **changes}), self.key, "k")
        await self.say(DOWN_CANCEL, signed, MOWER, retain=retain)

    def messages(self, branch: str) -> list[MqttMessage]:
        return [message for message in self.heard if parse_topic(message.topic).branch == branch]

    def results(self) -> list[CommandResult]:
        return [decode(message.payload, ResultMessage).result for message in self.messages("up/result")]

    def states(self) -> list[StateMessage]:
        return [decode(message.payload, StateMessage) for message in self.messages("up/state")]

    def status(self) -> Status:
        return decode(self.messages("up/status")[-1].payload, Status)

    def replies(self) -> list[Reply]:
        return [decode(message.payload, Reply) for message in self.messages("up/reply")]

    async def until(self, claim: Callable[[], bool], timeout_s: float = 8.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not claim():
                self.changed.clear()
                await self.changed.wait()


class LineWorld:
    """Broker, relay, box (commander on a real store) and its line."""

    def __init__(self, broker: Mosquitto, relay: FakeRelay, box: CommandBox) -> None:
        self.broker = broker
        self.relay = relay
        self.box = box
        self.registrations: list[Registrations] = []
        self.pauses: list[float] = []
        self.name = "Box"
        self.keeper = ClockKeeper(SystemClock(), read_quality=lambda: ClockQuality.SYNCHRONISED)
        self.uplink = self.make()

    @property
    def link(self) -> FakeLink:
        assert self.box.link is not None
        return self.box.link

    def make(self) -> Uplink:
        async def on_registrations(registrations: Registrations) -> None:
            self.registrations.append(registrations)
            self.relay.changed.set()

        async def pause(seconds: float) -> None:
            self.pauses.append(seconds)
            await asyncio.sleep(0.02)

        grant = linking.LinkGrant(
            edge_id=EDGE,
            account_id=OURS,
            broker=linking.BrokerAddress(host="127.0.0.1", port=self.broker.port, tls=False),
            credential="x",
            relay_keys=(public_jwk(self.relay.key.public_key(), "k"),),
            relay_url="http://localhost",
        )
        item = InventoryItem(
            mower_id=MOWER, description=description(), capabilities=CAPABILITIES, entry_id=EntryId("entry")
        )
        return Uplink(
            grant,
            broker=self.broker.address,
            store=self.box.store,
            clock=self.keeper,
            boot_id=BOOT,
            random=random.Random(1).random,
            facts=lambda: BoxFacts(name=self.name, version="0.1", mowers=(item,)),
            submit=lambda envelope, source: self.box.commander.submit(envelope, source=source),
            drive=lambda message: take_drive_message(self.box.commander.seats, message),
            cancel=self.box.commander.cancel,
            states=lambda: self.box.live.all(),
            account_id=lambda: OURS,
            on_registrations=on_registrations,
            diagnostics=lambda: {"fine": True},
            pause=pause,
        )


class RealTimeBox(CommandBox):
    """The relay's clock is the machine's in these tests, so the box's is as well."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.clock = SystemClock()  # type: ignore[assignment]
        self.wait = wait_for  # type: ignore[assignment]


@asynccontextmanager
async def line_world(
    path: Path, *, skew_s: float = 0.0, start: bool = True, acks: bool = True
) -> AsyncIterator[LineWorld]:
    async with running_mosquitto(path) as broker:
        box = RealTimeBox(path / "telemetry.db")
        box.link = FakeLink()
        await box.start()
        entry = DirectoryEntry(mower_id=MOWER, account_id=AccountId(OURS), edge_id=None, name="Fake")
        await box.store.put_directory([entry])
        relay = FakeRelay(broker, skew_s)
        relay.acks = acks
        world = LineWorld(broker, relay, box)
        undo = box.hear(world.uplink.put_result)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(relay.run(), name="relay")]
                await relay.until(lambda: relay.session is not None)
                if start:
                    tasks.append(group.create_task(world.uplink.run(), name="uplink"))
                    await relay.until(lambda: len(relay.messages("up/hello")) > 0)
                yield world
                for task in reversed(tasks):
                    task.cancel()
                    await asyncio.wait({task})
        finally:
            undo()
            await box.stop()
