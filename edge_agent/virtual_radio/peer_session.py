"""One central's connection as the emulated mower sees it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from bumble.att import ATT_Handle_Value_Indication, ATT_Handle_Value_Notification
from bumble.core import BaseBumbleError
from bumble.device import Connection
from bumble.gatt import Characteristic
from bumble.keys import MemoryKeyStore

from core.platform.emulation import REMOTE_USER_ENDED
from edge_agent.virtual_radio.peer_faults import PeerFaults

Spawn = Callable[[Coroutine[Any, Any, None], str], "asyncio.Task[None]"]
"""Starts a named task in the air's own group."""


class PeerSession:
    """Implements `core.platform.emulation.MowerSession`. Notifications keep their order whatever the faults do."""

    def __init__(
        self,
        connection: Connection,
        characteristics: Mapping[str, Characteristic[bytes]],
        faults: PeerFaults,
        key_store: MemoryKeyStore,
        *,
        cut: Callable[[], None],
        spawn: Spawn,
    ) -> None:
        self.connection = connection
        self.central = connection.peer_address.to_string(with_type_qualifier=False)
        self._characteristics = characteristics
        self._faults = faults
        self._key_store = key_store
        self._cut = cut
        self._spawn = spawn
        self._queue: deque[tuple[str, bytes, float]] = deque()
        self._timer: asyncio.Handle | None = None
        self._subscribed: set[str] = set()
        self._is_open = True
        self._hang_up: int | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def mtu(self) -> int:
        return int(self.connection.att_mtu)

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_encrypted(self) -> bool:
        return bool(self.connection.is_encrypted)

    @property
    def is_bonded(self) -> bool:
        return self.is_encrypted and str(self.connection.peer_address) in self._key_store.all_keys

    def notify(self, characteristic: str, data: bytes) -> None:
        uuid = characteristic.lower()
        if uuid not in self._characteristics:
            raise ValueError(f"no characteristic {uuid}")
        if len(data) > self.mtu - 3:
            raise ValueError(f"{len(data)} bytes do not fit in a notification of {self.mtu - 3}")
        if not self._is_open or uuid not in self._subscribed:
            return
        due = asyncio.get_running_loop().time() + self._faults.answer_delay_s
        self._queue.append((uuid, bytes(data), due))
        self._arm()

    def disconnect(self, reason: int = REMOTE_USER_ENDED) -> None:
        self._hang_up = reason
        self._arm()

    def set_subscribed(self, uuid: str, is_on: bool) -> None:
        """The central has written the CCCD."""
        if is_on:
            self._subscribed.add(uuid)
        else:
            self._subscribed.discard(uuid)

    def close(self) -> None:
        """The connection is over; what was queued is dropped."""
        self._is_open = False
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def wait_ended(self) -> None:
        """Waits for a disconnection of ours that is under way."""
        if self._ending is not None:
            await asyncio.gather(self._ending, return_exceptions=True)

    def _arm(self) -> None:
        if self._timer is not None or not self._is_open:
            return
        loop = asyncio.get_running_loop()
        due = self._queue[0][2] if self._queue else 0.0
        self._timer = loop.call_at(due, self._pump) if due > loop.time() else loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._queue and self._queue[0][2] <= now:
            uuid, data, _ = self._queue.popleft()
            while self._faults.is_merging and self._queue and self._queue[0][0] == uuid:
                if len(data) + len(self._queue[0][1]) > self.mtu - 3:
                    break
                data += self._queue.popleft()[1]
            if not self._send(uuid, data):
                return
        if self._queue:
            self._arm()
        elif self._hang_up is not None:
            self._end(self._hang_up)

    def _send(self, uuid: str, data: bytes) -> bool:
        """Whether the connection still stands."""
        faults = self._faults
        if faults.lose_notifications > 0:
            faults.lose_notifications -= 1
        else:
            if faults.corrupt_notifications > 0 and data:
                faults.corrupt_notifications -= 1
                data = data[:-1] + bytes((data[-1] ^ 0xFF,))
            self._put_on_air(uuid, data)
        if faults.hang_up_after is None:
            return True
        faults.hang_up_after -= 1
        if faults.hang_up_after > 0:
            return True
        faults.hang_up_after = None
        # After the packets that are already on their way, which a mower that loses power has sent too.
        asyncio.get_running_loop().call_later(0.001, self._cut)
        self.close()
        return False

    def _put_on_air(self, uuid: str, data: bytes) -> None:
        characteristic = self._characteristics[uuid]
        server = self.connection.device.gatt_server
        is_notified = bool(characteristic.properties & Characteristic.Properties.NOTIFY)
        kind = ATT_Handle_Value_Notification if is_notified else ATT_Handle_Value_Indication
        server.send_gatt_pdu(self.connection, bytes(kind(attribute_handle=characteristic.handle, attribute_value=data)))

    def _end(self, reason: int) -> None:
        async def end() -> None:
            # The central may hang up in the same moment.
            with contextlib.suppress(BaseBumbleError):
                await self.connection.drain()
                await self.connection.disconnect(reason)

        self._ending = self._spawn(end(), f"mower hangs up on {self.central}")
