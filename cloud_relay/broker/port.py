"""What the relay needs from its broker, whether it is its own child or somebody else's server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from core.domain.ids import EdgeId
from core.mqtt import session as mqtt
from core.sync import linking


class Broker(Protocol):
    """One credential per box, each with its own branch and nothing else, and one for the relay."""

    @property
    def address(self) -> mqtt.BrokerAddress:
        """Where the relay itself connects."""
        ...

    @property
    def advertised(self) -> linking.BrokerAddress:
        """What boxes are told when they are linked."""
        ...

    @property
    def relay_credential(self) -> mqtt.Credential: ...

    async def run(self) -> None:
        """Keeps the broker going until cancelled. SettingsError when it can never run as it is set up."""
        ...

    async def wait_ready(self) -> None:
        """Returns once the broker takes connections (again)."""
        ...

    async def put_edge(self, edge_id: EdgeId, password: str) -> None:
        """From now on the box connects with `password` and no other; when this returns, it can. UnavailableError
        when the broker cannot be told."""
        ...

    async def remove_edge(self, edge_id: EdgeId) -> None:
        """The box is refused from now on and its sessions end at once. UnavailableError as above."""
        ...

    async def sync_edges(self, edges: Mapping[EdgeId, str | None]) -> frozenset[EdgeId]:
        """Makes the broker's boxes those of `edges` (at the relay's start): others are removed. A value is the
        box's `$7$` password hash if the caller keeps it, for a broker that has lost its own and can take hashes.
        Returns the boxes that cannot connect because the broker has no password for them."""
        ...
