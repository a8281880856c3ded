"""The rules of one connection, sans-I/O: frames, answers and time in, actions out.

    waiting --auth held--> open --(any close)--> closed

The shell (viewer.py) carries the actions out, one frame after the other, and reports back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import assert_never

import msgspec

from core.domain import limits
from core.domain.drive import DriveFrame
from core.domain.ids import MowerId, is_safe_id
from core.identity.principal import Principal
from core.web.rate import TokenBucket
from core.web.realtime.messages import (
    Auth,
    ClientMessage,
    CloseCode,
    Drive,
    Error,
    Identity,
    Ping,
    Pong,
    Ready,
    Revoked,
    ServerMessage,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
    decode,
)

MESSAGES_PER_S = 30.0
MESSAGES_BURST = 100.0
RECHECK_RETRY_S = 5.0
"""After a re-check that the authorizer could not answer."""
SILENCE_S = 3 * limits.PROTOCOL_PING_S
"""A peer that has said nothing for this long, pongs included, is gone or does not read."""


@dataclass(frozen=True, slots=True)
class Send:
    """Put the message into the bounded queue."""

    message: ServerMessage


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection, after what is queued. Nothing follows this action."""

    code: CloseCode
    reason: str


@dataclass(frozen=True, slots=True)
class Verify:
    """Ask the verifier, then call `verified`, `refused` or `unverified`."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Check:
    """Ask for can_view on these, then call `checked` or `unchecked` with this action."""

    mower_ids: tuple[MowerId, ...]
    denied: tuple[str, ...]
    """Refused without asking: they cannot be ids."""
    request_id: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Recheck:
    """Ask again for can_view on these, then call `rechecked` or `unrechecked`."""

    mower_ids: tuple[MowerId, ...]


@dataclass(frozen=True, slots=True)
class SendLast:
    """Send the last known state of these."""

    mower_ids: tuple[MowerId, ...]
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Forward:
    """Hand a joystick frame to the drive desk."""

    mower_id: MowerId
    frame: DriveFrame


@dataclass(frozen=True, slots=True)
class PingPeer:
    """Send a protocol ping."""


Action = Send | Close | Verify | Check | Recheck | SendLast | Forward | PingPeer


class Phase(Enum):
    """Where a conversation is."""

    WAITING = "waiting"
    OPEN = "open"
    CLOSED = "closed"


class Conversation:
    """State of one connection. `now` is monotonic seconds, `wall` aware UTC."""

    def __init__(self, connection_id: str, *, now: float, max_subscriptions: int = limits.SUBSCRIPTIONS) -> None:
        self.connection_id = connection_id
        self.phase = Phase.WAITING
        self.principal: Principal | None = None
        self.followed: set[MowerId] = set()
        self._max_subscriptions = max_subscriptions
        self._auth_due = now + limits.AUTH_DEADLINE_S
        self._silence_due = now + SILENCE_S
        self._ping_due = now + limits.PROTOCOL_PING_S
        self._recheck_due = now + limits.RECHECK_S
        self._epoch = 0
        self._bucket = TokenBucket.full(MESSAGES_PER_S, MESSAGES_BURST, now)

    # -- frames

    def heard(self, now: float) -> None:
        """Any frame of the peer, a pong included."""
        self._silence_due = now + SILENCE_S

    def receive_binary(self) -> list[Action]:
        """Only text is spoken here."""
        return self._close(CloseCode.PROTOCOL_ERROR, "messages are text frames")

    def receive(self, data: bytes, now: float, wall: datetime) -> list[Action]:
        """One text frame."""
        self.heard(now)
        if self.phase is Phase.CLOSED:
            return []
        if len(data) > limits.FRAME_BYTES:
            return self._close(CloseCode.TOO_BIG, f"a frame has at most {limits.FRAME_BYTES} bytes")
        if self._bucket.take(now) > 0:
            return self._close(CloseCode.TOO_MANY, "too many messages")
        try:
            message = decode(data)
        except msgspec.ValidationError as err:
            return self._misshapen(data, err)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._close(CloseCode.PROTOCOL_ERROR, "not JSON")
        if self.phase is Phase.WAITING and not isinstance(message, Auth):
            return self._close(CloseCode.NOT_AUTHENTICATED, "the first message must be auth")
        return self._obey(message, wall)

    def _misshapen(self, data: bytes, err: msgspec.ValidationError) -> list[Action]:
        """JSON of another shape: perhaps of a newer client, so it is answered and the connection stays."""
        try:
            raw = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._close(CloseCode.PROTOCOL_ERROR, "not JSON")
        if not isinstance(raw, dict) or self.phase is Phase.WAITING:
            return self._close(CloseCode.PROTOCOL_ERROR, "not a message")
        given = raw.get("request_id")
        request_id = given if isinstance(given, str) and len(given) <= 64 else None
        return [Send(Error(code="invalid_message", detail=str(err), request_id=request_id))]

    def _obey(self, message: ClientMessage, wall: datetime) -> list[Action]:
        match message:
            case Auth(token=token):
                return [Verify(token)]
            case Subscribe():
                return self._subscribe(message)
            case Unsubscribe(mower_ids=mower_ids, request_id=request_id):
                gone = tuple(m for m in dict.fromkeys(mower_ids) if m in self.followed)
                self.followed.difference_update(gone)
                return [Send(Unsubscribed(mower_ids=gone, request_id=request_id))]
            case Drive(mower_id=mower_id) if not is_safe_id(mower_id):
                return [Send(Error(code="unauthorized", detail="no drive session is open"))]
            case Drive(mower_id=mower_id, frame=frame):
                return [Forward(MowerId(mower_id), frame)]
            case Ping(request_id=request_id):
                return [Send(Pong(server_time=wall, request_id=request_id))]
            case _:
                assert_never(message)

    def _subscribe(self, message: Subscribe) -> list[Action]:
        wanted = tuple(dict.fromkeys(message.mower_ids))
        if len(self.followed.union(wanted)) > self._max_subscriptions:
            error = Error(
                code="limit_exceeded",
                detail=f"at most {self._max_subscriptions} mowers",
                request_id=message.request_id,
            )
            return [Send(error), *self._close(CloseCode.TOO_MANY, "too many subscriptions")]
        safe = tuple(MowerId(m) for m in wanted if is_safe_id(m))
        denied = tuple(m for m in wanted if not is_safe_id(m))
        return [Check(mower_ids=safe, denied=denied, request_id=message.request_id, epoch=self._epoch)]

    # -- answers to Verify

    def verified(self, who: Principal, now: float, wall: datetime) -> list[Action]:
        """The token holds. The first one opens; a later one must be of the same subject and account."""
        if self.phase is Phase.CLOSED:
            return []
        if who.must_change_password:
            return self._close(CloseCode.NOT_AUTHENTICATED, "change the password first")
        if who.expires_at <= wall:
            return self._close(CloseCode.NOT_AUTHENTICATED, "the token has expired")
        before = self.principal
        if before is not None and (before.subject, before.account_id) != (who.subject, who.account_id):
            return self._close(CloseCode.NOT_AUTHENTICATED, "the token belongs to somebody else")
        if before is None:
            self._ping_due = now + limits.PROTOCOL_PING_S
            self._recheck_due = now + limits.RECHECK_S
        else:
            self.want_recheck(now)
        self.principal = who
        self.phase = Phase.OPEN
        whose = Identity(subject=who.subject, account_id=who.account_id, kind=who.kind, name=who.name)
        ready = Ready(
            connection_id=self.connection_id, principal=whose, token_expires_at=who.expires_at, server_time=wall
        )
        return [Send(ready)]

    def refused(self) -> list[Action]:
        """The token does not hold."""
        return self._close(CloseCode.NOT_AUTHENTICATED, "the token does not hold")

    def unverified(self) -> list[Action]:
        """The verifier could not answer: an open connection goes on until its token ends."""
        error = Send(Error(code="internal", detail="the token could not be verified now"))
        if self.phase is Phase.OPEN:
            return [error]
        return [error, *self._close(CloseCode.INTERNAL, "try again in a moment")]

    def crowded(self, detail: str) -> list[Action]:
        """The account or user has too many connections."""
        return [
            Send(Error(code="limit_exceeded", detail=detail)),
            *self._close(CloseCode.TOO_MANY, "too many connections"),
        ]

    # -- answers to Check and Recheck

    def checked(self, check: Check, answers: Sequence[bool], now: float) -> list[Action]:
        """Who may be followed. Rights that changed while the question was under way are asked for again."""
        if self.phase is not Phase.OPEN:
            return []
        allowed = tuple(m for m, may in zip(check.mower_ids, answers, strict=True) if may)
        refused = tuple(m for m, may in zip(check.mower_ids, answers, strict=True) if not may)
        self.followed.difference_update(refused)
        self.followed.update(allowed)
        if check.epoch != self._epoch:
            self.want_recheck(now)
        told = Subscribed(mower_ids=allowed, denied=(*refused, *check.denied), request_id=check.request_id)
        actions: list[Action] = [Send(told)]
        if allowed:
            actions.append(SendLast(allowed, check.request_id))
        return actions

    def unchecked(self, check: Check) -> list[Action]:
        """The authorizer could not answer: nobody is let in."""
        return [Send(Error(code="internal", detail="rights could not be checked now", request_id=check.request_id))]

    def want_recheck(self, now: float) -> None:
        """Rights may have changed."""
        self._epoch += 1
        self._recheck_due = now

    def rechecked(self, recheck: Recheck, answers: Sequence[bool]) -> list[Action]:
        """Rights as they are now; what was lost is told and no longer followed."""
        if self.phase is not Phase.OPEN:
            return []
        lost = tuple(m for m, may in zip(recheck.mower_ids, answers, strict=True) if not may and m in self.followed)
        self.followed.difference_update(lost)
        return [Send(Revoked(mower_ids=lost, reason="rights have ended"))] if lost else []

    def unrechecked(self, now: float) -> None:
        """The authorizer could not answer: an outage revokes nobody."""
        self._recheck_due = min(self._recheck_due, now + RECHECK_RETRY_S)

    # -- time

    def tick(self, now: float, wall: datetime) -> list[Action]:
        """What is due."""
        if self.phase is Phase.CLOSED:
            return []
        if self.principal is None:
            if now >= self._auth_due:
                return self._close(CloseCode.NOT_AUTHENTICATED, f"no auth within {limits.AUTH_DEADLINE_S:.0f} s")
            return []
        if wall >= self.principal.expires_at:
            return self._close(CloseCode.NOT_AUTHENTICATED, "the token has expired")
        if now >= self._silence_due:
            return self._close(CloseCode.SLOW_CONSUMER, "no answer to pings")
        actions: list[Action] = []
        if now >= self._ping_due:
            self._ping_due = now + limits.PROTOCOL_PING_S
            actions.append(PingPeer())
        if now >= self._recheck_due:
            self._recheck_due = now + limits.RECHECK_S
            if self.followed:
                actions.append(Recheck(tuple(sorted(self.followed))))
        return actions

    def due_in(self, now: float, wall: datetime) -> float:
        """Seconds until `tick` has something to do (0 or more). Compares the same numbers as `tick`, so that a shell
        which waits this long never spins."""
        if self.principal is None:
            return max(0.0, self._auth_due - now)
        times: Iterable[float] = (
            (self.principal.expires_at - wall).total_seconds(),
            self._silence_due - now,
            self._ping_due - now,
            self._recheck_due - now,
        )
        return max(0.0, min(times))

    def _close(self, code: CloseCode, reason: str) -> list[Action]:
        if self.phase is Phase.CLOSED:
            return []
        self.phase = Phase.CLOSED
        return [Close(code, reason)]
