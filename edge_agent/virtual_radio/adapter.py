"""One virtual Bluetooth adapter: what bleak's backends stand on, over a bumble host. Bonds are the adapter's."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from bleak.exc import BleakBluetoothNotAvailableError, BleakBluetoothNotAvailableReason
from bumble.device import Advertisement, Connection, Device
from bumble.hci import (
    HCI_CONNECTION_TIMEOUT_ERROR,
    Address,
    HCI_LE_Create_Connection_Cancel_Command,
)
from bumble.keys import MemoryKeyStore
from bumble.pairing import PairingConfig, PairingDelegate

from edge_agent.virtual_radio.uncut import held, is_being_cancelled, run_uncut

AskPasskey = Callable[[str], Awaitable[int | None]]
"""The passkey that a person reads off the peer with this address; None: nobody knows it."""

CLOSE_DEADLINE_S = 5.0
Listener = Callable[[Advertisement], None]
ENCRYPTION_ONLY = PairingDelegate.KeyDistribution.DISTRIBUTE_ENCRYPTION_KEY
"""No identity keys: nobody here has a private address, and with one bumble scans before each connect."""


class BoxAgent(PairingDelegate):
    """What the box can do while pairing: nothing, or enter a passkey that somebody gave it."""

    def __init__(self, peer: str, ask: AskPasskey | None) -> None:
        super().__init__(
            PairingDelegate.IoCapability.NO_OUTPUT_NO_INPUT
            if ask is None
            else PairingDelegate.IoCapability.KEYBOARD_INPUT_ONLY,
            local_initiator_key_distribution=ENCRYPTION_ONLY,
            local_responder_key_distribution=ENCRYPTION_ONLY,
        )
        self._peer = peer
        self._ask = ask

    async def get_number(self) -> int | None:
        return None if self._ask is None else await self._ask(self._peer)


class VirtualAdapter:
    """A powered adapter named `name`. `close` takes it off the air; its clients see their connections end."""

    def __init__(self, name: str, device: Device, *, key_store: MemoryKeyStore | None = None) -> None:
        self.name = name
        self.device = device
        self.address = device.random_address.to_string(with_type_qualifier=False)
        self.connecting = asyncio.Lock()
        """bumble's `connect_le` takes any connection event for its own, so one at a time."""
        self.ask_passkey: AskPasskey | None = None
        self.is_powered = False
        self.lost: asyncio.Future[None] | None = None
        """Done when the controller is in another process and that is gone."""
        self.key_store = key_store or MemoryKeyStore()
        self.connections: dict[str, Connection] = {}
        self._listeners: list[Listener] = []
        device.keystore = self.key_store
        device.pairing_config_factory = self._pairing
        device.on(Device.EVENT_ADVERTISEMENT, self._heard)

    async def open(self) -> None:
        """Powers the adapter on."""
        await self.device.power_on()
        self.is_powered = True

    async def close(self) -> None:
        """Powers it off. Idempotent."""
        if not self.is_powered:
            return
        self.lose()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await self.device.power_off()

    def lose(self) -> None:
        """The controller is gone: every connection ends now, and nothing is sent to it any more."""
        self.is_powered = False
        self._listeners.clear()
        for handle in list(self.device.connections):
            self.device.on_disconnection(handle, HCI_CONNECTION_TIMEOUT_ERROR)
        self.connections.clear()

    def check_power(self) -> None:
        """Raises what BlueZ does when the adapter is off or gone."""
        if not self.is_powered or (self.lost is not None and self.lost.done()):
            raise self._not_available()

    def _not_available(self) -> BleakBluetoothNotAvailableError:
        reason = BleakBluetoothNotAvailableReason.POWERED_OFF
        return BleakBluetoothNotAvailableError(f"{self.name} is off", reason)

    async def start_scan(self, listener: Listener) -> None:
        """Any number of listeners share one scan; active, so that scan responses are heard too."""
        self.check_power()
        self._listeners.append(listener)
        if len(self._listeners) == 1:
            await run_uncut(self.device.start_scanning(legacy=True, active=True))

    async def stop_scan(self, listener: Listener) -> None:
        """The last one to stop ends the scan. Idempotent."""
        if listener not in self._listeners:
            return
        self._listeners.remove(listener)
        if not self._listeners and self.is_powered:
            await run_uncut(self.device.stop_scanning(legacy=True))

    async def connect(self, address: str, timeout_s: float) -> Connection:
        """A connection; TimeoutError when the peer does not answer. Cancelling leaves the controller idle."""
        self.check_power()
        async with self.connecting, held(self.device.connect_le(Address(address), timeout=None), "connect") as attempt:
            try:
                async with asyncio.timeout(timeout_s):
                    connection = await asyncio.shield(attempt)
            except asyncio.CancelledError as err:
                await self._abandon(attempt)
                if is_being_cancelled():
                    raise
                raise self._not_available() from err  # bumble cancels what waits when the controller is lost
            except BaseException:
                await self._abandon(attempt)
                raise
        self.connections[address] = connection
        connection.on(Connection.EVENT_DISCONNECTION, lambda _reason: self._gone(address, connection))
        return connection

    async def forget(self, address: str) -> None:
        """Drops the bond with a peer, if there is one, and the connection to it."""
        connection = self.connections.get(address)
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.disconnect()
        await self.key_store.delete(address)

    async def _abandon(self, attempt: asyncio.Task[Connection]) -> None:
        """Stock: a cancelled attempt leaves the controller connecting, and the next one fails."""
        if not attempt.done() and self.is_powered:
            with contextlib.suppress(Exception):
                await run_uncut(self.device.send_sync_command(HCI_LE_Create_Connection_Cancel_Command()))
        # Now it fails, or it had come up in the same moment.
        await asyncio.wait({attempt}, timeout=1.0)
        if attempt.done() and not attempt.cancelled() and attempt.exception() is None:
            with contextlib.suppress(Exception):
                await run_uncut(attempt.result().disconnect())

    def _gone(self, address: str, connection: Connection) -> None:
        if self.connections.get(address) is connection:
            del self.connections[address]

    def _pairing(self, connection: Connection) -> PairingConfig:
        peer = connection.peer_address.to_string(with_type_qualifier=False)
        return PairingConfig(
            sc=True,
            mitm=self.ask_passkey is not None,
            bonding=True,
            delegate=BoxAgent(peer, self.ask_passkey),
            identity_address_type=PairingConfig.AddressType.RANDOM,
        )

    def _heard(self, advertisement: Advertisement) -> None:
        for listener in list(self._listeners):
            listener(advertisement)
