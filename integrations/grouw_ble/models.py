"""What these mowers can do over Bluetooth: the same for all of them, for they do not tell their model."""

from __future__ import annotations

from core.domain.capabilities import Capabilities, Simple, Start

VENDOR = "grouw"
MODEL = "Daye DYM"

CAPABILITIES = Capabilities(
    start_mow=Start(confirm_timeout_s=60.0),
    pause_mow=Simple(confirm_timeout_s=20.0),
    resume_mow=Simple(confirm_timeout_s=30.0),
    return_to_dock=Simple(confirm_timeout_s=30.0),
    emergency_stop=Simple(confirm_timeout_s=20.0),
)
"""A start takes longest: the mower beeps its warning, and counts as in its station until it has left it."""
