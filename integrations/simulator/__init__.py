"""A simulated mower on a real lawn, and the integration to copy when writing another one."""

from __future__ import annotations

from core.platform.integration import Entry, Integration, IntegrationContext


def create(context: IntegrationContext, entry: Entry) -> Integration:
    """Sets up one entry; EntryError when its settings are wrong."""
    from integrations.simulator.integration import Simulator

    return Simulator(context, entry)
