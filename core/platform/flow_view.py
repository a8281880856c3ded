"""A config flow as the API shows it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from core.domain.ids import EntryId, FlowId
from core.platform.flow import FlowResult, FlowSource


class FlowView(msgspec.Struct, frozen=True, kw_only=True):
    """Where a flow stands. After `create_entry` or `abort` it is gone."""

    flow_id: FlowId
    domain: str
    source: FlowSource
    entry_id: EntryId | None
    """The entry that a reauth or reconfigure is about."""
    result: FlowResult
    expires_at: datetime
