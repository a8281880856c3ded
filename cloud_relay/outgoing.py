"""What the relay says to boxes: each message on its topic."""

from __future__ import annotations

from collections.abc import Callable

from cloud_relay.driving import QoS
from cloud_relay.gateway import Gateway
from core.domain.ids import EdgeId, MowerId
from core.sync import topics
from core.sync.messages import Ack, Registrations, encode


class Outgoing:
    """Every method raises NotPublishedError when the broker did not take the message in time."""

    def __init__(self, gateway: Callable[[], Gateway]) -> None:
        """`gateway` is asked at each message: it is made after those who speak."""
        self._gateway = gateway

    async def registrations(self, edge_id: EdgeId, message: Registrations) -> None:
        await self._gateway().publish(edge_id, topics.DOWN_REGISTRATIONS, None, encode(message), retain=True)

    async def command(self, edge_id: EdgeId, mower_id: MowerId, signed: bytes) -> None:
        await self._gateway().publish(edge_id, topics.DOWN_COMMAND, mower_id, signed)

    async def stop(self, edge_id: EdgeId, mower_id: MowerId, signed: bytes) -> None:
        await self._gateway().publish_stop(edge_id, mower_id, signed)

    async def cancel(self, edge_id: EdgeId, mower_id: MowerId, signed: bytes) -> None:
        await self._gateway().publish(edge_id, topics.DOWN_CANCEL, mower_id, signed)

    async def drive(self, edge_id: EdgeId, mower_id: MowerId, signed: bytes, qos: QoS) -> None:
        await self._gateway().publish(edge_id, topics.DOWN_DRIVE, mower_id, signed, qos=qos)

    async def ack(self, edge_id: EdgeId, ack: Ack) -> None:
        await self._gateway().publish(edge_id, topics.DOWN_ACK, None, encode(ack))

    async def clear_retained(self, edge_id: EdgeId) -> None:
        await self._gateway().clear_retained(edge_id)
