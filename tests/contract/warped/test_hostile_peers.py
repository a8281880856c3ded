"""Mowers that say anything at all, over a whole link: noise between the answers, and answers full of odd values.

In virtual time, each example on a loop of its own. The steward finds foreign errors and states that no mower can be in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pygrouw")

from core.platform.contract.fault import Bench
from core.platform.contract.memory_radio import MemoryRadio
from core.platform.contract.steward import Steward, keep_up
from core.platform.contract.surroundings import open_context
from core.platform.integration import Integration, IntegrationContext
from integrations.ardumower import emulator as ardumower
from integrations.ardumower.ble_line import CHARACTERISTIC
from integrations.grouw_ble import emulator as grouw_ble
from integrations.grouw_ble import responder
from integrations.grouw_ble import wire as dym
from integrations.husqvarna_ble import emulator as husqvarna_ble
from integrations.husqvarna_ble import wire as husqvarna
from integrations.husqvarna_ble.wire import Operation
from tests.fakes.warp_loop import LoopClock, WarpLoop
from tests.integrations.grouw_ble import vectors as grouw_vectors
from tests.integrations.husqvarna_ble.vectors import VECTORS

SETTINGS = settings(max_examples=30, deadline=None)
PACKET = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A mower in its dock, and how it says something odd."""

    radio: MemoryRadio
    integration: Integration
    say: Callable[[object], None]
    forget: Callable[[], None]


Make = Callable[[IntegrationContext], AbstractAsyncContextManager[Stage]]


@asynccontextmanager
async def with_husqvarna(context: IntegrationContext) -> AsyncIterator[Stage]:
    async with husqvarna_ble.set_up(context) as (peer, radio, integration):
        yield Stage(radio=radio, integration=integration, say=peer.answers.update, forget=peer.answers.clear)


@asynccontextmanager
async def with_grouw(context: IntegrationContext) -> AsyncIterator[Stage]:
    async with grouw_ble.set_up(context) as (peer, radio, integration):
        yield Stage(radio=radio, integration=integration, say=peer.overriding.update, forget=peer.overriding.clear)


@asynccontextmanager
async def with_ardumower(context: IntegrationContext) -> AsyncIterator[Stage]:
    async with ardumower.on_the_air(context) as (peer, radio, integration):
        answers = peer.brain.faults.answers
        yield Stage(radio=radio, integration=integration, say=answers.update, forget=answers.clear)


def live(make: Make, act: Callable[[Stage, Steward], AsyncIterator[None]]) -> None:
    """A link that has its first state, what happens then, and a new state after all that."""

    async def run() -> None:
        clock = LoopClock()
        async with open_context(clock=clock) as context, make(context) as stage:
            bench = Bench(
                integration=stage.integration,
                begin=lambda: None,
                end=lambda: None,
                is_moving=lambda: False,
                starts=lambda: 0,
            )
            async with keep_up(bench, clock, takes_motion_as_said=True) as steward:
                await steward.fresh_state("a first state")
                async for _ in act(stage, steward):
                    await asyncio.sleep(0.07)
                steward.go_on()
                await steward.fresh_state("a state after it")
            await stage.integration.close()

    with asyncio.Runner(loop_factory=WarpLoop) as runner:
        runner.run(run())


def noise_of(*frames: bytes) -> st.SearchStrategy[list[bytes]]:
    """Bytes as a bad radio or firmware makes them: any, valid ones, and valid ones with bytes changed or cut off."""

    @st.composite
    def mutated(draw: st.DrawFn) -> bytes:
        raw = bytearray(draw(st.sampled_from(frames)))
        for at in draw(st.lists(st.integers(0, len(raw) - 1), max_size=3)):
            raw[at] ^= draw(st.integers(1, 255))
        begin, end = sorted(draw(st.tuples(st.integers(0, len(raw)), st.integers(0, len(raw)))))
        return bytes(raw[begin:end])

    return st.lists(st.binary(max_size=60) | st.sampled_from(frames) | mutated(), min_size=1, max_size=12)


def shout(characteristic: str, chunks: list[bytes]) -> Callable[[Stage, Steward], AsyncIterator[None]]:
    async def act(stage: Stage, _: Steward) -> AsyncIterator[None]:
        for chunk in chunks:
            for session in stage.radio.open:
                for at in range(0, len(chunk), PACKET):
                    session.notify(characteristic, chunk[at : at + PACKET])
            yield

    return act


def answer(odd: object) -> Callable[[Stage, Steward], AsyncIterator[None]]:
    async def act(stage: Stage, _: Steward) -> AsyncIterator[None]:
        stage.say(odd)
        for _ in range(12):
            yield
        stage.forget()

    return act


@SETTINGS
@given(noise_of(*(bytes.fromhex(raw) for _, _, raw in VECTORS)))
def test_noise_from_a_husqvarna(chunks: list[bytes]):
    live(with_husqvarna, shout(husqvarna.RESPONSES, chunks))


@SETTINGS
@given(noise_of(grouw_vectors.STATUS_DOCKED, grouw_vectors.PIN_TOLD, grouw_vectors.START))
def test_noise_from_a_grouw(chunks: list[bytes]):
    live(with_grouw, shout(dym.CONTROL, chunks))


@SETTINGS
@given(
    noise_of(
        b"C,0x43\r\n", b"S,28.60,0.00,0.00,0.00,2,2,0,0.25,0,1.00,0.00,0.02,28,-0.05,24,-971195,0x00\r\n", b"M,0x4d\r\n"
    )
)
def test_noise_from_an_ardumower(chunks: list[bytes]):
    live(with_ardumower, shout(CHARACTERISTIC, chunks))


ASKED = [
    operation
    for operation in Operation
    if operation.name.startswith(("GET_", "IS_")) and operation is not Operation.GET_SERIAL_NUMBER
]
ANSWERS = st.dictionaries(
    st.sampled_from(ASKED),
    st.tuples(st.sampled_from([0, 0, 0, 1, 5, 255]), st.binary(min_size=1, max_size=2) | st.binary(max_size=40)),
    max_size=6,
)


@SETTINGS
@given(ANSWERS)
def test_odd_answers_of_a_husqvarna(odd: dict[Operation, tuple[int, bytes]]):
    live(with_husqvarna, answer(odd))


@SETTINGS
@given(st.binary(min_size=0, max_size=15))
def test_odd_statuses_of_a_grouw(status: bytes):
    live(with_grouw, answer({responder.STATUS: status}))


WORDS = st.one_of(
    st.sampled_from(["", "nan", "inf", "-inf", "1e999", "-1", "0", "2", "4", "99999999999999999999", "0x10", "\x00", "ü"]),
    st.integers(-5, 500).map(str),
    st.floats(allow_nan=True).map(str),
    st.text(st.characters(codec="ascii", exclude_characters=",\r\n"), max_size=8),
)  # fmt: skip


@SETTINGS
@given(st.lists(WORDS, max_size=24), st.lists(WORDS, max_size=30), st.lists(WORDS, max_size=12))
def test_odd_words_of_an_ardumower(status: list[str], statistics: list[str], obstacles: list[str]):
    odd = {"S": ",".join(["S", *status]), "T": ",".join(["T", *statistics]), "S2": ",".join(["S2", *obstacles])}
    live(with_ardumower, answer(odd))
