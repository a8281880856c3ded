"""Models and what they can do. Confirm timeouts are real seconds: two reports of the slowest link and some air."""

from __future__ import annotations

import msgspec

from core.domain.capabilities import Capabilities, Drive, Range, Schedule, Simple, Spot, Start

VENDOR = "simulator"
DEFAULT_MODEL = "Meadow 800"
FIRMWARE = "1.0.0"
MOTOR_TIMEOUT_S = 1.0

_FULL = Capabilities(
    start_mow=Start(takes_areas=True, max_duration_s=12 * 3_600),
    pause_mow=Simple(),
    resume_mow=Simple(),
    return_to_dock=Simple(),
    emergency_stop=Simple(confirm_timeout_s=10.0),
    set_blade_height=Range(minimum=20, maximum=80, step=5),
    set_speed=Range(minimum=0.2, maximum=0.6, step=0.05),
    mow_spot=Spot(max_radius_m=5.0),
    set_schedule=Schedule(max_windows=28),
    skip_next=Simple(),
    confirm_error=Simple(),
    reset_blade_usage=Simple(),
    find_mower=Simple(),
    manual_drive=Drive(max_speed_mps=0.5, motor_timeout_s=MOTOR_TIMEOUT_S),
)

CAPABILITIES: dict[str, Capabilities] = {
    DEFAULT_MODEL: _FULL,
    "Meadow 300": msgspec.structs.replace(
        _FULL, set_speed=None, mow_spot=None, skip_next=None, find_mower=None, manual_drive=None
    ),
}
"""Model -> capabilities. The small model exists so that interfaces show what a mower cannot do."""
