"""Puts an emulated mower on the air: GATT server, advertising, pairing, and faults on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from bumble.device import AdvertisingType, Connection, Device
from bumble.hci import HCI_CONNECTION_TIMEOUT_ERROR, HCI_REMOTE_USER_TERMINATED_CONNECTION_ERROR
from bumble.keys import MemoryKeyStore, PairingKeys
from bumble.pairing import PairingConfig, PairingDelegate

from core.platform.emulation import EmulatedPairing, EmulatedPeer, Undo
from edge_agent.virtual_radio.adapter import ENCRYPTION_ONLY
from edge_agent.virtual_radio.advertising_data import advertising_packets
from edge_agent.virtual_radio.gatt_table import GattTable
from edge_agent.virtual_radio.key_file import FileKeyStore
from edge_agent.virtual_radio.peer_faults import PeerFaults
from edge_agent.virtual_radio.peer_session import PeerSession, Spawn
from edge_agent.virtual_radio.radio_controller import RadioController
from edge_agent.virtual_radio.radio_link import RadioLink

log = structlog.get_logger(__name__)


class MowerAgent(PairingDelegate):
    """The mower's side of pairing: open or closed, with a passkey on its display or without one."""

    def __init__(self, policy: EmulatedPairing) -> None:
        io = PairingDelegate.IoCapability
        super().__init__(
            io.NO_OUTPUT_NO_INPUT if policy.passkey is None else io.DISPLAY_OUTPUT_ONLY,
            local_initiator_key_distribution=ENCRYPTION_ONLY,
            local_responder_key_distribution=ENCRYPTION_ONLY,
        )
        self._policy = policy

    async def accept(self) -> bool:
        return self._policy.is_open

    async def generate_passkey(self) -> int:
        return self._policy.passkey or 0


class HostedPeer:
    """A mower on the air; implements `core.platform.emulation.MowerHost`. Made by `VirtualAir.add_peer`."""

    def __init__(
        self,
        peer: EmulatedPeer,
        device: Device,
        link: RadioLink,
        controller: RadioController,
        spawn: Spawn,
        *,
        key_store: MemoryKeyStore | None = None,
    ) -> None:
        self.peer = peer
        self.name = peer.address
        """Its name as a station: the address."""
        self.faults = PeerFaults()
        self.key_store = key_store or MemoryKeyStore()
        self.sessions: dict[int, PeerSession] = {}
        """By connection handle."""
        self._device = device
        self._link = link
        self._controller = controller
        self._spawn = spawn
        self._is_up = False
        self._is_leaving = False
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._table = GattTable(peer, device, self._session_of, self.faults)

    async def open(self) -> None:
        """On the air; returns when it advertises."""
        device = self._device
        device.keystore = self.key_store
        await device.power_on()
        device.gatt_server.max_mtu = self.peer.mtu
        device.pairing_config_factory = lambda _connection: self._pairing()
        device.host.long_term_key_provider = self._long_term_key
        device.on(Device.EVENT_CONNECTION, self._opened)
        if isinstance(self.key_store, FileKeyStore):
            self.key_store.on_update = self._keys_made
        self.peer.host = self
        self._is_up = True
        self._changed.set()
        self._task = self._spawn(self._advertise(), f"advertise {self.name}")
        await self._idle.wait()

    async def close(self) -> None:
        """Off the air, as if its battery had been taken out. Idempotent."""
        if self._task is None:
            return
        task, self._task = self._task, None
        self._is_up = False
        self._is_leaving = True
        self._drop_all()
        self._changed.set()
        await task
        self._cancel_timers()
        self._link.remove_controller(self._controller)
        await self._device.power_off()
        self.peer.host = None

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def later(self, delay_s: float, action: Callable[[], None]) -> Undo:
        loop = asyncio.get_running_loop()

        def run() -> None:
            self._timers.discard(timer)
            action()

        timer = loop.call_later(delay_s, run)
        self._timers.add(timer)

        def undo() -> None:
            self._timers.discard(timer)
            timer.cancel()

        return undo

    def refresh(self) -> None:
        self._idle.clear()
        self._changed.set()

    async def settled(self) -> None:
        """Returns when the last `refresh` is on the air."""
        await self._idle.wait()

    async def kick(self, reason: int = HCI_REMOTE_USER_TERMINATED_CONNECTION_ERROR) -> None:
        """The mower ends every connection."""
        for session in list(self.sessions.values()):
            session.disconnect(reason)
            await asyncio.sleep(0)
            await session.wait_ended()

    async def reboot(self, off_s: float = 1.0) -> None:
        """Power off for `off_s`, then on: centrals notice by their supervision timeout; bonds stay."""
        self._is_up = False
        self._drop_all()
        self._cancel_timers()
        self._link.remove_controller(self._controller)
        await asyncio.sleep(off_s)
        self._link.add_controller(self._controller)
        self._is_up = True
        self.peer.rebooted()
        self.refresh()
        await self.settled()

    async def forget_bonds(self) -> None:
        """The mower has been reset: it knows nobody."""
        await self.key_store.delete_all()

    def _drop_all(self) -> None:
        for handle in list(self._device.connections):
            self._device.on_disconnection(handle, HCI_CONNECTION_TIMEOUT_ERROR)

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    async def _advertise(self) -> None:
        """Keeps what is on the air what the mower says; HCI commands are slow, so changes are taken in turn.
        Never cancelled: bumble swallows a cancellation that comes in the middle of a command."""
        while not self._is_leaving:
            await self._changed.wait()
            self._changed.clear()
            faults = self.faults
            is_free = len(self.sessions) < self.peer.max_connections and not faults.is_occupied
            is_heard = is_free or (faults.is_occupied and faults.is_heard_while_occupied)
            if self._is_up and is_heard:
                await self._start_advertising(is_connectable=is_free)
            else:
                await self._device.stop_advertising()
            if not self._changed.is_set():
                self._idle.set()

    async def _start_advertising(self, *, is_connectable: bool) -> None:
        described = self.peer.advertising()
        data, scan_response = advertising_packets(described)
        kind = AdvertisingType.UNDIRECTED_CONNECTABLE_SCANNABLE if is_connectable else AdvertisingType.UNDIRECTED
        await self._device.start_advertising(
            advertising_type=kind,
            advertising_data=data,
            scan_response_data=scan_response,
            advertising_interval_min=described.interval_ms,
            advertising_interval_max=described.interval_ms,
        )

    def _opened(self, connection: Connection) -> None:
        session = PeerSession(
            connection,
            self._table.characteristics,
            self.faults,
            self.key_store,
            cut=lambda: self._cut(connection),
            spawn=self._spawn,
        )
        self.sessions[connection.handle] = session
        connection.on(Connection.EVENT_DISCONNECTION, lambda _reason: self._closed(session))
        connection.on(Connection.EVENT_PAIRING, lambda keys: self._paired(connection, keys))
        connection.on(Connection.EVENT_PAIRING_FAILURE, lambda _reason: self._pairing_failed(connection.handle))
        connection.on(Connection.EVENT_CONNECTION_ENCRYPTION_CHANGE, lambda: self._encrypted(connection))
        self.peer.opened(session)
        self.refresh()

    def _closed(self, session: PeerSession) -> None:
        if self.sessions.pop(session.connection.handle, None) is None:
            return
        session.close()
        self.peer.closed(session)
        self.refresh()

    def _session_of(self, connection: Connection) -> PeerSession | None:
        return self.sessions.get(connection.handle)

    def _cut(self, connection: Connection) -> None:
        central = self._link.find_le_controller(connection.peer_address)
        if central is not None:
            self._link.cut(self.name, central.name, HCI_CONNECTION_TIMEOUT_ERROR)

    def _pairing(self) -> PairingConfig:
        policy = self.peer.pairing()
        if self.faults.is_pairing_closed:
            policy = EmulatedPairing(is_open=False)
        return PairingConfig(
            sc=policy.is_secure_connections,
            mitm=policy.passkey is not None,
            bonding=True,
            delegate=MowerAgent(policy),
            identity_address_type=PairingConfig.AddressType.RANDOM,
        )

    def _pairing_failed(self, handle: int) -> None:
        """Stock: the session stays until the disconnect, and another attempt on the link hangs."""
        self._device.smp_manager.sessions.pop(handle, None)

    def _paired(self, connection: Connection, keys: PairingKeys) -> None:
        connection.authenticated = _is_authenticated(keys)

    def _keys_made(self, central: str, keys: PairingKeys) -> None:
        for session in self.sessions.values():
            if str(session.connection.peer_address) == central:
                self._paired(session.connection, keys)

    def _encrypted(self, connection: Connection) -> None:
        """Stock: every encrypted link counts as authenticated, so Just Works opens everything."""
        keys = self.key_store.all_keys.get(str(connection.peer_address))
        connection.authenticated = keys is not None and _is_authenticated(keys)

    async def _long_term_key(self, handle: int, rand: bytes, ediv: int) -> bytes | None:
        """Stock: answers with the wrong one of a legacy bond's two keys, and the link dies of a MIC failure."""
        connection = self._device.lookup_connection(handle)
        if connection is None:
            return None
        key = self._device.smp_manager.get_long_term_key(connection, rand, ediv)
        if key is not None:
            return bytes(key)
        keys = self.key_store.all_keys.get(str(connection.peer_address))
        if keys is None:
            return None
        stored = keys.ltk or keys.ltk_central
        return stored.value if stored is not None else None


def _is_authenticated(keys: PairingKeys) -> bool:
    key = keys.ltk or keys.ltk_central
    return key is not None and key.authenticated
