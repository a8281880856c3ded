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
from integrations.husqvarna_ble import create
from integrations.husqvarna_ble.emulated_machine import Traits
from integrations.husqvarna_ble.emulated_peer import ADDRESS, IDLE_S, Faults, HusqvarnaPeer
from integrations.husqvarna_ble.settings import PIN, REFUSED_PIN
from integrations.husqvarna_ble.wire import Model, Operation, Result

__all__ = ["ADDRESS", "IDLE_S", "Faults", "HusqvarnaPeer", "contract_fault", "contract_world", "make_emulated_peer"]

OPTIONS = ("name", "model", "pin", "serial", "time_scale", "old")


def make_emulated_peer(address: str, options: Mapping[str, str]) -> HusqvarnaPeer:
    """For `mowdeck emulate`: `name`, `model` (its numbers, as `23.1`), `pin` (four digits), `serial`, `time_scale`, and `old=yes`
    for a mower with the shorter statistics. A sister brand is `model=99.3` and `name=SILENO minimo`. InvalidInputError names what is wrong, and never the PIN."""
    for option in options:
        if option not in OPTIONS:
            raise InvalidInputError.of(option, f"must be one of {', '.join(OPTIONS)}")
    traits = Traits(
        name=options.get("name", Traits().name),
        serial=_number(options, "serial", Traits().serial, 0xFFFFFFFF),
        model=_model(options.get("model")),
        counts_blades=options.get("old") != "yes",
    )
    scale = _number(options, "time_scale", 1, 1_000)
    return HusqvarnaPeer(address, pin=_number(options, "pin", 1234, 9_999), traits=traits, time_scale=scale)


def _model(text: str | None) -> Model:
    if text is None:
        return Traits().model
    parts = text.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and int(part) <= 255 for part in parts):
        raise InvalidInputError.of("model", "must be two numbers up to 255, like 23.1")
    return Model(device_type=int(parts[0]), variant=int(parts[1]))


def _number(options: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = options.get(name, str(default))
    if not text.isascii() or not text.isdigit() or int(text) > most:
        raise InvalidInputError.of(name, f"must be a number up to {most}")
    return int(text)


# The contract

_CONTRACT_PIN = "4711"
_QUICK = {"poll_moving_s": 0.1, "poll_standing_s": 0.2, "poll_fault_s": 0.3, "settle_s": 0.0, "answer_s": 0.3}
NO_SUCH_FAULT: Mapping[Fault, str] = {
    Fault.RAIN: "nothing in the protocol is known to tell of rain",
    Fault.NO_RTK: "these mowers tell no position over Bluetooth",
}


def entry_for(peer: HusqvarnaPeer, **options: object) -> Entry:
    """An entry as the config flow makes it, with a rhythm for tests."""
    traits = peer.machine.traits
    data = {
        "address": peer.address,
        "channel": 1197489078,
        "serial": str(traits.serial),
        "name": traits.name,
        "device_type": traits.model.device_type,
        "variant": traits.model.variant,
    }
    return Entry(
        entry_id=EntryId("emulated"),
        domain="husqvarna_ble",
        unique_id=peer.address,
        title=traits.name,
        data=data,
        options={**_QUICK, **options},
    )


_SETTINGS: Mapping[Fault, Mapping[str, float]] = {
    Fault.DROP_MID_FRAME: {"drops_mid_frame": 1},
    Fault.DROP_ON_WRITE: {"drops_on_write": 1},
    Fault.LOST_NOTIFICATIONS: {"lost_notifications": 1},
    Fault.DOUBLED_NOTIFICATIONS: {"doubled_notifications": 3},
    Fault.GARBLED_NOTIFICATIONS: {"garbled_notifications": 1},
    Fault.MERGED_NOTIFICATIONS: {"merges_notifications": True},
    Fault.SPLIT_NOTIFICATIONS: {"piece_bytes": 3},
    Fault.LOGGED_OUT: {"loses_login": 1},
    Fault.LOST_ANSWERS: {"lost_answers": 1},
    Fault.SILENT: {"is_silent": True},
    Fault.SLOW_ANSWERS: {"delay_s": 0.2},
}
_AT_START = {Fault.DROP_ON_WRITE: "drops_on_start", Fault.LOST_ANSWERS: "lost_start_answers"}
_ODD_WORDS = {Operation.GET_STATE: (Result.OK, b"\xc8"), Operation.GET_ACTIVITY: (Result.OK, b"\xc9")}


@asynccontextmanager
async def contract_world(context: IntegrationContext) -> AsyncIterator[Integration]:
    """A fresh emulated mower, and the integration set up on it."""
    async with set_up(context) as (_, _, integration):
        yield integration


@asynccontextmanager
async def set_up(context: IntegrationContext) -> AsyncIterator[tuple[HusqvarnaPeer, MemoryRadio, Integration]]:
    """The emulated mower, the radio that joins it to the box, and the integration."""
    peer = HusqvarnaPeer(pin=int(_CONTRACT_PIN), time_scale=20.0)
    radio = MemoryRadio(peer)
    context.secrets.put(PIN, _CONTRACT_PIN)
    try:
        yield peer, radio, create(replace(context, bluetooth=radio), entry_for(peer))
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
            peer.answers.clear()
            peer.lock.pin, peer.lock.wrong, peer.lock.blocked_s = int(_CONTRACT_PIN), 0, 0.0
            context.secrets.put(REFUSED_PIN, "")  # a person has entered it once more
            if peer.machine.is_faulty:
                peer.machine.help()

        def is_moving() -> bool:
            peer.catch_up()
            return peer.machine.is_moving

        yield Bench(
            integration=integration,
            begin=begin,
            begin_at_order=(lambda: setattr(peer.faults, _AT_START[fault], 1)) if fault in _AT_START else None,
            end=end,
            is_moving=is_moving,
            starts=lambda: peer.heard.count(Operation.START_TRIGGER),
            secrets=(_CONTRACT_PIN,),
            is_silent=fault is Fault.SILENT,
        )


def _begin(peer: HusqvarnaPeer, fault: Fault) -> None:
    match fault:
        case Fault.WRONG_PIN:
            peer.lock.pin = 2580
        case Fault.UNKNOWN_WORD:
            peer.answers.update(_ODD_WORDS)
        case Fault.STUCK:
            peer.machine.fail(9)
        case _:
            for name, value in _SETTINGS[fault].items():
                setattr(peer.faults, name, value)
