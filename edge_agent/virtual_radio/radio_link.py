"""The air: who hears whom, how late, and what happens to a connection when nobody does.

bumble's `LocalLink` delivers everything at once and for ever. This one keeps a queue per direction, so that order
holds whatever the delays are, and gives connections a supervision timeout.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random

from bumble import core, hci, ll
from bumble.controller import Connection, Controller
from bumble.link import LocalLink

from edge_agent.virtual_radio.radio_controller import RadioController
from edge_agent.virtual_radio.radio_path import RadioPath

SUPERVISION_S = 2.0
ESTABLISH_S = 0.2
"""A central that hears nothing for six connection events after its CONNECT_IND gives up (0x3E)."""


class Lane:
    """One direction between two stations: first in, first out, each packet at its time or later.

    `loop.call_at` does not run equal times in order, so there is one timer per lane and never one per packet.
    """

    def __init__(self, path: RadioPath, random: Random) -> None:
        self._path = path
        self._random = random
        self._packets: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.Handle | None = None
        self._last_due = 0.0

    def send(self, deliver: Callable[[], None]) -> None:
        """Delivers after the path's latency and as many retransmissions as its loss takes."""
        loop = asyncio.get_running_loop()
        delay_s = self._path.latency_s
        while self._path.loss and self._random.random() < self._path.loss:
            delay_s += self._path.interval_s
        self._last_due = max(self._last_due, loop.time() + delay_s)
        self._packets.append((self._last_due, deliver))
        self._arm()

    def clear(self) -> None:
        """The connection is gone and what was on its way with it."""
        self._packets.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def resume(self) -> None:
        """The stations hear each other again."""
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None or not self._packets or self._path.is_out_of_range:
            return
        loop = asyncio.get_running_loop()
        due = self._packets[0][0]
        self._timer = loop.call_soon(self._pump) if due <= loop.time() else loop.call_at(due, self._pump)

    def _pump(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._packets and not self._path.is_out_of_range and self._packets[0][0] <= now:
            _, deliver = self._packets.popleft()
            deliver()
        self._arm()


class RadioLink(LocalLink):
    """All stations of one virtual radio. `seed` makes loss and jitter repeatable."""

    def __init__(self, *, seed: int = 0, supervision_s: float = SUPERVISION_S) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.supervision_s = supervision_s
        self.ordinary = RadioPath()
        """What a path is when nobody has set it yet."""
        self._random = Random(seed)
        self._paths: dict[frozenset[str], RadioPath] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._watches: dict[frozenset[str], asyncio.TimerHandle] = {}
        self._timers: set[asyncio.TimerHandle] = set()

    def path(self, first: str, second: str) -> RadioPath:
        """The air between two stations, by name."""
        return self._paths.setdefault(frozenset((first, second)), replace(self.ordinary))

    def station(self, name: str) -> RadioController | None:
        """The controller with that name."""
        return next((c for c in self.controllers if c.name == name and isinstance(c, RadioController)), None)

    def add_controller(self, controller: Controller) -> None:
        super().add_controller(controller)
        if isinstance(controller, RadioController):
            controller.link_dbm = lambda peer: self._dbm(controller, self.find_le_controller(peer))

    def remove_controller(self, controller: Controller) -> None:
        """Its peers notice by their supervision timeout. Stock: they never do."""
        self.controllers.discard(controller)
        if isinstance(controller, RadioController):
            controller.silence()
        for connection in list(controller.le_connections.values()):
            peer = self.find_le_controller(connection.peer_address)
            if peer is not None:
                self._lane(controller.name, peer.name).clear()
                self._lane(peer.name, controller.name).clear()
                self._later(
                    self.supervision_s, self._end, peer, connection.self_address, hci.HCI_CONNECTION_TIMEOUT_ERROR
                )
        controller.le_connections.clear()

    def close(self) -> None:
        """Ends all timers; stations are taken down by their owners before."""
        for timer in (*self._timers, *self._watches.values()):
            timer.cancel()
        for lane in self._lanes.values():
            lane.clear()
        self._timers.clear()
        self._watches.clear()

    def set_out_of_range(self, first: str, second: str, is_out: bool) -> None:
        """Between two stations nothing is heard any more; their connection lives until the supervision timeout."""
        path = self.path(first, second)
        if path.is_out_of_range == is_out:
            return
        path.is_out_of_range = is_out
        pair = frozenset((first, second))
        if is_out:
            loop = asyncio.get_running_loop()
            self._watches[pair] = loop.call_later(self.supervision_s, self._lose, first, second)
            return
        watch = self._watches.pop(pair, None)
        if watch is not None:
            watch.cancel()
        for lane in (self._lane(first, second), self._lane(second, first)):
            lane.resume()

    def cut(self, first: str, second: str, reason: int = hci.HCI_CONNECTION_TIMEOUT_ERROR) -> bool:
        """Ends the connection between two stations now, at both ends. Whether there was one."""
        ends = [(a, b) for a, b in ((first, second), (second, first)) if self.station(a) is not None]
        has_ended = False
        for near, far in ends:
            self._lane(near, far).clear()
            station = self.station(near)
            other = self.station(far)
            if station is None or other is None:
                continue
            for connection in list(station.le_connections.values()):
                if connection.peer_address in _addresses(other):
                    station.on_le_disconnected(connection, reason)
                    has_ended = True
        return has_ended

    def send_advertising_pdu(self, sender_controller: Controller, packet: ll.AdvertisingPdu) -> None:
        """Stock: everybody hears everything; a CONNECT_IND that nobody takes leaves a half-open link."""
        loop = asyncio.get_running_loop()
        if isinstance(packet, ll.ConnectInd):
            loop.call_soon(self._establish, sender_controller, packet)
            return
        for station in self.controllers:
            if station is sender_controller or not isinstance(station, RadioController):
                continue
            if not (station.le_scan_enable or station.pending_le_connection):
                continue
            path = self.path(sender_controller.name, station.name)
            if path.is_out_of_range or (path.advertisement_loss and self._random.random() < path.advertisement_loss):
                continue
            loop.call_soon(self._hear, station, sender_controller, packet)

    def send_acl_data(
        self,
        sender_controller: Controller,
        destination_address: hci.Address,
        transport: core.PhysicalTransport,
        data: bytes,
    ) -> None:
        """Stock: sent from the random address always, so a mower with a public one never hears an answer."""
        connection = sender_controller.le_connections.get(destination_address)
        receiver = self.find_le_controller(destination_address)
        if connection is None or receiver is None:
            return
        source = connection.self_address
        lane = self._lane(sender_controller.name, receiver.name)
        lane.send(lambda: receiver.on_link_acl_data(source, transport, data))

    def send_ll_control_pdu(
        self, sender_address: hci.Address, receiver_address: hci.Address, packet: ll.ControlPdu
    ) -> None:
        """Stock: raises when the receiver is gone, in the middle of a host's command."""
        sender = self.find_le_controller(sender_address)
        receiver = self.find_le_controller(receiver_address)
        if sender is None or receiver is None:
            return

        def deliver() -> None:
            if sender_address in receiver.le_connections:
                receiver.on_ll_control_pdu(sender_address, packet)

        self._lane(sender.name, receiver.name).send(deliver)

    def _lane(self, sender: str, receiver: str) -> Lane:
        lane = self._lanes.get((sender, receiver))
        if lane is None:
            lane = self._lanes[(sender, receiver)] = Lane(self.path(sender, receiver), self._random)
        return lane

    def _hear(self, station: RadioController, sender: Controller, packet: ll.AdvertisingPdu) -> None:
        station.heard_dbm = self._dbm(station, sender)
        station.on_ll_advertising_pdu(packet)

    def _dbm(self, station: Controller, sender: Controller | None) -> int:
        if sender is None:
            return -127
        path = self.path(station.name, sender.name)
        jitter = self._random.randint(-path.jitter_db, path.jitter_db) if path.jitter_db else 0
        return path.rssi_dbm + jitter

    def _establish(self, central: Controller, packet: ll.ConnectInd) -> None:
        for station in self.controllers:
            if station is not central and packet.advertiser_address in _addresses(station):
                if not self.path(central.name, station.name).is_out_of_range:
                    station.on_ll_advertising_pdu(packet)
                if packet.initiator_address in station.le_connections:
                    return
        reason = hci.HCI_CONNECTION_FAILED_TO_BE_ESTABLISHED_ERROR
        self._later(ESTABLISH_S, self._end, central, packet.advertiser_address, reason)

    def _lose(self, first: str, second: str) -> None:
        self._watches.pop(frozenset((first, second)), None)
        self.cut(first, second)

    def _end(self, station: Controller, peer: hci.Address, reason: int) -> None:
        connection: Connection | None = station.le_connections.get(peer)
        if connection is not None:
            station.on_le_disconnected(connection, reason)

    def _later(self, delay_s: float, action: Callable[..., None], *args: object) -> None:
        loop = asyncio.get_running_loop()

        def run() -> None:
            self._timers.discard(timer)
            action(*args)

        timer = loop.call_later(delay_s, run)
        self._timers.add(timer)


def _addresses(station: Controller) -> tuple[hci.Address, hci.Address]:
    return (station.random_address, station.public_address)
