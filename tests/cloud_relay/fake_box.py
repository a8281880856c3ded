"""A box that speaks MQTT with the real broker: what it was told is kept, what it says is up to the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.domain.commands import CommandResult, CommandStatus
from core.domain.errors import UnavailableError
from core.domain.ids import BootId, MowerId, StreamId
from core.domain.mower import MowerState
from core.mqtt.session import BrokerAddress, Credential, MqttMessage, MqttSession, Will, open_session
from core.sync.envelope import import_public_key, verify, verify_cancel, verify_drive
from core.sync.linking import LinkGrant
from core.sync.messages import (
    CancelEnvelope,
    CommandEnvelope,
    DriveMessage,
    Hello,
    InventoryItem,
    Registrations,
    ResultMessage,
    StateMessage,
    Status,
    decode,
    encode,
)
from core.sync.topics import (
    DOWN_CANCEL,
    DOWN_COMMAND,
    DOWN_DRIVE,
    DOWN_REGISTRATIONS,
    DOWN_STOP,
    UP_HELLO,
    UP_RESULT,
    UP_STATE,
    UP_STATUS,
    parse_topic,
    topic,
    topic_filter,
)

WAIT_S = 15.0


class FakeBox:
    """One connected session of a linked box."""

    def __init__(self, session: MqttSession, grant: LinkGrant) -> None:
        self._session = session
        self._grant = grant
        self._changed = asyncio.Condition()
        self.messages: list[MqttMessage] = []

    @property
    def keys(self) -> dict[str, Ed25519PublicKey]:
        return {key["kid"]: import_public_key(key["x"]) for key in self._grant.relay_keys}

    async def listen(self) -> None:
        try:
            async for message in self._session.messages():
                self._session.ack(message)
                async with self._changed:
                    self.messages.append(message)
                    self._changed.notify_all()
        except UnavailableError:  # thrown out, or the test is over
            async with self._changed:
                self._changed.notify_all()

    def cut(self) -> None:
        """The line breaks without a goodbye, as when the power goes."""
        self._session._sock.shutdown(socket.SHUT_RDWR)

    async def wait_closed(self) -> None:
        """Returns when the broker has ended the session."""
        async with asyncio.timeout(WAIT_S):
            await self._session.wait_closed()

    async def heard(self, is_it: Callable[[MqttMessage], bool]) -> MqttMessage:
        """The first message that is it, now or later."""
        async with asyncio.timeout(WAIT_S), self._changed:
            while True:
                found = next((m for m in self.messages if is_it(m)), None)
                if found is not None:
                    return found
                await self._changed.wait()

    async def registrations(self, is_it: Callable[[Registrations], bool]) -> Registrations:
        def check(message: MqttMessage) -> bool:
            is_list = parse_topic(message.topic).branch == DOWN_REGISTRATIONS and message.payload
            return bool(is_list) and is_it(decode(message.payload, Registrations))

        return decode((await self.heard(check)).payload, Registrations)

    async def command(self, command_id: str, branch: str = DOWN_COMMAND) -> CommandEnvelope:
        """The verified envelope of a command."""

        def check(message: MqttMessage) -> bool:
            is_there = parse_topic(message.topic).branch == branch
            return is_there and verify(message.payload, self.keys).command_id == command_id

        return verify((await self.heard(check)).payload, self.keys)

    def drives(self) -> list[DriveMessage]:
        """What the relay signed for drive sessions, in order."""
        found = [m for m in self.messages if parse_topic(m.topic).branch == DOWN_DRIVE]
        assert not any(message.retained for message in found)
        messages = [verify_drive(message.payload, self.keys) for message in found]
        assert [message.qos for message in found] == [0 if m.frame is not None else 1 for m in messages]
        return messages

    async def until_drives(self, is_so: Callable[[list[DriveMessage]], bool]) -> list[DriveMessage]:
        async with asyncio.timeout(WAIT_S), self._changed:
            await self._changed.wait_for(lambda: is_so(self.drives()))
        return self.drives()

    async def cancel(self, command_id: str) -> CancelEnvelope:
        """The verified cancel of a command."""

        def check(message: MqttMessage) -> bool:
            is_there = parse_topic(message.topic).branch == DOWN_CANCEL
            return is_there and verify_cancel(message.payload, self.keys).command_id == command_id

        return verify_cancel((await self.heard(check)).payload, self.keys)

    async def say_online(self) -> None:
        status = Status(online=True, boot_id=BootId("boot"), at=datetime.now(UTC))
        await self._publish(UP_STATUS, encode(status), retain=True)

    async def say_hello(self, *items: InventoryItem) -> None:
        hello = Hello(
            wire_version=1,
            mowdeck_version="0.1.0",
            boot_id=BootId("boot"),
            sent_at=datetime.now(UTC),
            is_clock_synchronised=True,
            stream_id=StreamId("stream"),
            first_seq=1,
            last_seq=0,
            acked_seq=0,
            mowers=items,
        )
        await self._publish(UP_HELLO, encode(hello))

    async def say_state(self, mower_id: MowerId, state: MowerState) -> None:
        await self._publish(UP_STATE, encode(StateMessage(mower_id=mower_id, state=state)), tail=mower_id)

    async def say_result(self, envelope: CommandEnvelope, status: CommandStatus) -> None:
        result = CommandResult(
            command_id=envelope.command_id, mower_id=envelope.mower_id, status=status, at=datetime.now(UTC)
        )
        await self._publish(UP_RESULT, encode(ResultMessage(result=result)), tail=envelope.mower_id)

    async def _publish(self, branch: str, payload: bytes, *, tail: str | None = None, retain: bool = False) -> None:
        where = topic(self._grant.edge_id, branch, tail)
        await self._session.publish(where, payload, qos=0 if branch == UP_STATE else 1, retain=retain)


@asynccontextmanager
async def connected_box(grant: LinkGrant) -> AsyncIterator[FakeBox]:
    """The box of a link, connected and listening to its whole branch."""
    broker = grant.broker
    offline = Status(online=False, boot_id=BootId("boot"), at=datetime.now(UTC))
    will = Will(topic=topic(grant.edge_id, UP_STATUS), payload=encode(offline))
    address = BrokerAddress(host=broker.host, port=broker.port, tls=broker.tls)
    credential = Credential(username=grant.edge_id, password=grant.credential)
    async with open_session(address, credential, will=will) as session, asyncio.TaskGroup() as group:
        box = FakeBox(session, grant)
        listener = group.create_task(box.listen(), name="fake-box")
        await session.subscribe(
            *(
                topic_filter(b, grant.edge_id)
                for b in (DOWN_COMMAND, DOWN_CANCEL, DOWN_STOP, DOWN_DRIVE, DOWN_REGISTRATIONS)
            )
        )
        await box.say_online()
        yield box
        listener.cancel()
