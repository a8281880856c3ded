"""Mowers with the Sunray firmware (Ardumower, Alfred), over the local network or over Bluetooth."""

from __future__ import annotations

from core.platform.integration import Entry, Integration, IntegrationContext


def create(context: IntegrationContext, entry: Entry) -> Integration:
    """Sets up one entry; EntryError when its settings are wrong."""
    from integrations.ardumower.integration import Ardumower

    return Ardumower(context, entry)
