"""Who is near: the newest of each peer, merged over its packets and over the adapters that hear it.

Pure: the caller brings the time (monotonic seconds).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bleak.backends.device import BLEDevice
from bleak.backends.scanner import AdvertisementData

from core.platform.bluetooth import Advertisement
from edge_agent.bluetooth.reach import is_near

PEERS_MAX = 2_048
"""Peers that are remembered; the one that was silent longest makes room."""
MISSED = 5
GONE_MIN_S = 30.0
GONE_MAX_S = 300.0
NO_RSSI = -127
"""What bleak says when BlueZ has told no strength: not a weak signal, but no news of it."""
FRESH_S = 20.0
"""A source that was silent longer than this while another one hears the peer no longer counts as the best."""


@dataclass(slots=True, kw_only=True)
class Path:
    """One adapter that hears a peer."""

    source: str
    device: BLEDevice
    rssi_dbm: int
    seen_at: float
    is_connectable: bool = True
    is_near: bool = True
    """Whether it is heard well enough to connect, see `reach`."""
    packets: int = 1
    """Advertisements heard over it so far that had a strength."""


@dataclass(slots=True, kw_only=True)
class Peer:
    """All that is known of one peer."""

    address: str
    name: str | None = None
    service_uuids: tuple[str, ...] = ()
    manufacturer_data: Mapping[int, bytes] = field(default_factory=dict)
    service_data: Mapping[str, bytes] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    seen_at: float = 0.0
    interval_s: float = 1.0
    """How long it is silent at most in normal life; learnt, so that slow advertisers are not called gone."""

    def fresh(self) -> list[Path]:
        """The sources that hear it now."""
        return [path for path in self.paths.values() if path.seen_at >= self.seen_at - FRESH_S]

    def best(self) -> Path:
        """The strongest of the fresh sources; those that could connect come first, for nothing is gained by a
        listener that only hears."""
        return max(self.fresh(), key=lambda path: (path.is_connectable, path.rssi_dbm))

    def gone_after_s(self) -> float:
        """Silence after which it is gone."""
        return min(max(MISSED * self.interval_s, GONE_MIN_S), GONE_MAX_S)

    def advertisement(self) -> Advertisement:
        """The peer as an integration sees it."""
        best = self.best()
        return Advertisement(
            address=self.address,
            name=self.name,
            rssi_dbm=best.rssi_dbm,
            service_uuids=self.service_uuids,
            manufacturer_data=self.manufacturer_data,
            service_data=self.service_data,
            is_connectable=best.is_connectable,
            source=best.source,
            seen_at=self.seen_at,
        )


class Sightings:
    """By address. Bounded."""

    def __init__(self) -> None:
        self._peers: dict[str, Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def hear(self, source: str, device: BLEDevice, data: AdvertisementData, now: float) -> Advertisement:
        """Takes one advertisement in."""
        address = device.address.upper()
        peer = self._peers.pop(address, None) or Peer(address=address, seen_at=now)
        self._peers[address] = peer  # last in the order: the first is the one that was silent longest
        if len(self._peers) > PEERS_MAX:
            del self._peers[next(iter(self._peers))]
        gap_s = now - peer.seen_at
        # Grows at once, shrinks slowly: one quick burst does not make a slow advertiser look dead.
        peer.interval_s = gap_s if gap_s > peer.interval_s else 0.95 * peer.interval_s + 0.05 * gap_s
        peer.name = data.local_name or peer.name
        peer.service_uuids = tuple(dict.fromkeys((*peer.service_uuids, *map(str.lower, data.service_uuids))))
        peer.manufacturer_data = {**peer.manufacturer_data, **data.manufacturer_data}
        peer.service_data = {**peer.service_data, **data.service_data}
        peer.seen_at = now
        before = peer.paths.get(source)
        rssi_dbm = before.rssi_dbm if data.rssi == NO_RSSI and before is not None else data.rssi
        peer.paths[source] = Path(
            source=source,
            device=device,
            rssi_dbm=rssi_dbm,
            seen_at=now,
            is_connectable=_is_connectable(data),
            is_near=is_near(rssi_dbm, None if before is None else before.is_near),
            packets=(0 if before is None else before.packets) + (data.rssi != NO_RSSI),
        )
        return peer.advertisement()

    def latest(self, address: str, now: float) -> Advertisement | None:
        """The peer, or None when it is gone."""
        peer = self._peers.get(address.upper())
        return None if peer is None or self._is_gone(peer, now) else peer.advertisement()

    def near(self, now: float) -> list[Advertisement]:
        """All peers that are not gone."""
        return [peer.advertisement() for peer in self._peers.values() if not self._is_gone(peer, now)]

    def paths(self, address: str, now: float) -> list[Path]:
        """The sources that hear it, strongest first; empty when it is gone."""
        peer = self._peers.get(address.upper())
        if peer is None or self._is_gone(peer, now):
            return []
        return sorted(peer.fresh(), key=lambda path: -path.rssi_dbm)

    def keep(self, address: str, now: float) -> None:
        """It is connected, so it is here although it does not advertise."""
        peer = self._peers.get(address.upper())
        if peer is not None:
            for path in peer.paths.values():
                if path.seen_at == peer.seen_at:
                    path.seen_at = now
            peer.seen_at = now

    def drop_source(self, source: str) -> None:
        """An adapter is gone, and its handles with it: a device object never outlives it."""
        for peer in list(self._peers.values()):
            peer.paths.pop(source, None)
            if not peer.paths:
                del self._peers[peer.address]
            else:  # what is left may be older than the one that went
                peer.seen_at = max(path.seen_at for path in peer.paths.values())

    def drop_path(self, address: str, source: str) -> None:
        """An adapter has forgotten the peer: it has to be heard there anew."""
        peer = self._peers.get(address.upper())
        if peer is not None:
            peer.paths.pop(source, None)
            if not peer.paths:
                del self._peers[peer.address]

    def expire(self, now: float) -> list[str]:
        """Forgets who is gone; their addresses."""
        gone = [peer.address for peer in self._peers.values() if self._is_gone(peer, now)]
        for address in gone:
            del self._peers[address]
        return gone

    def _is_gone(self, peer: Peer, now: float) -> bool:
        return now - peer.seen_at > peer.gone_after_s()


def _is_connectable(data: AdvertisementData) -> bool:
    """BlueZ does not say; backends that know put it in their platform data."""
    for part in data.platform_data:
        if isinstance(part, dict) and isinstance(part.get("connectable"), bool):
            return bool(part["connectable"])
    return True
