"""Which adapter connects: the strongest with a free slot, and no hopping between two that are alike. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from edge_agent.bluetooth.sightings import Path

HYSTERESIS_DB = 6
"""How much stronger another adapter must be to take over from the one that was used last."""


def choose_path(
    paths: Sequence[Path],
    *,
    last_source: str | None,
    free: Collection[str],
    failed: Collection[str] = (),
) -> Path | None:
    """The path to take, or None when no source has a slot free. Sources that have just failed come last."""
    usable = [path for path in paths if path.source in free and path.is_near]
    if not usable:
        return None
    fresh = [path for path in usable if path.source not in failed] or usable
    best = max(fresh, key=lambda path: path.rssi_dbm)
    for path in fresh:
        if path.source == last_source and best.rssi_dbm - path.rssi_dbm < HYSTERESIS_DB:
            return path
    return best


def is_in_reach(paths: Sequence[Path]) -> bool:
    """Whether any source hears the peer well enough."""
    return any(path.is_near for path in paths)
