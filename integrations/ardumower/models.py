"""What a Sunray mower can do. The firmware is one; boards and drivers differ only below the protocol."""

from __future__ import annotations

from core.domain.capabilities import Capabilities, Drive, Range, Simple, Start

VENDOR = "ardumower"
MOTOR_TIMEOUT_S = 1.0
"""The firmware itself stops the motors when no drive request came for this long."""
MAX_SPEED_MPS = 0.3
"""Driving by hand: full tilt of the joystick."""
MAX_TURN_RADPS = 0.6
_CONFIRM = Simple(confirm_timeout_s=20.0)

CAPABILITIES = Capabilities(
    start_mow=Start(confirm_timeout_s=20.0),
    pause_mow=_CONFIRM,
    resume_mow=_CONFIRM,
    return_to_dock=_CONFIRM,
    emergency_stop=Simple(confirm_timeout_s=10.0),
    set_speed=Range(minimum=0.05, maximum=0.6),
    confirm_error=_CONFIRM,
    manual_drive=Drive(max_speed_mps=MAX_SPEED_MPS, motor_timeout_s=MOTOR_TIMEOUT_S, confirm_timeout_s=5.0),
)
"""Left out on purpose: blade height (it can be set but never be read back, so nothing would confirm it) and the weekly
plan (its request changed its shape between versions of the firmware without telling which one is understood)."""
