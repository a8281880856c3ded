"""What is different about adding one of these mowers; the steps themselves are those of all Bluetooth mowers."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, ClassVar

import voluptuous as vol

from core.domain.errors import NotInPairingModeError
from core.platform.bluetooth import Advertisement, GattConnection
from core.platform.bluetooth_mower_flow import BluetoothMowerFlow, Identity
from core.platform.flow import AbortFlowError, FlowContext
from core.platform.pairing_words import Failures
from integrations.husqvarna_ble.advertised import advertised_of
from integrations.husqvarna_ble.conversation import ANSWER_S, Conversation, MowerBlockedError
from integrations.husqvarna_ble.introduction import SETTLE_S, introduce
from integrations.husqvarna_ble.settings import REFUSED_PIN

OPTIONS_SCHEMA = vol.Schema(
    {
        vol.Required("releases", default=True): bool,
        vol.Required("poll_moving_s", default=30.0): vol.All(vol.Coerce(float), vol.Range(min=10, max=300)),
        vol.Required("poll_standing_s", default=300.0): vol.All(vol.Coerce(float), vol.Range(min=30, max=3600)),
        vol.Required("poll_fault_s", default=1200.0): vol.All(vol.Coerce(float), vol.Range(min=60, max=3600)),
    }
)
PAIRABLE_S = 60.0
"""How long a mower that says that it does not pair is waited for, while somebody walks to it."""


class HusqvarnaFlow(BluetoothMowerFlow):
    """user | discovery -> pair -> pin; reauth -> pin or pair; reconfigure."""

    settle_s: ClassVar[float] = SETTLE_S
    pairable_s: ClassVar[float] = PAIRABLE_S
    answer_s: ClassVar[float] = ANSWER_S
    failures: ClassVar[Failures] = ((MowerBlockedError, "blocked"),)
    options_schema: ClassVar[vol.Schema] = OPTIONS_SCHEMA

    def __init__(self, context: FlowContext) -> None:
        super().__init__(context)
        entry = context.entry
        self._channel = _channel_of(context.flow_id) if entry is None else int(str(entry.data.get("channel", 1)))

    def may_be_mower(self, heard: Advertisement | None) -> bool:
        return advertised_of(heard).may_be_mower

    @classmethod
    def says_pairable(cls, heard: Advertisement) -> bool | None:
        return advertised_of(heard).is_pairable

    def name_of(self, heard: Advertisement | None) -> str | None:
        return advertised_of(heard).name or super().name_of(heard)

    async def wait_pairable(self) -> None:
        """Until the mower no longer says that it does not pair. One that says nothing about it is tried at once."""
        may_pair = asyncio.Event()

        def look(heard: Advertisement) -> None:
            if self.says_pairable(heard) is not False:
                may_pair.set()

        heard = self.bluetooth.latest(self.address)
        if heard is None or self.says_pairable(heard) is not False:
            return
        undo = self.bluetooth.listen(look, address=self.address)
        try:
            async with asyncio.timeout(self.pairable_s):
                await may_pair.wait()
        except TimeoutError as err:
            raise NotInPairingModeError("the mower says that it does not pair now") from err
        finally:
            undo()

    def _conversation(self, connection: GattConnection) -> Conversation:
        clock = self.context.clock
        return Conversation(connection, self._channel, clock=clock, settle_s=self.settle_s, answer_s=self.answer_s)

    async def prove(self, connection: GattConnection) -> None:
        """A channel opens on a bonded connection only."""
        await self._conversation(connection).open()

    async def identify(self, connection: GattConnection) -> Identity:
        talk = self._conversation(connection)
        await talk.open()
        heard = self.bluetooth.latest(self.address)
        return await introduce(talk, self.pin or "", advertised_of(heard))

    def data(self, identity: Identity) -> dict[str, Any]:
        if identity.serial is None:
            raise AbortFlowError("no_serial")
        return {**super().data(identity), "channel": self._channel}

    def secrets(self) -> dict[str, str]:
        return super().secrets() | {REFUSED_PIN: ""}


def _channel_of(flow_id: str) -> int:
    """A number from 1 to 2^32 - 1 that is this box's with this mower: any will do, and it stays."""
    return int.from_bytes(hashlib.sha256(flow_id.encode()).digest()[:4], "little") or 1
