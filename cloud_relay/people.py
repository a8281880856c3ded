"""Who may use the relay: the shared parts on its database, which also holds fleet, boxes and commands."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from cloud_relay.commands import tables as command_tables
from cloud_relay.edges import tables as edge_tables
from cloud_relay.fleet import tables as fleet_tables
from cloud_relay.settings import RelaySettings
from core.access import people
from core.access.people import People
from core.domain.clock import Clock
from core.identity.accounts import RegisterMode

TABLES = (fleet_tables, edge_tables, command_tables)
"""The relay's own, named so that they are imported before the database is opened."""
ISSUER = "mowdeck-relay"


def open_people(settings: RelaySettings, clock: Clock) -> AbstractAsyncContextManager[People]:
    """Opens the database and reads the keys of access tokens. StorageError says what is wrong with them."""
    return people.open_people(
        settings.relational_url,
        keys_folder=settings.data_dir / "keys",
        issuer=ISSUER,
        register_mode=RegisterMode(settings.register),
        clock=clock,
    )
