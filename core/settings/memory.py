"""Keeps a long-lived process small: what was freed goes back to the system instead of staying in the allocator.

glibc raises its own thresholds after the first large block is freed (a password hash takes 19 MiB) and opens an arena
per thread; measured on a box with five mowers that is 20 MiB of 124. Fixed thresholds and two arenas give it back.
"""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
THRESHOLD_BYTES = 128 * 1024
"""glibc's own starting value; setting it stops it from growing."""


def return_freed_memory() -> bool:
    """Sets the thresholds of this process; False where the allocator has none (musl, macOS), which is no harm. An
    operator's own MALLOC_* variables would say the same thing; they are overruled."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_ARENA_MAX, 2), (_M_MMAP_THRESHOLD, THRESHOLD_BYTES), (_M_TRIM_THRESHOLD, THRESHOLD_BYTES))
    return [mallopt(name, value) for name, value in settings] == [1, 1, 1]
