"""What several links have told of one mower, as one state: the freshest word on each field, by the vendor's time.

A link's reports are full snapshots, so of each link its newest report counts (`Share`), together with which fields
it has ever filled: a field that a link never fills is none of its business and takes nothing away from the others;
an empty field of a link that does fill it at times means unknown, from then on. The order in which shares come
together does not matter, nor does it when one comes twice.

A link that is down keeps its word, for what it saw was true then. But what a machine does *now* it no longer knows:
its live fields become unknown, unless a link that is up has said the same. They never give way to an older value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

from core.domain.mower import Activity, MowerState, Signals, Totals


class Standing(StrEnum):
    """How far a link's share can be believed now."""

    UP = "up"
    DOWN = "down"
    """Lost a moment ago."""
    DOUBTED = "doubted"
    """Lost, or silent, for too long to say what the machine does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one link has told: its newest report, as seen `at` (aware UTC), the `sequence`th of the link. `told` are
    the fields that it has ever filled; those of `signals` and `totals` one by one (`totals.mowing_s`)."""

    at: datetime
    sequence: int
    state: MowerState
    told: frozenset[str]

    def join(self, other: Share) -> Share:
        """Two reports of the same link as one share."""
        newest = max(self, other, key=lambda share: (share.at, share.sequence))
        return Share(at=newest.at, sequence=newest.sequence, state=newest.state, told=self.told | other.told)


JUDGEMENT = "activity"
"""What it does and what is wrong with it are one judgement: whoever says that it mows has seen no error."""
_NESTED: dict[str, type[Signals] | type[Totals]] = {"signals": Signals, "totals": Totals}
"""Fields whose parts come from different links."""
_APART = frozenset({"observed_at", "connectivity", "error", JUDGEMENT, *_NESTED, "signals.active_link"})
"""Fields that are not simply taken from one share."""
_FLEETING = frozenset({"speed_mps", "signals.ble_dbm", "signals.wifi_dbm", "signals.mobile_dbm"})
"""True only while the link is up."""
_LIVE = frozenset({
    *(JUDGEMENT, "is_charging", "blades_on", "position", "rtk_fix", "rtk_source", "satellites"),
    *("current_area", "progress_percent", "is_raining"),
}) | _FLEETING  # fmt: skip

_Key = TypeVar("_Key", bound=Any)


@cache
def _fields() -> tuple[str, ...]:
    """Every field that is merged by itself."""
    nested = [f"{name}.{part}" for name, kind in _NESTED.items() for part in kind.__struct_fields__]
    return tuple(name for name in (*MowerState.__struct_fields__, *nested) if name not in _APART)


def told_by(state: MowerState) -> frozenset[str]:
    """The fields that a report fills."""
    told = {name for name in _fields() if _read(state, name) is not None}
    if state.activity is not Activity.UNKNOWN or state.error is not None:
        told.add(JUDGEMENT)
    return frozenset(told)


def merge(shares: Mapping[_Key, Share], standing: Mapping[_Key, Standing]) -> MowerState:
    """The one state of at least one share. Links without a `standing` are up; of two that saw the same moment one
    that is up has the word, then the one with the smaller key. `connectivity` and the active link stay unsaid: no share knows them."""
    ordered = sorted(((key, shares[key]) for key in shares), key=lambda pair: pair[0])
    places = [(share, standing.get(key, Standing.UP)) for key, share in ordered]
    found: dict[str, Any] = {name: _value(name, places) for name in _fields()}
    fields = {name: value for name, value in found.items() if "." not in name}
    for name, kind in _NESTED.items():
        parts = {part: found.get(f"{name}.{part}") for part in kind.__struct_fields__}
        fields[name] = kind(**parts) if any(value is not None for value in parts.values()) else None
    judge = _freshest(JUDGEMENT, places)
    return MowerState(
        observed_at=max(share.at for share, _ in places),
        activity=_value(JUDGEMENT, places) or Activity.UNKNOWN,
        error=None if judge is None else judge[0].state.error,
        **fields,
    )


_Place = tuple[Share, Standing]


def _freshest(name: str, places: list[_Place]) -> _Place | None:
    told = [place for place in places if name in place[0].told]
    return max(told, key=lambda place: (place[0].at, place[1] is Standing.UP), default=None)  # the first of equals


def _value(name: str, places: list[_Place]) -> Any:
    freshest = _freshest(name, places)
    if freshest is None:
        return None
    share, standing = freshest
    value = _read(share.state, name)
    if not _is_over(name, standing):
        return value
    witness = _freshest(name, [place for place in places if not _is_over(name, place[1])])
    return value if witness is not None and _read(witness[0].state, name) == value else None


def _is_over(name: str, standing: Standing) -> bool:
    """Whether a link in this standing no longer knows the field."""
    if standing is Standing.UP:
        return False
    return name in (_LIVE if standing is Standing.DOUBTED else _FLEETING)


def _read(state: MowerState, name: str) -> Any:
    outer, _, part = name.partition(".")
    value = getattr(state, outer)
    return value if value is None or not part else getattr(value, part)
