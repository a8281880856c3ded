"""The only bridge between the mower's words (`wire.py`) and the domain. Pure.

Being in the station counts more than the mode: real mowers say "mowing" in there. A number that we do not know becomes
`unknown` and stays in `raw`.
"""

from __future__ import annotations

from datetime import datetime

from core.domain import commands, events
from core.domain.commands import Command
from core.domain.events import MowerEvent
from core.domain.mower import AT_DOCK, MOVING, Activity, Connectivity, LinkKind, MowerState, Signals
from integrations.grouw_ble.wire import Mode, Order, Status

UNPROTECTED = "the protocol does not authenticate: anybody in Bluetooth range can start this mower and read its PIN"
"""Stands in the state's `raw` as `warning`, and with it in the entry's diagnostics."""

_OUTSIDE: dict[int, Activity] = {
    Mode.MOWING: Activity.MOWING,
    Mode.MOWING_ALTERNATE: Activity.MOWING,
    Mode.RETURNING: Activity.RETURNING,
    Mode.STOPPED: Activity.PAUSED,
}


def activity_of(status: Status) -> Activity:
    """What the mower does. One that stands, and says not where, may be anywhere: unknown."""
    if status.is_in_station:
        return Activity.DOCKED
    if status.is_in_station is None and status.mode == Mode.STOPPED:
        return Activity.UNKNOWN
    return _OUTSIDE.get(status.mode, Activity.UNKNOWN)


def state_of(status: Status, *, observed_at: datetime, ble_dbm: int | None = None) -> MowerState:
    """A status as a state. Charging, faults and blades are not said, so they are None."""
    return MowerState(
        observed_at=observed_at,
        activity=activity_of(status),
        connectivity=Connectivity.ONLINE,
        battery_percent=status.battery if status.battery <= 100 else None,
        signals=Signals(ble_dbm=ble_dbm, active_link=LinkKind.BLE),
        raw={
            "mode": f"{status.mode:02x}",
            "station": f"{status.station:02x}",
            "status": status.data.hex(),
            "warning": UNPROTECTED,
        },
    )


def unknown_words(status: Status) -> tuple[str, ...]:
    """The numbers that we have no name for, as `field=number`; to be logged once."""
    found = []
    if status.mode not in {mode.value for mode in Mode}:
        found.append(f"mode={status.mode:02x}")
    if status.is_in_station is None:
        found.append(f"station={status.station:02x}")
    if status.battery > 100:
        found.append(f"battery={status.battery}")
    return tuple(found)


def events_between(before: MowerState | None, after: MowerState) -> tuple[MowerEvent, ...]:
    """What has happened from one state to the next; nothing before the first, or out of the unknown."""
    if before is None or Activity.UNKNOWN in (before.activity, after.activity):
        return ()
    at = after.observed_at
    found: list[MowerEvent] = []
    if after.activity is Activity.MOWING and before.activity in AT_DOCK:
        found.append(events.MowingStarted(at=at))
    elif before.activity is Activity.MOWING and after.activity in AT_DOCK | {Activity.RETURNING}:
        found.append(events.MowingFinished(at=at, reason="returned"))
    if after.activity in AT_DOCK and (before.activity in MOVING or before.activity is Activity.PAUSED):
        found.append(events.Docked(at=at))
    return tuple(found)


def needs_status(command: Command) -> bool:
    """Whether the order depends on where the mower is: a status has to be asked for after the command came."""
    return isinstance(command, commands.StartMow | commands.ResumeMow)


def order_of(command: Command, status: Status | None) -> Order | str:
    """What the mower is told, or why nothing is (for a person). `status` is the newest; it must be fresh where the
    command `needs_status`."""
    match command:
        case commands.PauseMow() | commands.EmergencyStop():
            return Order.PAUSE
        case commands.ReturnToDock():
            return Order.DOCK
        case commands.StartMow() | commands.ResumeMow():
            return _start_of(command, status)
        case _:
            return "this mower cannot do that"


def _start_of(command: commands.StartMow | commands.ResumeMow, status: Status | None) -> Order | str:
    """Out of the station and on the lawn it is started by different orders; the wrong one does nothing."""
    if status is None or status.is_in_station is None:
        return "the mower does not say whether it is in its station"
    if status.is_in_station:
        is_start = isinstance(command, commands.StartMow)
        return Order.START if is_start else "the mower is in its station: start it instead"
    match activity_of(status):
        case Activity.MOWING:
            return "the mower is mowing already"
        case Activity.UNKNOWN:
            return "the mower's state is unknown"
        case _:
            return Order.RESUME
