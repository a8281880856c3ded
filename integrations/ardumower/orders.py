"""Commands in the mower's words: each is one request, whose answer is the bare letter `C` (drive requests: `M`).

`AT+C,mow,op,speed,fix timeout,finish and restart,mow point percent,skip,sonar`: -1 leaves a value as it is. The first
value stays -1 always: 0 would switch the blade motor off until somebody switches it on by hand, and the next job
would be driven without cutting; 1 would start the blade where the mower stands. Leaving an operation stops the blade.
"""

from __future__ import annotations

from core.domain.commands import (
    Command,
    ConfirmError,
    EmergencyStop,
    ManualDrive,
    PauseMow,
    ResumeMow,
    ReturnToDock,
    SetSpeed,
    StartMow,
    kind_of,
    starts_motion,
)
from integrations.ardumower.mapping import is_confirmable
from integrations.ardumower.models import MAX_SPEED_MPS, MAX_TURN_RADPS
from integrations.ardumower.wire import Op, Status

STATUS = "AT+S"
STATISTICS = "AT+T"
OBSTACLES = "AT+S2"
STAND_STILL = "AT+M,0.00,0.00"


def switch(op: Op) -> str:
    """The request to change what the mower does, and nothing else."""
    return f"AT+C,-1,{op.value},-1,-1,-1,-1,-1,-1"


def body_of(command: Command) -> str | None:
    """The request of a command; None when this mower has none for it."""
    match command:
        case StartMow() | ResumeMow():
            return switch(Op.MOW)  # it goes on at the waypoint where it stopped
        case ReturnToDock():
            return switch(Op.DOCK)
        case PauseMow() | EmergencyStop() | ConfirmError() | ManualDrive():
            return switch(Op.IDLE)
        case SetSpeed(speed_mps=speed_mps):
            return f"AT+C,-1,-1,{speed_mps:.2f},-1,-1,-1,-1,-1"
        case _:
            return None


def drive_body(linear: float, angular: float) -> str:
    """A drive request for a joystick from -1 to 1; what is no number stands still. A positive angle turns left."""
    return f"AT+M,{_within_one(linear) * MAX_SPEED_MPS:.2f},{_within_one(angular) * MAX_TURN_RADPS:.2f}"


def _within_one(value: float) -> float:
    return min(max(value, -1.0), 1.0) + 0.0 if abs(value) < float("inf") else 0.0


def find_objection(command: Command, status: Status | None) -> str | None:
    """Why the link does not even send it, whatever was checked before."""
    if isinstance(command, EmergencyStop):
        return None
    if status is None or status.op is Op.UNKNOWN:
        return "what the mower does is not known" if starts_motion(command) else None
    if status.op is Op.ERROR and starts_motion(command):
        return "the mower reports an error"
    if isinstance(command, ConfirmError):
        if status.op is not Op.ERROR:
            return "there is no error to confirm"
        return None if is_confirmable(status.sensor) else "somebody has to look at the mower"
    if isinstance(command, ManualDrive) and status.op in (Op.MOW, Op.DOCK):
        return f"the mower has to stand before it can {kind_of(command).replace('_', ' ')}"
    return None
