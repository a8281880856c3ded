"""Routes about the box's Bluetooth: adapters, who is near, and leaving mowers alone for the vendor's app."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import msgspec

from core.domain.access import Relation
from core.domain.clock import Clock
from core.domain.errors import AdapterOffError
from core.platform.bluetooth import Advertisement
from core.web.route import OnAccount, Request, Route

if TYPE_CHECKING:  # the library is loaded only where there is an adapter
    from edge_agent.bluetooth.service import BluetoothService
    from edge_agent.bluetooth.station import StationStatus

MANAGE = OnAccount(relation=Relation.CAN_MANAGE_MOWERS)
TAG = "bluetooth"


class PathView(msgspec.Struct, frozen=True, kw_only=True):
    """One adapter or proxy that hears a peer; `packets` counts the advertisements heard over it
    that had a strength."""

    source: str
    rssi_dbm: int
    packets: int
    seen_s_ago: float


class NearbyView(msgspec.Struct, frozen=True, kw_only=True):
    """A peer that is heard now. `domains` are the integrations that it may belong to."""

    address: str
    name: str | None
    rssi_dbm: int
    source: str
    is_connectable: bool
    is_pairable: bool | None
    """What it says itself of pairing now; None when it does not tell, or in words that no integration knows."""
    domains: tuple[str, ...]
    seen_s_ago: float
    is_connected: bool
    """The box holds a connection to it; many mowers do not advertise then."""
    paths: tuple[PathView, ...]


class AdapterView(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter or proxy; `reason` says why it does not scan, `advice` what disturbs its connects."""

    name: str
    is_scanning: bool
    reason: str | None
    slots: int
    slots_used: int
    advice: str | None
    title: str | None
    """What people call it; None for an adapter of the machine."""
    can_connect: bool
    """False for a proxy that only listens."""


class BluetoothView(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. Without any adapter everything is empty."""

    adapters: tuple[AdapterView, ...] = ()
    nearby: tuple[NearbyView, ...] = ()
    released_for_s: float = 0.0
    """Seconds for which the box leaves all mowers alone."""


class ReleaseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long; 0 takes them back at once."""

    minutes: Annotated[float, msgspec.Meta(ge=0, le=60)]


def bluetooth_routes(
    service: BluetoothService | None,
    domains_of: Callable[[Advertisement], tuple[str, ...]],
    says_pairable: Callable[[Advertisement], bool | None],
    clock: Clock,
) -> list[Route]:
    """The table; the same on a box without a radio, where it says so."""

    def view() -> BluetoothView:
        if service is None:
            return BluetoothView()
        now = clock.monotonic()
        return BluetoothView(
            adapters=tuple(_adapter(status) for status in service.status()),
            nearby=tuple(
                _nearby(service, near, domains_of(near), says_pairable(near), now) for near in service.nearby()
            ),
            released_for_s=service.released_for_s(),
        )

    async def show(_: Request) -> BluetoothView:
        return view()

    async def release(request: Request) -> BluetoothView:
        if service is None:
            raise AdapterOffError("this box has no Bluetooth adapter")
        if request.body.minutes > 0:
            await service.release(request.body.minutes)
        else:
            service.take_back()
        return view()

    return [
        Route(
            method="GET",
            path="/box/bluetooth",
            guard=MANAGE,
            handler=show,
            summary="Adapters, and every peer that is heard now",
            tag=TAG,
            answer=BluetoothView,
        ),
        Route(
            method="POST",
            path="/box/bluetooth/release",
            guard=MANAGE,
            handler=release,
            summary="Leave all mowers alone for some minutes, so that the vendor's app can connect",
            tag=TAG,
            body=ReleaseBody,
            answer=BluetoothView,
            errors=(AdapterOffError,),
        ),
    ]


def _adapter(status: StationStatus) -> AdapterView:
    return AdapterView(
        name=status.name,
        is_scanning=status.is_scanning,
        reason=status.reason,
        slots=status.slots,
        slots_used=status.slots_used,
        advice=status.advice,
        title=status.title,
        can_connect=status.can_connect,
    )


def _nearby(
    service: BluetoothService, near: Advertisement, domains: tuple[str, ...], is_pairable: bool | None, now: float
) -> NearbyView:
    return NearbyView(
        address=near.address,
        name=near.name,
        rssi_dbm=near.rssi_dbm,
        source=service.title_of(near.source),
        is_connectable=near.is_connectable,
        is_pairable=is_pairable,
        domains=domains,
        seen_s_ago=round(max(0.0, now - near.seen_at), 1),
        is_connected=service.is_connected(near.address),
        paths=tuple(
            PathView(
                source=path.source,
                rssi_dbm=path.rssi_dbm,
                packets=path.packets,
                seen_s_ago=round(max(0.0, now - path.seen_at), 2),
            )
            for path in service.paths(near.address)
        ),
    )
