"""What every broker of the relay must enforce, checked over real connections."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

from cloud_relay.broker.port import Broker
from core.domain.errors import UnavailableError
from core.domain.ids import EdgeId
from core.mqtt.session import Credential, MqttSession, open_session

Box = tuple[EdgeId, str]


def box(broker: Broker, edge_id: EdgeId, password: str) -> AbstractAsyncContextManager[MqttSession]:
    """A connection as the box makes it."""
    return open_session(broker.address, Credential(username=edge_id, password=password))


async def topics_until(listener: MqttSession, sender: MqttSession, last: str) -> list[str]:
    """Topics that `listener` gets before `last`, which `sender` publishes now."""
    await sender.publish(last, b"", qos=1)
    got: list[str] = []
    async with asyncio.timeout(5):
        async for message in listener.messages():
            listener.ack(message)
            if message.topic == last:
                return got
            got.append(message.topic)
    return got


async def _try_subscribe(session: MqttSession, text: str) -> None:
    try:
        await session.subscribe(text)
    except UnavailableError:
        assert session.is_connected


async def check_branches(broker: Broker, a: Box, b: Box) -> None:
    """A box writes its own up/, reads its own down/, and nothing of another's; the relay sees the true topics."""
    own, foreign = f"mowdeck/v1/edges/{a[0]}", f"mowdeck/v1/edges/{b[0]}"
    async with (
        open_session(broker.address, broker.relay_credential) as relay,
        box(broker, *a) as edge,
        box(broker, *b) as other,
    ):
        await relay.subscribe(
            "mowdeck/v1/edges/+/up/status", "mowdeck/v1/edges/+/up/hello", "mowdeck/v1/edges/+/up/journal"
        )
        await edge.publish(f"{foreign}/up/journal", b"forged", qos=1)
        await edge.publish(f"{own}/up/journal", b"", qos=1)
        assert await topics_until(relay, edge, f"{own}/up/hello") == [f"{own}/up/journal"]

        await edge.subscribe(f"{own}/down/ack", f"{own}/down/command/+")
        for text in (
            f"{foreign}/down/ack",
            f"{foreign}/#",
            "mowdeck/v1/edges/+/down/ack",
            "#",
            "$SYS/#",
            f"{own}/up/#",
        ):
            await _try_subscribe(edge, text)
        await edge.publish(f"{foreign}/down/command/m", b"forged", qos=1)
        await edge.publish(f"{own}/down/command/m", b"forged", qos=1)
        await relay.publish(f"{foreign}/down/ack", b"", qos=1)
        await other.publish(f"{foreign}/up/hello", b"", qos=1)
        await edge.publish(f"{own}/up/hello", b"", qos=1)
        assert await topics_until(edge, relay, f"{own}/down/ack") == []

        await _try_subscribe(other, f"{foreign}/down/command/+")
        await _try_subscribe(other, f"{foreign}/down/ack")
        await edge.publish(f"{foreign}/down/command/m", b"forged", qos=1)
        assert await topics_until(other, relay, f"{foreign}/down/ack") == []


async def check_retained(broker: Broker, a: Box, b: Box) -> None:
    """What is retained for a box comes to it when it connects, and to nobody else."""
    async with open_session(broker.address, broker.relay_credential) as relay:
        for edge_id, _ in (a, b):
            await relay.publish(f"mowdeck/v1/edges/{edge_id}/down/registrations", edge_id.encode(), qos=1, retain=True)
        async with box(broker, *a) as edge:
            await _try_subscribe(edge, "mowdeck/v1/edges/+/down/registrations")
            await _try_subscribe(edge, f"mowdeck/v1/edges/{b[0]}/down/registrations")
            await edge.subscribe(f"mowdeck/v1/edges/{a[0]}/down/registrations", f"mowdeck/v1/edges/{a[0]}/down/ack")
            got = await topics_until(edge, relay, f"mowdeck/v1/edges/{a[0]}/down/ack")
    assert set(got) == {f"mowdeck/v1/edges/{a[0]}/down/registrations"}
