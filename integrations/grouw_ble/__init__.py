"""Grouw and other Daye mowers of the "DYM" generation over Bluetooth."""

from __future__ import annotations

from core.platform.integration import Entry, Integration, IntegrationContext


def create(context: IntegrationContext, entry: Entry) -> Integration:
    """Sets up one entry; EntryError when its settings are wrong."""
    from integrations.grouw_ble.integration import GrouwBle

    return GrouwBle(context, entry)
