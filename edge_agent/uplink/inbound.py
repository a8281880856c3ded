"""Messages from the relay's side: judged, then handed to whoever they are for. Nothing here trusts the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.domain.clock import Clock
from core.domain.commands import CommandResult, CommandStatus, EmergencyStop
from core.domain.errors import ForbiddenError, MalformedMessageError, SignatureError, UnavailableError
from core.domain.ids import AccountId, EdgeId
from core.mqtt.session import MqttMessage
from core.sync.envelope import verify, verify_cancel, verify_drive
from core.sync.messages import Ack, Call, CancelEnvelope, CommandEnvelope, DriveMessage, Registrations, decode
from core.sync.topics import (
    DOWN_ACK,
    DOWN_CALL,
    DOWN_CANCEL,
    DOWN_COMMAND,
    DOWN_DRIVE,
    DOWN_REGISTRATIONS,
    DOWN_STOP,
    Topic,
    parse_topic,
)
from edge_agent.runtime.ticket import Source, Submission

_log = structlog.get_logger(__name__)

RETAINED = "a command that the broker had kept is never carried out"

Submit = Callable[[CommandEnvelope, Source], Awaitable[Submission]]
Drive = Callable[[DriveMessage], None]
"""Takes a joystick frame or the end of a drive, without waiting; ForbiddenError when no such session is open."""
Cancel = Callable[[CancelEnvelope], None]


class Inbound:
    """One for all connections of a link. `refused` counts what was not obeyed, by reason."""

    def __init__(
        self,
        *,
        edge_id: EdgeId,
        account_id: AccountId,
        keys: Mapping[str, Ed25519PublicKey],
        clock: Clock,
        submit: Submit,
        drive: Drive,
        cancel: Cancel,
        put_result: Callable[[CommandResult], None],
        on_ack: Callable[[Ack], None],
        on_registrations: Callable[[Registrations], None],
        on_call: Callable[[Call], None],
    ) -> None:
        self._edge_id = edge_id
        self._account_id = account_id
        self._keys = keys
        self._clock = clock
        self._submit = submit
        self._drive = drive
        self._cancel = cancel
        self._put_result = put_result
        self._on_ack = on_ack
        self._on_registrations = on_registrations
        self._on_call = on_call
        self.refused: Counter[str] = Counter()

    async def take(self, message: MqttMessage) -> None:
        """Handles one message; never raises for what is in it."""
        try:
            where = parse_topic(message.topic)
            if where.edge_id != self._edge_id:
                raise MalformedMessageError("a topic of another box")
            await self._dispatch(where, message)
        except SignatureError as err:
            self._refuse("signature", message, err.detail)
        except MalformedMessageError as err:
            self._refuse("malformed", message, err.detail)
        except UnavailableError as err:
            self._refuse("not-ready", message, err.detail)
        except ForbiddenError as err:
            self._refuse("no-drive-session", message, err.detail)

    async def _dispatch(self, where: Topic, message: MqttMessage) -> None:
        match where.branch:
            case _ if where.branch in {DOWN_COMMAND, DOWN_STOP}:
                await self._take_command(where, message)
            case _ if where.branch == DOWN_DRIVE:
                self._take_drive(where, message)
            case _ if where.branch == DOWN_CANCEL:
                self._take_cancel(where, message)
            case _ if where.branch == DOWN_ACK:
                self._on_ack(decode(message.payload, Ack))
            case _ if where.branch == DOWN_REGISTRATIONS:
                self._on_registrations(decode(message.payload, Registrations))
            case _ if where.branch == DOWN_CALL:
                self._take_call(decode(message.payload, Call), message)
            case _:
                raise MalformedMessageError(f"nothing is taken on {where.branch}")

    async def _take_command(self, where: Topic, message: MqttMessage) -> None:
        envelope = verify(message.payload, self._keys)
        if envelope.edge_id != self._edge_id or envelope.mower_id != where.tail:
            self._refuse("misdirected", message, "the envelope names another box or mower")
            return
        if message.retained:
            # Whatever put it there, it may be of any age. The relay learns it; a later word of ours replaces nothing.
            self._refuse("retained", message, RETAINED)
            self._put_result(self._reject(envelope, RETAINED))
            return
        if where.branch == DOWN_STOP and not isinstance(envelope.command, EmergencyStop):
            self._refuse("not-a-stop", message, "only a stop travels on the emergency lane")
            return
        submission = await self._submit(envelope, "relay")
        if submission.is_untold and submission.result is not None:
            self._put_result(submission.result)

    def _take_drive(self, where: Topic, message: MqttMessage) -> None:
        if message.retained:
            self._refuse("retained", message, "a joystick frame that the broker had kept")
            return
        drive = verify_drive(message.payload, self._keys)
        if drive.edge_id != self._edge_id or drive.mower_id != where.tail:
            self._refuse("misdirected", message, "the frame names another box or mower")
            return
        self._drive(drive)

    def _take_cancel(self, where: Topic, message: MqttMessage) -> None:
        cancel = verify_cancel(message.payload, self._keys)
        named = (cancel.edge_id, cancel.account_id, cancel.mower_id)
        if named != (self._edge_id, self._account_id, where.tail):
            self._refuse("misdirected", message, "the cancel names another box, account or mower")
        elif message.retained:
            self._refuse("retained", message, "a cancel that the broker had kept")
        else:
            self._cancel(cancel)

    def _take_call(self, call: Call, message: MqttMessage) -> None:
        if message.retained:
            self._refuse("retained", message, "a call that the broker had kept")
            return
        self._on_call(call)

    def _reject(self, envelope: CommandEnvelope, reason: str) -> CommandResult:
        return CommandResult(
            command_id=envelope.command_id,
            mower_id=envelope.mower_id,
            status=CommandStatus.REJECTED,
            at=self._clock.now(),
            reason=reason,
        )

    def _refuse(self, why: str, message: MqttMessage, detail: str) -> None:
        self.refused[why] += 1
        if self.refused[why] in {1, 10, 100} or self.refused[why] % 1_000 == 0:
            _log.warning(
                "a message from the relay's side was refused",
                why=why,
                topic=message.topic,
                detail=detail,
                count=self.refused[why],
            )
