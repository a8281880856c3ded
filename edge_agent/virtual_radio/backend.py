"""An adapter with the two classes that bleak takes as `backend=`."""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent.virtual_radio.adapter import VirtualAdapter
from edge_agent.virtual_radio.client import VirtualClient
from edge_agent.virtual_radio.scanner import VirtualScanner


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualBackend:
    """bleak wants classes, so each adapter gets its own."""

    adapter: VirtualAdapter
    client: type[VirtualClient]
    scanner: type[VirtualScanner]


def bind(adapter: VirtualAdapter) -> VirtualBackend:
    """bleak's client and scanner over this adapter."""
    return VirtualBackend(
        adapter=adapter,
        client=type("VirtualClient", (VirtualClient,), {"adapter": adapter}),
        scanner=type("VirtualScanner", (VirtualScanner,), {"adapter": adapter}),
    )
