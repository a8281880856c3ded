"""How many more connections a proxy carries, from what it says of itself and what this box has under way. Pure."""

from __future__ import annotations

from collections.abc import Collection


def slots_left(*, limit: int, free: int, allocated: Collection[str], ours: Collection[str]) -> int:
    """`limit`, `free` and `allocated` (addresses) as the proxy has told them last; `ours`: addresses that this box
    holds or is about to connect, whether the proxy knows of them yet or not. Never below 0.

    Older firmware tells no addresses: then an own connection cannot be told from another's, and the larger of the
    two counts is taken.
    """
    used = limit - free
    if len(allocated) != used:
        return max(0, limit - max(used, len(ours)))
    return max(0, limit - len({*allocated, *ours}))
