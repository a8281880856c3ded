"""The emulated mower as others meet it: on the virtual radio, and on the bench of the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from core.domain.errors import InvalidInputError
from core.domain.ids import EntryId
from core.platform.contract.fault import Bench, Fault
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.integration import Entry, Integration, IntegrationContext
from integrations.grouw_ble import create, responder
from integrations.grouw_ble.emulated_machine import RESUME, START, Traits
from integrations.grouw_ble.emulated_peer import ADDRESS, Faults, GrouwPeer
from integrations.grouw_ble.settings import PIN
from integrations.grouw_ble.wire import Mode

__all__ = ["ADDRESS", "Faults", "GrouwPeer", "contract_fault", "contract_world", "make_emulated_peer"]

OPTIONS = ("name", "pin", "time_scale")
_NAME_MAX = 29
"""What fits into an advertisement."""


def make_emulated_peer(address: str, options: Mapping[str, str]) -> GrouwPeer:
    """For `mowdeck emulate`: `name`, `pin` (four digits), `time_scale`. InvalidInputError names what is wrong, and
    never the PIN."""
    for option in options:
        if option not in OPTIONS:
            raise InvalidInputError.of(option, f"must be one of {', '.join(OPTIONS)}")
    name = options.get("name", Traits().name)
    if not 0 < len(name.encode()) <= _NAME_MAX:
        raise InvalidInputError.of("name", f"must have 1 to {_NAME_MAX} bytes")
    pin = options.get("pin", "1234")
    if not (pin.isascii() and pin.isdigit() and len(pin) == 4):
        raise InvalidInputError.of("pin", "must have four digits")
    scale = options.get("time_scale", "1")
    if not (scale.isascii() and scale.isdigit() and 0 < int(scale) <= 1_000):
        raise InvalidInputError.of("time_scale", "must be a number up to 1000")
    return GrouwPeer(address, pin=pin, traits=Traits(name=name), time_scale=float(scale))


# The contract

_CONTRACT_PIN = "8352"
_QUICK = {"poll_moving_s": 0.1, "poll_standing_s": 0.2, "poll_low_s": 0.3, "answer_s": 0.3}
_NO_BOND = "these mowers know no bond: anybody near can connect"
NO_SUCH_FAULT: Mapping[Fault, str] = {
    Fault.NOT_PAIRABLE: _NO_BOND,
    Fault.BOND_LOST: _NO_BOND,
    Fault.LOGGED_OUT: "nobody signs in: the mower obeys whoever is connected",
    Fault.STUCK: "no byte of the status is known to tell a fault",
    Fault.RAIN: "no byte of the status is known to tell of rain",
    Fault.NO_RTK: "these mowers have no satellite receiver",
}


def entry_for(peer: GrouwPeer, **options: object) -> Entry:
    """An entry as the config flow makes it, with a rhythm for tests."""
    name = peer.machine.traits.name
    return Entry(
        entry_id=EntryId("emulated"),
        domain="grouw_ble",
        unique_id=peer.address,
        title=name,
        data={"address": peer.address, "name": name},
        options={**_QUICK, **options},
    )


_SETTINGS: Mapping[Fault, Mapping[str, float]] = {
    Fault.DROP_MID_FRAME: {"drops_mid_answer": 1},
    Fault.DROP_ON_WRITE: {"drops_on_write": 1},
    Fault.LOST_NOTIFICATIONS: {"piece_bytes": 7, "lost_pieces": 1},
    Fault.DOUBLED_NOTIFICATIONS: {"doubled_answers": 3},
    Fault.GARBLED_NOTIFICATIONS: {"garbled_answers": 1},
    Fault.MERGED_NOTIFICATIONS: {"joins_answers": True},
    Fault.SPLIT_NOTIFICATIONS: {"piece_bytes": 3},
    Fault.LOST_ANSWERS: {"lost_answers": 1},
    Fault.SILENT: {"is_silent": True},
    Fault.SLOW_ANSWERS: {"delay_s": 0.2},
}
_AT_ORDER = {Fault.DROP_ON_WRITE: "drops_on_order", Fault.LOST_ANSWERS: "lost_orders"}
_ODD_STATUS = bytes((80, 0x32, 0x1B, 0, 0, 4, 0, 1, 0x77))


@asynccontextmanager
async def contract_world(context: IntegrationContext) -> AsyncIterator[Integration]:
    """A fresh emulated mower, and the integration set up on it."""
    async with set_up(context) as (_, _, integration):
        yield integration


@asynccontextmanager
async def set_up(context: IntegrationContext) -> AsyncIterator[tuple[GrouwPeer, MemoryRadio, Integration]]:
    """The emulated mower, the radio that joins it to the box, and the integration."""
    peer = GrouwPeer(pin=_CONTRACT_PIN, time_scale=20.0)
    radio = MemoryRadio(peer)
    context.secrets.put(PIN, _CONTRACT_PIN)
    try:
        yield peer, radio, create(replace(context, bluetooth=radio), entry_for(peer, verifies_sign_in=True))
    finally:
        radio.close()


@asynccontextmanager
async def contract_fault(context: IntegrationContext, fault: Fault) -> AsyncIterator[Bench]:
    """The same, and one fault of it."""
    async with set_up(context) as (peer, radio, integration):

        def begin() -> None:
            if radio.spoil(fault):
                return
            _begin(peer, fault)
            if fault is Fault.WRONG_PIN:
                radio.cut()

        def end() -> None:
            radio.heal()
            peer.faults = Faults()
            peer.overriding.clear()
            peer.memory.pin = _CONTRACT_PIN

        def is_moving() -> bool:
            peer.catch_up()
            return peer.machine.mode != Mode.STOPPED

        yield Bench(
            integration=integration,
            begin=begin,
            begin_at_order=(lambda: setattr(peer.faults, _AT_ORDER[fault], 1)) if fault in _AT_ORDER else None,
            end=end,
            is_moving=is_moving,
            starts=lambda: sum(order in (START, RESUME) for order in peer.orders()),
            secrets=(_CONTRACT_PIN,),
            is_silent=fault is Fault.SILENT,
        )


def _begin(peer: GrouwPeer, fault: Fault) -> None:
    match fault:
        case Fault.WRONG_PIN:
            peer.memory.pin = "2580"
        case Fault.UNKNOWN_WORD:
            peer.overriding[responder.STATUS] = _ODD_STATUS
        case _:
            for name, value in _SETTINGS[fault].items():
                setattr(peer.faults, name, value)
