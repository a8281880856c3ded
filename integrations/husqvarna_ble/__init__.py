"""Husqvarna, Gardena, Flymo and McCulloch mowers over Bluetooth, with a protocol stack and an emulator of our own."""

from __future__ import annotations

from core.platform.integration import Entry, Integration, IntegrationContext


def create(context: IntegrationContext, entry: Entry) -> Integration:
    """Sets up one entry; EntryError when its settings are wrong."""
    from integrations.husqvarna_ble.integration import HusqvarnaBle

    return HusqvarnaBle(context, entry)
