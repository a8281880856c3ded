"""The line to the relay: two connections, and everything that travels over them.

The main connection carries it all; the emergency lane only listens for stops, so that a stop waits behind nothing.
Without the relay the box goes on; what has to reach it waits in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import structlog

from core.domain.commands import CommandResult
from core.domain.errors import MowdeckError, UnauthenticatedError, UnavailableError
from core.domain.events import MowerEvent
from core.domain.ids import AccountId, BootId, MowerId
from core.domain.mower import MowerState
from core.mqtt.session import BrokerAddress, Credential, MqttSession, Will, open_session
from core.storage.telemetry_store import JournalHead, TelemetryStore
from core.sync.backoff import Backoff
from core.sync.linking import LinkGrant
from core.sync.messages import WIRE_VERSION, Ack, Hello, Registrations, Status, encode
from core.sync.topics import (
    DOWN_ACK,
    DOWN_CALL,
    DOWN_CANCEL,
    DOWN_COMMAND,
    DOWN_DRIVE,
    DOWN_REGISTRATIONS,
    DOWN_STOP,
    UP_HELLO,
    UP_JOURNAL,
    UP_STATUS,
    topic,
    topic_filter,
)
from edge_agent.clock.keeper import ClockKeeper
from edge_agent.uplink.calls import Calls
from edge_agent.uplink.connection import consume, run_together
from edge_agent.uplink.facts import BoxFacts, UplinkStatus, pinned_keys
from edge_agent.uplink.inbound import Cancel, Drive, Inbound, Submit
from edge_agent.uplink.journal_pump import JournalPump
from edge_agent.uplink.live_lane import LiveLane
from edge_agent.uplink.outbox import Outbox

_log = structlog.get_logger(__name__)

LIVE_DEADLINE_S = 5.0
"""A live state that the socket has not taken by then is late anyway."""
BATCH_DEADLINE_S = 60.0
"""A full batch may take this long on a very slow line before the connection counts as broken."""
GOODBYE_S = 1.0
REFUSED_PAUSE_S = 60.0
"""A refused credential is not tried more often: the link was probably ended on the other side."""

Pause = Callable[[float], Awaitable[None]]


class Uplink:
    """One link's line; a new link gets a new Uplink. `run` is its life, the `put_*` never block."""

    def __init__(
        self,
        link: LinkGrant,
        *,
        broker: BrokerAddress,
        store: TelemetryStore,
        clock: ClockKeeper,
        boot_id: BootId,
        random: Callable[[], float],
        facts: Callable[[], BoxFacts],
        submit: Submit,
        drive: Drive,
        cancel: Cancel,
        states: Callable[[], dict[MowerId, MowerState]],
        account_id: Callable[[], AccountId],
        on_registrations: Callable[[Registrations], Awaitable[None]],
        diagnostics: Callable[[], dict[str, Any]],
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._edge_id = link.edge_id
        self._broker = broker
        self._credential = Credential(username=link.edge_id, password=link.credential)
        self._store = store
        self._clock = clock
        self._boot_id = boot_id
        self._random = random
        self._facts = facts
        self._handle_registrations = on_registrations
        self._states = states
        self._pause = pause
        self._live = LiveLane(link.edge_id, monotonic=clock.monotonic, redate=self._redate)
        self._outbox = Outbox(link.edge_id)
        self._calls = Calls(
            store=store,
            clock=clock,
            account_id=account_id,
            states=states,
            put_state=self.put_state,
            put_reply=self._outbox.put_reply,
            say_hello=self._say_hello,
            diagnostics=diagnostics,
        )
        self._inbound = Inbound(
            edge_id=link.edge_id,
            account_id=link.account_id,
            keys=pinned_keys(link),
            clock=clock,
            submit=submit,
            drive=drive,
            cancel=cancel,
            put_result=self._outbox.put_result,
            on_ack=self._on_ack,
            on_registrations=self._on_registrations,
            on_call=self._calls.put,
        )
        self._pump: JournalPump | None = None
        self._registrations: Registrations | None = None
        self._registrations_arrived = asyncio.Event()
        self._said: BoxFacts | None = None
        """What the last hello said."""
        self._hello_sent_at: float | None = None
        self._session: MqttSession | None = None
        self._status = UplinkStatus(is_online=False, is_emergency_lane_up=False, since=clock.now())
        self._rejected_rows = 0

    # -- from the box

    def put_state(self, mower_id: MowerId, state: MowerState) -> None:
        """A live state; only the newest of a mower goes up, and only while there is a line."""
        if self._session is not None:
            self._live.put(mower_id, state)

    def put_result(self, result: CommandResult) -> None:
        """A transition of a command, at once (it is in the journal as well)."""
        self._outbox.put_result(result)

    def put_event(self, mower_id: MowerId, event: MowerEvent) -> None:
        """A past fact."""
        self._outbox.put_event(mower_id, event)

    def on_inventory(self) -> None:
        """The box's mowers may have changed: says hello again if they have."""
        if self._facts() != self._said:
            self._say_hello()

    def _say_hello(self) -> None:
        if self._pump is not None:
            self._pump.on_inventory()

    def on_growth(self) -> None:
        """Rows were committed to the store."""
        if self._pump is not None:
            self._pump.on_growth()

    def status(self) -> UplinkStatus:
        """For API, command line and diagnostics."""
        return msgspec.structs.replace(
            self._status,
            backlog_rows=0 if self._pump is None else self._pump.backlog,
            skew_s=self._clock.skew_s(),
            dropped_events=self._outbox.dropped_events,
            rejected_rows=self._rejected_rows,
            refused_messages=dict(self._inbound.refused),
        )

    # -- life

    async def run(self) -> None:
        """Keeps the line until cancelled; no failure of it ends this."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep("main", self._main), name="relay line")
            group.create_task(self._keep("emergency", self._emergency), name="relay emergency lane")
            group.create_task(self._calls.run(), name="relay calls")
            group.create_task(self._apply_registrations(), name="relay registrations")

    async def _keep(self, name: str, connect: Callable[[], Awaitable[MowdeckError]]) -> None:
        """Connects again and again: full jitter, from the start again after a stable connection."""
        backoff = Backoff(random=self._random)
        while True:
            began = self._clock.monotonic()
            try:
                error = await connect()
            except MowdeckError as err:
                error = err
            except Exception as err:  # noqa: BLE001  (fire door: a defect of the line must not end the box)
                _log.exception("the line to the relay failed", lane=name)
                error = MowdeckError(f"{type(err).__name__}")
            backoff.succeed(self._clock.monotonic() - began)
            pause_s = backoff.next_s()
            if isinstance(error, UnauthenticatedError):
                pause_s = max(pause_s, REFUSED_PAUSE_S * (0.5 + self._random()))
            self._note_lost(name, error, pause_s)
            await self._pause(pause_s)

    async def _main(self) -> MowdeckError:
        at = self._clock.now()
        will = Will(topic=topic(self._edge_id, UP_STATUS), payload=self._say_status(is_online=False))
        async with open_session(self._broker, self._credential, will=will) as session:
            pump = JournalPump(
                store=self._store,
                clock=self._clock,
                random=self._random,
                send_hello=lambda head: self._send_hello(session, head),
                send_batch=lambda data: session.publish(
                    topic(self._edge_id, UP_JOURNAL), data, qos=1, timeout_s=BATCH_DEADLINE_S
                ),
            )
            branches = (DOWN_ACK, DOWN_COMMAND, DOWN_CANCEL, DOWN_STOP, DOWN_DRIVE, DOWN_REGISTRATIONS, DOWN_CALL)
            await session.subscribe(*(topic_filter(branch, self._edge_id) for branch in branches))
            await session.publish(will.topic, self._say_status(is_online=True), qos=1, retain=True)
            self._session, self._pump = session, pump
            self._note(is_online=True, since=at, problem=None, code=None)
            for mower_id, state in self._states().items():
                self._live.put(mower_id, state)
            _log.info("connected to the relay", host=self._broker.host, port=self._broker.port)
            try:
                return await run_together(
                    session,
                    {
                        "messages": lambda: consume(session, self._inbound.take),
                        "journal": pump.run,
                        "live": lambda: self._live.run(lambda where, data: _publish_live(session, where, data)),
                        "outbox": lambda: self._outbox.run(lambda where, data: session.publish(where, data, qos=1)),
                    },
                )
            finally:
                self._session, self._pump = None, None
                await self._say_goodbye(session)

    async def _emergency(self) -> MowdeckError:
        async with open_session(self._broker, self._credential) as session:
            await session.subscribe(topic_filter(DOWN_STOP, self._edge_id))
            self._note(is_emergency_lane_up=True)
            return await run_together(session, {"stops": lambda: consume(session, self._inbound.take)})

    # -- what is said

    def _say_status(self, *, is_online: bool) -> bytes:
        return encode(Status(online=is_online, boot_id=self._boot_id, at=self._clock.now()))

    async def _say_goodbye(self, session: MqttSession) -> None:
        """A clean end makes the broker forget the will, so its words are said in person."""
        if not session.is_connected:
            return
        try:
            await session.publish(
                topic(self._edge_id, UP_STATUS),
                self._say_status(is_online=False),
                qos=1,
                retain=True,
                timeout_s=GOODBYE_S,
            )
        except MowdeckError as err:
            _log.debug("no goodbye", detail=err.detail)

    async def _send_hello(self, session: MqttSession, head: JournalHead) -> None:
        facts = self._said = self._facts()
        hello = Hello(
            wire_version=WIRE_VERSION,
            mowdeck_version=facts.version,
            boot_id=self._boot_id,
            sent_at=self._clock.now(),
            is_clock_synchronised=self._clock.is_trusted,
            stream_id=head.stream_id,
            first_seq=head.first_seq,
            last_seq=head.last_seq,
            acked_seq=head.acked_seq,
            mowers=facts.mowers,
            failed_registrations=facts.failed_registrations,
            emergency_lane=True,
            name=facts.name,
            notices=facts.notices,
        )
        self._hello_sent_at = self._clock.monotonic()
        await session.publish(topic(self._edge_id, UP_HELLO), encode(hello), qos=1)

    def _redate(self, state: MowerState) -> MowerState:
        """While our own clock is known to be wrong, a live state carries the relay's time instead."""
        skew_s = self._clock.skew_s()
        if skew_s is None or self._clock.is_trusted:
            return state
        return msgspec.structs.replace(state, observed_at=state.observed_at + timedelta(seconds=skew_s))

    # -- what is heard

    def _on_ack(self, ack: Ack) -> None:
        self._note(last_ack_at=self._clock.now())
        if ack.rejected:
            self._rejected_rows += len(ack.rejected)
            first = ack.rejected[0]
            _log.warning("the relay quarantined rows", count=len(ack.rejected), seq=first.seq, reason=first.reason)
        if ack.answers == "hello" and ack.received_at is not None and self._hello_sent_at is not None:
            self._clock.measure(
                sent_monotonic=self._hello_sent_at,
                received_monotonic=self._clock.monotonic(),
                relay_at=ack.received_at,
            )
            self._hello_sent_at = None
        if self._pump is not None:
            self._pump.on_ack(ack)

    def _on_registrations(self, registrations: Registrations) -> None:
        self._registrations = registrations
        self._registrations_arrived.set()

    async def _apply_registrations(self) -> None:
        """The newest registrations, one at a time: setting a mower up may take a while."""
        while True:
            await self._registrations_arrived.wait()
            self._registrations_arrived.clear()
            newest, self._registrations = self._registrations, None
            if newest is None:
                continue
            try:
                await self._handle_registrations(newest)
            except Exception:  # noqa: BLE001  (fire door: what the fleet asks for must not end the line)
                _log.exception("registrations could not be applied", version=newest.version)

    # -- status

    def _note(self, **fields: Any) -> None:
        self._status = msgspec.structs.replace(self._status, **fields)

    def _note_lost(self, name: str, error: MowdeckError, pause_s: float) -> None:
        was_up = self._status.is_online if name == "main" else self._status.is_emergency_lane_up
        if name == "main":
            since = self._clock.now() if was_up else self._status.since
            self._note(is_online=False, since=since, problem=error.detail or error.code, code=error.code)
        else:
            self._note(is_emergency_lane_up=False)
        if was_up or self._status.code != error.code:
            _log.warning("no line to the relay", lane=name, code=error.code, detail=error.detail, retry_in_s=pause_s)


async def _publish_live(session: MqttSession, where: str, data: bytes) -> None:
    """A line too slow for live states is no broken line: the state is late, and the next one is newer."""
    try:
        await session.publish(where, data, qos=0, timeout_s=LIVE_DEADLINE_S)
    except UnavailableError:
        if not session.is_connected:
            raise
