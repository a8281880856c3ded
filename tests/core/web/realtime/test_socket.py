"""The realtime route with real sockets: what a viewer sees, and every way a connection ends."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import structlog
from aiohttp import ClientSession, TCPConnector, WSServerHandshakeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.domain import limits
from core.domain.access import Grant
from core.domain.commands import CommandResult, CommandStatus
from core.domain.drive import DriveFrame
from core.domain.errors import ForbiddenError, RateLimitedError
from core.domain.events import Docked, VendorMessage
from core.domain.ids import AccountId, CommandId, MowerId
from core.domain.mower import Activity
from core.identity.principal import Principal
from core.telemetry.rows import RecordRow
from core.web.realtime.messages import CloseCode
from core.web.realtime.viewer import wait_for
from core.web.route import mower_ref
from tests.core.web.realtime.world import ANNA, FOREIGN, MOWER, Peer, Realtime, serving
from tests.fakes.clock import START
from tests.fakes.tokens import make_principal


async def until(holds: Callable[[], bool]) -> None:
    """Lets the loop run until something holds."""
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0)


def result(status: CommandStatus = CommandStatus.EXECUTED) -> CommandResult:
    return CommandResult(command_id=CommandId("c1"), mower_id=MOWER, status=status, at=START)


# -- what a viewer sees


async def test_ready_says_who_and_until_when(realtime: Realtime) -> None:
    peer = await realtime.connect()
    ready = await peer.sign_in(realtime.verifier.issue(ANNA))
    assert ready["principal"] == {"subject": "anna", "account_id": "acc-a", "kind": "user", "name": "Anna"}
    assert ready["token_expires_at"] == "2026-06-02T08:00:00Z"
    assert ready["server_time"] == "2026-06-01T08:00:00Z"


async def test_a_subscriber_gets_the_last_state_at_once_and_then_each_new_one(realtime: Realtime) -> None:
    realtime.publish(activity=Activity.DOCKED)
    peer = await realtime.watching()
    assert (await peer.hear())["state"]["activity"] == "docked"
    realtime.publish(activity=Activity.LEAVING)
    assert (await peer.hear())["state"]["activity"] == "leaving"


async def test_unknown_and_foreign_mowers_are_denied_alike(realtime: Realtime) -> None:
    realtime.publish(FOREIGN, "acc-b")
    peer = await realtime.sign_in()
    told = await peer.subscribe(FOREIGN, "no-such-mower", "no id")
    assert told == {
        "type": "subscribed",
        "mower_ids": [],
        "denied": [FOREIGN, "no-such-mower", "no id"],
        "request_id": None,
    }
    realtime.publish(FOREIGN, "acc-b")
    await peer.settle()
    assert peer.backlog == []


async def test_the_last_state_comes_from_the_store_when_none_was_published(realtime: Realtime) -> None:
    realtime.stored.rows[MOWER] = realtime.live(activity=Activity.CHARGING)
    peer = await realtime.watching()
    assert (await peer.hear())["state"]["activity"] == "charging"


async def test_a_state_published_while_the_store_is_read_is_not_followed_by_an_older_one(realtime: Realtime) -> None:
    realtime.stored.rows[MOWER] = realtime.live(activity=Activity.CHARGING)
    realtime.stored.gate = asyncio.Event()
    peer = await realtime.watching()
    await realtime.stored.asked.wait()
    realtime.clock.advance(1)
    realtime.publish(activity=Activity.MOWING)
    assert (await peer.hear())["state"]["activity"] == "mowing"
    realtime.stored.gate.set()
    await peer.settle()
    assert peer.backlog == []


async def test_to_subscribe_again_sends_the_state_again(realtime: Realtime) -> None:
    realtime.publish()
    peer = await realtime.watching()
    await peer.hear("state")
    await peer.subscribe(MOWER)
    assert (await peer.hear())["type"] == "state"


async def test_after_unsubscribe_nothing_more_comes(realtime: Realtime) -> None:
    peer = await realtime.watching()
    await peer.say(type="unsubscribe", mower_ids=[MOWER])
    assert (await peer.hear("unsubscribed"))["mower_ids"] == [MOWER]
    realtime.publish()
    realtime.hub.publish_result(ANNA.account_id, result())
    await peer.settle()
    assert peer.backlog == []


async def test_results_and_events_reach_everybody_of_the_account_who_watches(realtime: Realtime) -> None:
    anna, ben = await realtime.watching(), await realtime.watching(make_principal("ben"))
    idle = await realtime.sign_in(make_principal("cora"))
    realtime.hub.publish_result(ANNA.account_id, result())
    realtime.hub.publish_event(ANNA.account_id, MOWER, Docked(at=START))
    for peer in (anna, ben):
        assert await peer.hear() == {
            "type": "command_result",
            "command_id": "c1",
            "mower_id": MOWER,
            "status": "executed",
            "at": "2026-06-01T08:00:00Z",
            "reason": None,
        }
        assert (await peer.hear())["event"] == {"kind": "docked", "at": "2026-06-01T08:00:00Z"}
    await idle.settle()
    assert idle.backlog == []


def record(body: bytes = b'{"n":1}', *, age: timedelta = timedelta(0)) -> RecordRow:
    at = START - timedelta(days=2)
    return RecordRow(mower_id=MOWER, kind="session", key="s1", at=at, updated_at=START - age, body=body)


async def test_records_that_are_news_reach_the_viewers_of_their_mower(realtime: Realtime) -> None:
    anna = await realtime.watching()
    old = record(age=limits.RECORD_NEWS + timedelta(seconds=1))
    large = record(b'{"n":"' + b"x" * (limits.RECORD_BYTES - 8) + b'"}')
    realtime.hub.publish_records(ANNA.account_id, [old, record(age=limits.RECORD_NEWS), large])
    realtime.hub.publish_records(AccountId("acc-b"), [record()])
    told = {"type": "record", "mower_id": MOWER, "kind": "session", "key": "s1", "at": "2026-05-30T08:00:00Z"}
    assert await anna.hear() == {**told, "updated_at": "2026-06-01T07:00:00Z", "body": {"n": 1}}
    assert await anna.hear() == {**told, "updated_at": "2026-06-01T08:00:00Z", "body": None}
    await anna.settle()
    assert anna.backlog == []


async def test_data_of_another_account_is_never_delivered_even_when_the_hub_is_told_so(realtime: Realtime) -> None:
    peer = await realtime.watching()
    other = AccountId("acc-b")
    realtime.publish(MOWER, other, activity=Activity.ERROR)
    realtime.hub.publish_result(other, result())
    realtime.hub.publish_event(other, MOWER, Docked(at=START))
    await peer.settle()
    assert peer.backlog == []
    told = await peer.subscribe(MOWER)
    assert told["mower_ids"] == [MOWER]
    await peer.settle()
    assert peer.backlog == [], "nor as the last state"


async def test_an_older_state_is_not_shown_after_a_newer(realtime: Realtime) -> None:
    peer = await realtime.watching()
    realtime.publish(activity=Activity.MOWING)
    await peer.hear("state")
    realtime.publish(activity=Activity.DOCKED, observed_at=START - timedelta(seconds=1))
    await peer.settle()
    assert peer.backlog == []


async def test_a_state_from_a_clock_that_ran_ahead_does_not_block_the_next(realtime: Realtime) -> None:
    peer = await realtime.watching()
    realtime.publish(observed_at=START + timedelta(days=7))
    await peer.hear("state")
    realtime.publish(activity=Activity.DOCKED)
    assert (await peer.hear("state"))["state"]["activity"] == "docked"


async def test_a_removed_mower_is_forgotten_and_its_viewers_lose_it(realtime: Realtime) -> None:
    realtime.publish()
    peer = await realtime.watching()
    await peer.hear("state")
    realtime.authorizer.forbid(ANNA, mower_ref(MOWER))
    realtime.hub.forget(MOWER)
    assert (await peer.hear())["mower_ids"] == [MOWER]
    assert realtime.hub.known(ANNA.account_id, [MOWER]) == []


async def test_last_values_are_bounded() -> None:
    async with serving(hub={"last_values": 2}) as realtime:
        for name in ("m1", "m2", "m3"):
            realtime.publish(MowerId(name))
        known = realtime.hub.known(ANNA.account_id, [MowerId(m) for m in ("m1", "m2", "m3")])
        assert [live.mower_id for live in known] == ["m2", "m3"]


# -- rights


async def test_a_right_that_is_taken_away_ends_the_subscription_at_once(realtime: Realtime) -> None:
    anna, ben = await realtime.watching(), await realtime.watching(make_principal("ben"))
    realtime.authorizer.forbid(ANNA, mower_ref(MOWER))
    realtime.hub.grants_changed([ANNA.subject])
    assert await anna.hear() == {"type": "revoked", "mower_ids": [MOWER], "reason": "rights have ended"}
    realtime.publish()
    await anna.settle()
    assert anna.backlog == []
    assert (await ben.hear())["type"] == "state"


async def test_rights_are_asked_for_again_every_minute(realtime: Realtime) -> None:
    peer = await realtime.watching()
    realtime.authorizer.forbid(ANNA, mower_ref(MOWER))
    await peer.settle()
    for _ in range(3):
        await realtime.wait.advance(limits.RECHECK_S / 3)
        await peer.settle()
    assert [m["type"] for m in peer.backlog] == ["revoked"]


async def test_an_outage_of_the_authorizer_revokes_nobody(realtime: Realtime) -> None:
    peer = await realtime.watching()
    realtime.authorizer.is_down = True
    realtime.hub.grants_changed(None)
    await until(lambda: len(realtime.authorizer.asked) == 2)
    realtime.publish()
    assert (await peer.hear())["type"] == "state"
    error = await _subscribe_error(peer)
    assert error["code"] == "internal"
    realtime.authorizer.is_down = False
    realtime.authorizer.forbid(ANNA, mower_ref(MOWER))
    await realtime.wait.advance(5)
    assert (await peer.hear())["type"] == "revoked"


async def _subscribe_error(peer: Peer) -> dict[str, Any]:
    await peer.say(type="subscribe", mower_ids=["other"], request_id="r")
    return await peer.hear("error")


async def test_a_right_taken_away_while_it_is_asked_for_does_not_stay(realtime: Realtime) -> None:
    realtime.authorizer.allow(ANNA, mower_ref(MOWER), Grant.VIEW)
    peer = await realtime.sign_in()
    realtime.authorizer.gate = asyncio.Event()
    await peer.say(type="subscribe", mower_ids=[MOWER])
    await until(lambda: len(realtime.authorizer.asked) == 1)
    realtime.authorizer.forbid(ANNA, mower_ref(MOWER))
    realtime.hub.grants_changed([ANNA.subject])
    realtime.authorizer.gate.set()
    assert (await peer.hear())["type"] == "subscribed"
    assert (await peer.hear())["type"] == "revoked"


# -- joystick


class Desk:
    """A drive desk with one open session."""

    def __init__(self) -> None:
        self.frames: list[tuple[str, DriveFrame]] = []
        self.driven_over: set[str] = set()
        self.closed: asyncio.Queue[str] = asyncio.Queue()

    async def drive(self, who: Principal, mower_id: MowerId, frame: DriveFrame, *, connection_id: str) -> None:
        if mower_id != MOWER:
            raise ForbiddenError("no drive session is open")
        if frame.sequence == 0:
            raise RateLimitedError("too many frames", retry_after_s=1.0)
        self.frames.append((who.subject, frame))
        self.driven_over.add(connection_id)

    async def close(self, connection_id: str) -> None:
        self.closed.put_nowait(connection_id)


async def test_joystick_frames_need_an_open_session(realtime: Realtime) -> None:
    frame = {"sequence": 1, "linear": 0.5, "angular": 0.0}
    peer = await realtime.sign_in()
    await peer.say(type="drive", mower_id=MOWER, frame=frame)
    error = await peer.hear()
    assert (error["code"], error["detail"]) == ("unauthorized", "no drive session is open")
    desk = Desk()
    async with serving(parts={"drive_desk": desk}) as other:
        peer = await other.sign_in()
        await peer.say(type="drive", mower_id=MOWER, frame=frame)
        await peer.say(type="drive", mower_id=FOREIGN, frame=frame)
        assert (await peer.hear())["code"] == "unauthorized"
        assert desk.frames == [("anna", DriveFrame(sequence=1, linear=0.5, angular=0.0))]
        await peer.say(type="drive", mower_id=MOWER, frame={**frame, "sequence": 0})
        assert (await peer.hear())["code"] == "limit_exceeded"


@pytest.mark.parametrize("how", ["goodbye", "cut", "signed out", "bug"])
async def test_the_drive_desk_hears_of_the_end_of_a_connection(how: str) -> None:
    desk = Desk()
    async with serving(parts={"drive_desk": desk}) as realtime, asyncio.timeout(5):
        peer = await realtime.sign_in()
        await peer.say(type="drive", mower_id=MOWER, frame={"sequence": 1, "linear": 0.5, "angular": 0.0})
        await peer.settle()
        match how:
            case "goodbye":
                await peer.socket.close()
            case "cut":
                peer.socket._response.connection.transport.abort()
            case "signed out":
                realtime.hub.sign_out(lambda _: True)
            case _:
                await peer.say(
                    type="drive", mower_id=MOWER, frame={"sequence": 1, "linear": 0.5, "angular": "x" * 20_000}
                )
        assert {await desk.closed.get()} == desk.driven_over


# -- every close code


async def test_4401_without_auth_in_time(realtime: Realtime) -> None:
    peer = await realtime.connect()
    await until(lambda: realtime.wait.is_waiting)
    await realtime.wait.advance(limits.AUTH_DEADLINE_S)
    assert await peer.closed() == CloseCode.NOT_AUTHENTICATED


async def test_4401_for_a_wrong_token(realtime: Realtime) -> None:
    peer = await realtime.connect()
    await peer.say(type="auth", token="wrong")
    assert await peer.closed() == CloseCode.NOT_AUTHENTICATED


async def test_4401_when_the_token_expires_without_refresh(realtime: Realtime) -> None:
    short = make_principal("anna", expires_at=START + timedelta(seconds=15))
    peer = await realtime.sign_in(short)
    fresh = await realtime.sign_in(short)
    longer = make_principal("anna", expires_at=START + timedelta(seconds=60))
    await fresh.sign_in(realtime.verifier.issue(longer))
    await fresh.settle()
    await realtime.wait.advance(15)
    assert await peer.closed() == CloseCode.NOT_AUTHENTICATED
    await fresh.settle()


@pytest.mark.parametrize("other", [make_principal("ben"), make_principal("anna", "acc-b")])
async def test_4401_when_somebody_else_refreshes(realtime: Realtime, other: Principal) -> None:
    peer = await realtime.sign_in()
    await peer.say(type="auth", token=realtime.verifier.issue(other))
    assert await peer.closed() == CloseCode.NOT_AUTHENTICATED


async def test_4401_when_the_session_is_revoked(realtime: Realtime) -> None:
    anna, ben = await realtime.sign_in(), await realtime.sign_in(make_principal("ben"))
    assert realtime.hub.sign_out(lambda who: who.session_id == ANNA.session_id) == 1
    assert await anna.closed() == CloseCode.NOT_AUTHENTICATED
    await ben.settle()


@pytest.mark.parametrize("frame", ["", "{", "[]", "nonsense"])
async def test_4400_for_what_is_not_a_message(realtime: Realtime, frame: str) -> None:
    peer = await realtime.sign_in()
    await peer.socket.send_str(frame)
    assert await peer.closed() == CloseCode.PROTOCOL_ERROR


async def test_4400_for_binary(realtime: Realtime) -> None:
    peer = await realtime.sign_in()
    await peer.socket.send_bytes(b'{"type": "ping"}')
    assert await peer.closed() == CloseCode.PROTOCOL_ERROR


@pytest.mark.parametrize("size", [limits.FRAME_BYTES + 1, 1_000_000])
async def test_1009_for_a_frame_that_is_too_big(realtime: Realtime, size: int) -> None:
    peer = await realtime.sign_in()
    await peer.socket.send_str(json.dumps({"type": "ping"}).ljust(size))
    assert await peer.closed() == CloseCode.TOO_BIG


async def test_4429_for_too_many_connections_of_a_user() -> None:
    async with serving(hub={"connections_per_user": 2}) as realtime:
        first, _second = await realtime.sign_in(), await realtime.sign_in()
        third = await realtime.connect()
        await third.say(type="auth", token=realtime.verifier.issue(ANNA))
        assert (await third.hear())["code"] == "limit_exceeded"
        assert await third.closed() == CloseCode.TOO_MANY
        await realtime.sign_in(make_principal("ben"))
        await first.socket.close()
        await realtime.sign_in()


async def test_4429_for_too_many_connections_of_an_account() -> None:
    async with serving(hub={"connections_per_account": 2}) as realtime:
        _peers = [await realtime.sign_in(make_principal(name)) for name in ("anna", "ben")]
        third = await realtime.connect()
        await third.say(type="auth", token=realtime.verifier.issue(make_principal("cora")))
        assert await third.closed() == CloseCode.TOO_MANY
        await realtime.sign_in(make_principal("dan", "acc-b"))


async def test_4429_for_too_many_subscriptions(realtime: Realtime) -> None:
    peer = await realtime.sign_in()
    await peer.subscribe(*(f"m{n}" for n in range(limits.SUBSCRIPTIONS)))
    await peer.say(type="subscribe", mower_ids=[f"m{n}" for n in range(limits.SUBSCRIPTIONS + 1)])
    assert (await peer.hear())["code"] == "limit_exceeded"
    assert await peer.closed() == CloseCode.TOO_MANY


async def test_1011_when_the_verifier_cannot_be_asked(realtime: Realtime) -> None:
    realtime.verifier.is_down = True
    peer = await realtime.connect()
    await peer.say(type="auth", token="t")
    assert (await peer.hear())["code"] == "internal"
    assert await peer.closed() == CloseCode.INTERNAL


async def test_1011_for_a_bug_which_ends_one_connection_only() -> None:
    class Broken(Desk):
        async def drive(self, who: Principal, mower_id: MowerId, frame: DriveFrame, *, connection_id: str) -> None:
            raise KeyError("bug")

    async with serving(parts={"drive_desk": Broken()}) as realtime:
        peer, other = await realtime.sign_in(), await realtime.sign_in(make_principal("ben"))
        with structlog.testing.capture_logs() as logs:
            await peer.say(type="drive", mower_id=MOWER, frame={"sequence": 1, "linear": 0, "angular": 0})
            assert await peer.closed() == CloseCode.INTERNAL
        assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["realtime connection broke"]
        await other.settle()


async def test_1001_for_everybody_at_shutdown(realtime: Realtime) -> None:
    signed_in, waiting = await realtime.sign_in(), await realtime.connect()
    await until(lambda: realtime.wait.is_waiting)
    closing = asyncio.gather(signed_in.closed(), waiting.closed())
    await realtime.hub.close()
    assert await closing == [CloseCode.SHUTDOWN, CloseCode.SHUTDOWN]
    with pytest.raises(WSServerHandshakeError) as refused:
        await realtime.connect()
    assert refused.value.status == 503


# -- slow viewers


async def slow_peer(realtime: Realtime) -> tuple[Peer, ClientSession]:
    """A viewer with small buffers that does not read."""

    def small(info: Any) -> socket.socket:
        made = socket.socket(info[0], info[1], info[2])
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        return made

    session = ClientSession(connector=TCPConnector(socket_factory=small))
    realtime.authorizer.allow(ANNA, mower_ref(MOWER), Grant.VIEW)
    peer = Peer(await session.ws_connect(realtime.url))
    await peer.sign_in(realtime.verifier.issue(ANNA))
    await peer.subscribe(MOWER)
    return peer, session


def closes(realtime: Realtime, code: CloseCode) -> float:
    return float(realtime.hub.closed.labels(code.name.lower())._value.get())


async def test_4430_when_too_much_waits_while_the_publisher_never_does() -> None:
    async with serving(parts={"goodbye_s": 2.0}) as realtime:
        peer, session = await slow_peer(realtime)
        fast = await realtime.watching(make_principal("ben"))
        event = VendorMessage(at=START, code="x", text="y" * 8000)
        published = 0
        while not closes(realtime, CloseCode.SLOW_CONSUMER) and published < 3000:
            realtime.hub.publish_event(ANNA.account_id, MOWER, event)
            published += 1
            assert (await fast.hear())["type"] == "event"
        assert 256 < published < 3000
        async with session:
            assert await peer.closed() == CloseCode.SLOW_CONSUMER
        assert 0 < len(peer.backlog) < published


async def test_4430_when_one_send_takes_too_long() -> None:
    async with serving(parts={"send_deadline_s": 0.2, "goodbye_s": 2.0}) as realtime:
        peer, session = await slow_peer(realtime)
        published = 0
        while not closes(realtime, CloseCode.SLOW_CONSUMER):
            realtime.publish(raw={"x": "y" * 8000, "n": str(published)})
            published += 1
            await asyncio.sleep(0.001)
        async with session:
            assert await peer.closed() == CloseCode.SLOW_CONSUMER


async def test_a_viewer_that_never_reads_is_cut_and_leaves_nothing_behind() -> None:
    async with serving(parts={"send_deadline_s": 0.1, "goodbye_s": 0.1}) as realtime:
        peer, session = await slow_peer(realtime)
        async with session:
            while realtime.hub.count:
                realtime.publish(raw={"x": "y" * 8000})
                await asyncio.sleep(0.001)
            assert closes(realtime, CloseCode.SLOW_CONSUMER) == 1
            assert await peer.closed() in {1006, CloseCode.SLOW_CONSUMER}


async def test_states_are_conflated_for_a_slow_viewer_and_the_newest_arrives() -> None:
    async with serving() as realtime:
        peer, session = await slow_peer(realtime)
        async with session:
            total = 2000
            for n in range(total):
                realtime.publish(raw={"x": "y" * 2000, "n": str(n)})
                await asyncio.sleep(0)
            seen = []
            while not seen or seen[-1] != total - 1:
                seen.append(int((await peer.hear("state"))["state"]["raw"]["n"]))
            assert seen == sorted(seen)
            assert len(seen) < total / 2
            await peer.settle()


# -- keeping it alive


async def test_it_pings_and_ends_a_peer_that_never_answers(realtime: Realtime) -> None:
    peer = Peer(await realtime.session.ws_connect(realtime.url, autoping=False))
    await peer.sign_in(realtime.verifier.issue(ANNA))
    pings = 0
    async with asyncio.timeout(5):
        for _ in range(2):
            await until(lambda: realtime.wait.is_waiting)
            await realtime.wait.advance(limits.PROTOCOL_PING_S)
            message = await peer.socket.receive()
            pings += message.type.name == "PING"
        await until(lambda: realtime.wait.is_waiting)
        await realtime.wait.advance(limits.PROTOCOL_PING_S)
    assert pings == 2
    assert await peer.closed() == CloseCode.SLOW_CONSUMER


async def test_an_idle_peer_that_answers_pings_stays(realtime: Realtime) -> None:
    peer = await realtime.watching()

    async def read() -> dict[str, Any]:
        return await peer.hear("state")

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read(), name="reading")
        for _ in range(10):
            await until(lambda: realtime.wait.is_waiting)
            await realtime.wait.advance(limits.PROTOCOL_PING_S)
            await asyncio.sleep(0.005)  # a pong travels over a real socket
        realtime.publish()
    assert reading.result()["type"] == "state"


async def test_a_protocol_ping_of_the_peer_is_answered(realtime: Realtime) -> None:
    peer = Peer(await realtime.session.ws_connect(realtime.url, autoping=False))
    await peer.socket.ping(b"hello")
    message = await peer.socket.receive(timeout=5)
    assert (message.type.name, bytes(message.data)) == ("PONG", b"hello")


async def test_connections_that_end_leave_nothing_behind(realtime: Realtime) -> None:
    peers = [await realtime.watching() for _ in range(3)]
    assert realtime.hub.count == 3
    await peers[0].socket.close()
    peers[1].socket._response.connection.transport.abort()  # type: ignore[union-attr]
    await peers[2].socket.send_str("{")
    await peers[2].closed()
    await until(lambda: realtime.hub.count == 0)
    assert realtime.hub._by_mower == {}
    assert realtime.hub._by_account == {}
    assert realtime.hub._waiting == {}


# -- the handshake


async def test_pages_of_other_origins_are_refused_when_configured() -> None:
    async with serving(socket={"allowed_origins": ["https://app.example"]}) as realtime:
        with pytest.raises(WSServerHandshakeError) as refused:
            await realtime.connect(origin="https://evil.example")
        assert refused.value.status == 403
        await realtime.connect(origin="https://app.example")
        await realtime.connect()


async def test_a_token_in_the_url_is_refused(realtime: Realtime) -> None:
    with pytest.raises(WSServerHandshakeError) as refused:
        await realtime.session.ws_connect(realtime.url + "?token=abc")
    assert refused.value.status == 422


async def test_what_is_no_handshake_is_a_problem(realtime: Realtime) -> None:
    async with realtime.session.get(realtime.url) as response:
        assert response.status == 400
        assert response.content_type == "application/problem+json"


async def test_the_real_wait_ends_with_the_event_or_the_time() -> None:
    event = asyncio.Event()
    await wait_for(event, 0.01)
    event.set()
    await wait_for(event, 60)


# -- whatever comes

frames = st.one_of(
    st.text(max_size=20),
    st.binary(max_size=20),
    st.builds(
        lambda **m: json.dumps(m),
        type=st.sampled_from(["auth", "subscribe", "unsubscribe", "drive", "ping", "other"]),
        token=st.sampled_from(["good", "bad"]),
        mower_ids=st.lists(st.sampled_from([MOWER, FOREIGN, "", "\x00"]), max_size=3),
        mower_id=st.just(MOWER),
        frame=st.none() | st.just({"sequence": 1, "linear": 2.0, "angular": 0.0}),
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(frames, min_size=1, max_size=8), st.booleans())
def test_whatever_comes_only_the_rules_close_it(sent: list[str | bytes], is_signed_in: bool) -> None:
    async def run() -> None:
        async with serving() as realtime:
            realtime.verifier.issue(ANNA, "good")
            realtime.authorizer.allow(ANNA, mower_ref(MOWER), Grant.VIEW)
            peer = await realtime.connect()
            if is_signed_in:
                await peer.sign_in("good")
            for frame in sent:
                if isinstance(frame, bytes):
                    await peer.socket.send_bytes(frame)
                else:
                    await peer.socket.send_str(frame)
            await peer.socket.send_str("this ends it")
            assert await peer.closed() in {CloseCode.PROTOCOL_ERROR, CloseCode.NOT_AUTHENTICATED}

    with structlog.testing.capture_logs() as logs:
        asyncio.run(run())
    assert not [entry for entry in logs if entry["log_level"] in {"error", "critical"}]
