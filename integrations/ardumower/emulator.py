"""The emulated mower as others meet it: on the virtual radio, and on the bench of the contract over both its links."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from core.domain.clock import SystemClock
from core.domain.errors import InvalidInputError
from core.domain.ids import EntryId
from core.platform.contract.fault import NETWORK_FAULTS, Bench, Fault
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.integration import Entry, Integration, IntegrationContext
from integrations.ardumower.emulated_bridge import BridgeFaults, SunrayPeer
from integrations.ardumower.emulated_http import HttpMower, serve
from integrations.ardumower.exchange import Patience
from integrations.ardumower.integration import Ardumower
from integrations.ardumower.link import Rhythm
from integrations.ardumower.responder import DEFAULT_PASSWORD, Faults, SunrayBrain
from integrations.ardumower.wire import Sensor, Solution

__all__ = ["BridgeFaults", "SunrayPeer", "contract_fault", "contract_world", "make_emulated_peer"]

PASSWORD_MIN = 1
"""0 would leave the firmware looking for a challenge for ever."""


def make_emulated_peer(address: str, options: Mapping[str, str]) -> SunrayPeer:
    """For `mowdeck emulate ardumower`. Options: `name`, `password` (a number, or empty for none), `time_scale`,
    `robot_id`, `passkey` (six digits). InvalidInputError names the one that is wrong."""
    unknown = set(options) - {"name", "password", "time_scale", "robot_id", "passkey"}
    if unknown:
        raise InvalidInputError.of(min(unknown), "is no option of this emulator")
    password: int | None = DEFAULT_PASSWORD
    time_scale = 1.0
    try:
        if "password" in options:
            password = int(options["password"]) if options["password"] else None
    except ValueError as err:
        raise InvalidInputError.of("password", "must be a number, or empty") from err
    try:
        time_scale = float(options.get("time_scale", 1.0))
    except ValueError as err:
        raise InvalidInputError.of("time_scale", "must be a number") from err
    if not 0.1 <= time_scale <= 1000:
        raise InvalidInputError.of("time_scale", "must be between 0.1 and 1000")
    if password is not None and not PASSWORD_MIN <= password < 2**31:
        raise InvalidInputError.of("password", f"must be between {PASSWORD_MIN} and {2**31 - 1}")
    passkey = options.get("passkey")
    if passkey is not None and not (len(passkey) == 6 and passkey.isascii() and passkey.isdigit()):
        raise InvalidInputError.of("passkey", "must be six digits")
    brain = SunrayBrain(password=password, time_scale=time_scale, robot_id=options.get("robot_id", address))
    name = options.get("name", "Ardumower")
    return SunrayPeer(address, brain, name, passkey=None if passkey is None else int(passkey))


# The contract

_CONTRACT_PASSWORD = 271828
_ROBOT_ID = "0a1b2c3d4e5f"
_GARDEN = {
    "datum": {"lat": 52.5, "lon": 13.4},
    "rotation_deg": 12.0,
    "areas": "Front: 0 -1, 10 -1, 10 3, 0 3; Back: 0 3, 10 3, 10 7, 0 7",
}
_QUICK_RHYTHM = Rhythm(
    moving_s=0.1, standing_s=0.1, docked_s=0.1, after_order_s=0.05, after_silence_s=0.05, obstacles_s=0.3
)
_QUICK_PATIENCE = Patience(greeting_s=0.3, question_s=0.3, order_s=0.4, drive_s=0.3)
_PASSKEY = 161803
NO_SUCH_FAULT: Mapping[Fault, str] = {
    Fault.LOGGED_OUT: "nobody signs in: each request is shifted by the password",
}


def lan_entry(url: str, **options: object) -> Entry:
    """An entry as the config flow makes it, over the network."""
    data = {"link": "lan", "url": url, "name": "Rob", "model": "Ardumower Sunray", "robot_id": _ROBOT_ID}
    return Entry(
        entry_id=EntryId("emulated"),
        domain="ardumower",
        unique_id=_ROBOT_ID,
        title="Ardumower",
        data=data,
        options=options,
    )


def ble_entry(address: str, **options: object) -> Entry:
    """An entry as the config flow makes it, over Bluetooth."""
    data = {"link": "ble", "address": address, "name": "Rob", "robot_id": _ROBOT_ID}
    return Entry(
        entry_id=EntryId("emulated"),
        domain="ardumower",
        unique_id=f"ble-{address.replace(':', '').lower()}",
        title="Ardumower",
        data=data,
        options=options,
    )


@asynccontextmanager
async def contract_world(context: IntegrationContext) -> AsyncIterator[Integration]:
    """A fresh emulated mower on the network, and the integration set up on it."""
    async with _on_the_network(context) as (_, integration):
        yield integration


@asynccontextmanager
async def contract_world_ble(context: IntegrationContext) -> AsyncIterator[Integration]:
    """The same over Bluetooth."""
    async with on_the_air(context) as (_, _, integration):
        yield integration


_OF_BOND = frozenset({Fault.NOT_PAIRABLE, Fault.BOND_LOST})
OTHER_WORLDS = {"ble": contract_world_ble}


@asynccontextmanager
async def contract_fault(context: IntegrationContext, fault: Fault) -> AsyncIterator[Bench]:
    """The same, and one fault of it: over the network what belongs there, over Bluetooth everything else."""
    over = fault_over_lan if fault in NETWORK_FAULTS else fault_over_ble
    async with over(context, fault) as bench:
        yield bench


def _make_brain() -> SunrayBrain:
    return SunrayBrain(password=_CONTRACT_PASSWORD, time_scale=8.0)


def _make_integration(context: IntegrationContext, entry: Entry) -> Integration:
    context.secrets.put("password", str(_CONTRACT_PASSWORD))
    return Ardumower(context, entry, rhythm=_QUICK_RHYTHM, patience=_QUICK_PATIENCE)


@asynccontextmanager
async def _on_the_network(context: IntegrationContext) -> AsyncIterator[tuple[HttpMower, Integration]]:
    async with serve(_make_brain()) as mower:
        yield mower, _make_integration(context, lan_entry(mower.url, **_GARDEN))


@asynccontextmanager
async def on_the_air(
    context: IntegrationContext, *, is_bonded: bool = False
) -> AsyncIterator[tuple[SunrayPeer, MemoryRadio, Integration]]:
    """The emulated mower, the radio that joins it to the box, and the integration."""
    peer = SunrayPeer("C0:11:22:33:44:55", _make_brain(), passkey=_PASSKEY if is_bonded else None)
    radio = MemoryRadio(peer)
    try:
        entry = ble_entry(peer.address, is_bonded=is_bonded, **_GARDEN)
        yield peer, radio, _make_integration(replace(context, bluetooth=radio), entry)
    finally:
        radio.close()


@asynccontextmanager
async def fault_over_ble(context: IntegrationContext, fault: Fault) -> AsyncIterator[Bench]:
    """One fault, over Bluetooth; where it is one of the bond, of a mower that demands its passkey."""
    async with on_the_air(context, is_bonded=fault in _OF_BOND) as (peer, radio, integration):

        def begin() -> None:
            if radio.spoil(fault) or _spoil(peer.brain, fault):
                return
            _begin_on_bridge(peer.faults, fault)

        def end() -> None:
            radio.heal()
            peer.faults = BridgeFaults()
            _heal(peer.brain)

        def drop() -> None:
            peer.faults.drop_on_request = "AT+C"

        at_order = drop if fault is Fault.DROP_ON_WRITE else _at_order(peer.brain, fault)
        bench = _make_bench(integration, peer.brain, fault, begin, end, radio.now)
        yield replace(bench, begin_at_order=at_order)


@asynccontextmanager
async def fault_over_lan(context: IntegrationContext, fault: Fault) -> AsyncIterator[Bench]:
    """One fault, over the network."""
    async with _on_the_network(context) as (mower, integration):

        def begin() -> None:
            if not _spoil(mower.brain, fault):
                _begin_on_network(mower, fault)

        def end() -> None:
            mower.status, mower.body, mower.resets_answers, mower.is_gone = 200, None, 0, False
            mower.drop_on = None
            mower.release()
            _heal(mower.brain)

        def drop() -> None:
            mower.drop_on = "AT+C"

        at_order = drop if fault is Fault.RESET_MID_ANSWER else _at_order(mower.brain, fault)
        bench = _make_bench(integration, mower.brain, fault, begin, end, SystemClock().monotonic)
        yield replace(bench, begin_at_order=at_order)


def _make_bench(
    integration: Integration,
    brain: SunrayBrain,
    fault: Fault,
    begin: Callable[[], None],
    end: Callable[[], None],
    now: Callable[[], float],
) -> Bench:
    def is_moving() -> bool:
        brain.advance_to(now())
        return brain.robot.is_moving

    return Bench(
        integration=integration,
        begin=begin,
        end=end,
        is_moving=is_moving,
        starts=lambda: sum(body.startswith("AT+C,-1,1,") for body in brain.heard),
        secrets=(str(_CONTRACT_PASSWORD), str(_PASSKEY)),
        is_silent=fault in (Fault.SILENT, Fault.GARBAGE, Fault.HTTP_ERROR, Fault.REFUSED),
    )


def _spoil(brain: SunrayBrain, fault: Fault) -> bool:
    """Begins a fault of the firmware or the machine; False when it is neither."""
    match fault:
        case Fault.WRONG_PIN:
            brain.password = 314159
            brain.reboot()
        case Fault.LOST_ANSWERS:
            brain.faults.lose_replies = 1
        case Fault.SILENT:
            brain.faults.is_silent = True
        case Fault.SLOW_ANSWERS:
            brain.faults.reply_delay_s = 0.2
        case Fault.UNKNOWN_WORD:
            brain.faults.says_odd_words = True
        case Fault.REBOOT:
            brain.reboot()
        case Fault.STUCK:
            brain.robot.fail(Sensor.KIDNAPPED)
        case Fault.RAIN:
            brain.robot.rain()
        case Fault.NO_RTK:
            brain.robot.solution = Solution.INVALID
        case _:
            return False
    return True


def _at_order(brain: SunrayBrain, fault: Fault) -> Callable[[], None] | None:
    """For faults of a single request: the next order's answer is lost."""
    return (lambda: brain.faults.lose_reply_to.add("C")) if fault is Fault.LOST_ANSWERS else None


def _heal(brain: SunrayBrain) -> None:
    if brain.password != _CONTRACT_PASSWORD:
        brain.password = _CONTRACT_PASSWORD
        brain.reboot()
    brain.faults = Faults()
    brain.robot.help()
    brain.robot.solution = Solution.FIX


def _begin_on_bridge(faults: BridgeFaults, fault: Fault) -> None:
    match fault:
        case Fault.DROP_MID_FRAME:
            faults.drop_after_packets = 1
        case Fault.DROP_ON_WRITE:
            faults.drop_on_request = "AT+"
        case Fault.LOST_NOTIFICATIONS:
            faults.lose_packets = 1
        case Fault.DOUBLED_NOTIFICATIONS:
            faults.double_packets = 3
        case Fault.GARBLED_NOTIFICATIONS:
            faults.garble_packets = 1
        case Fault.MERGED_NOTIFICATIONS:
            faults.says_unasked = True
        case Fault.SPLIT_NOTIFICATIONS:
            faults.packet_bytes = 1
        case _:
            raise InvalidInputError.of("fault", f"{fault} is none of this link")


def _begin_on_network(mower: HttpMower, fault: Fault) -> None:
    match fault:
        case Fault.REFUSED:
            mower.is_gone = True
        case Fault.RESET_MID_ANSWER:
            mower.resets_answers = 1
        case Fault.HTTP_ERROR:
            mower.status = 500
        case Fault.GARBAGE:
            mower.body = b"\x00\xff<html>AT+S,1,2,3"
        case _:
            raise InvalidInputError.of("fault", f"{fault} is none of this link")
