"""What the kernel says of its own clock, read-only, and which boot this is."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from core.domain.ids import BootId, is_safe_id

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STA_UNSYNC = 0x40
"""`STA_UNSYNC` of `linux/timex.h`: set at boot, cleared by the time daemon once it holds the clock."""
_TIME_ERROR = 5
"""`TIME_ERROR`: what adjtimex returns while the clock is not synchronised."""


class ClockQuality(StrEnum):
    """Whether the machine's wall clock can be believed."""

    SYNCHRONISED = "synchronised"
    UNSYNCHRONISED = "unsynchronised"
    UNKNOWN = "unknown"
    """This machine cannot be asked."""


ReadQuality = Callable[[], ClockQuality]


class _Timex(ctypes.Structure):
    """`struct timex` up to `status`, and room for the rest of it on every architecture."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def read_kernel_quality() -> ClockQuality:
    """Asks `adjtimex` with `modes` 0, which changes nothing and needs no rights."""
    if not sys.platform.startswith("linux"):
        return ClockQuality.UNKNOWN
    try:
        call = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return ClockQuality.UNKNOWN
    call.argtypes = [ctypes.POINTER(_Timex)]
    call.restype = ctypes.c_int
    answer = _Timex()
    answer.modes = 0
    result = call(ctypes.byref(answer))
    if result < 0:
        return ClockQuality.UNKNOWN
    if result == _TIME_ERROR or answer.status & _STA_UNSYNC:
        return ClockQuality.UNSYNCHRONISED
    return ClockQuality.SYNCHRONISED


def read_boot_id(path: Path = _BOOT_ID, *, otherwise: Callable[[], str]) -> BootId:
    """This boot's id; where the kernel gives none, `otherwise()` (then one process is one boot)."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    return BootId(text if is_safe_id(text) else otherwise())
