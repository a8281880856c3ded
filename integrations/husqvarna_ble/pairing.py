"""What the config flow does with a mower: pairing, and finding out who it is with the PIN that a person has typed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from core.domain.clock import Clock
from core.domain.errors import NotInPairingModeError
from core.platform.bluetooth import Advertisement, BluetoothPort
from integrations.husqvarna_ble import wire
from integrations.husqvarna_ble.advertised import COMPANY, Advertised, read_advertised
from integrations.husqvarna_ble.conversation import Conversation, RefusedError
from integrations.husqvarna_ble.wire import MalformedAnswerError, Model, Operation

T = TypeVar("T")

PAIRABLE_S = 60.0
"""How long a mower that says that it does not pair is waited for, while somebody walks to it."""
SETTLE_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a mower is; None is what it did not tell."""

    serial: str | None
    model: Model | None
    name: str | None


def advertised_of(advertisement: Advertisement | None) -> Advertised:
    """What the mower says of itself on the air; nothing when it is not heard."""
    data = advertisement.manufacturer_data.get(COMPANY, b"") if advertisement is not None else b""
    return read_advertised(bytes(data))


class Pairing:
    """The flow's hands on the radio; each call is one connection, and begins because a person asked for it."""

    def __init__(
        self,
        bluetooth: BluetoothPort,
        *,
        address: str,
        channel: int,
        clock: Clock,
        settle_s: float = SETTLE_S,
        pairable_s: float = PAIRABLE_S,
    ) -> None:
        self._bluetooth = bluetooth
        self._address = address
        self._channel = channel
        self._clock = clock
        self._settle_s = settle_s
        self._pairable_s = pairable_s

    async def pair(self) -> None:
        """Bonds, and proves the bond by opening a channel. NotInPairingModeError and the other BluetoothErrors,
        LinkLostError, LinkTimeoutError."""
        await self._wait_pairable()

        async def nothing(_: Conversation) -> None:
            """The channel is open: that was all."""

        await self._talk("pair", nothing)

    async def _wait_pairable(self) -> None:
        """Until the mower no longer says that it does not pair. One that says nothing about it is tried at once."""
        may_pair = asyncio.Event()

        def look(advertisement: Advertisement) -> None:
            if advertised_of(advertisement).is_pairable is not False:
                may_pair.set()

        if advertised_of(self._bluetooth.latest(self._address)).is_pairable is not False:
            return
        undo = self._bluetooth.listen(look, address=self._address)
        try:
            async with asyncio.timeout(self._pairable_s):
                await may_pair.wait()
        except TimeoutError as err:
            raise NotInPairingModeError("the mower says that it does not pair now") from err
        finally:
            undo()

    async def identify(self, pin: str) -> Identity:
        """Signs in once with the PIN. WrongPinError, MowerBlockedError, BondLostError, ..."""

        async def ask(talk: Conversation) -> Identity:
            await talk.sign_in(pin)
            serial = await _read(talk, Operation.GET_SERIAL_NUMBER, wire.read_u32)
            return Identity(
                serial=str(serial) if serial else None,
                model=await _read(talk, Operation.GET_MODEL, wire.read_model),
                name=await _read(talk, Operation.GET_NAME, wire.read_text),
            )

        return await self._talk("existing", ask)

    async def _talk(self, bond: Literal["pair", "existing"], ask: Callable[[Conversation], Awaitable[T]]) -> T:
        async with self._bluetooth.connect(self._address, bond=bond) as connection:
            talk = Conversation(connection, self._channel, clock=self._clock, settle_s=self._settle_s)
            await talk.open()
            return await ask(talk)


async def _read(talk: Conversation, operation: Operation, decode: Callable[[bytes], T]) -> T | None:
    try:
        return await talk.read(operation, decode)
    except (RefusedError, MalformedAnswerError):
        return None
