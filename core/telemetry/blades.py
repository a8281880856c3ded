"""Changes of a mower's blades, as people enter them."""

from __future__ import annotations

import msgspec

from core.telemetry.records import RecordKind


class BladeChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New blades were put on; the record's `at` says when. `by` is the name of who said so."""

    by: str
    note: str = ""


BLADE_CHANGE = RecordKind(name="blade_change", body=BladeChange, keep=None)
