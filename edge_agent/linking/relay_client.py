"""The box's side of the device flow: three requests to the relay over HTTPS (plain HTTP only to this machine)."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from core.domain.errors import ConflictError, InvalidInputError, MowdeckError, RateLimitedError, UnavailableError
from core.sync.linking import LinkEnd, LinkGrant, LinkOffer, LinkPending, LinkPoll, LinkRequest

DEADLINE_S = 15.0
ANSWER_BYTES = 64 * 1024
INTERVAL_MAX_S = 300
EXPIRES_MAX_S = 86_400
RETRY_AFTER_MAX_S = 3_600.0
_USER_CODE = re.compile(r"[A-Za-z0-9-]{1,32}")
_NO_RELAY = "Check the address: this does not look like a Mowdeck relay."
T = TypeVar("T")


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an RFC 9457 answer that a person needs."""

    title: str = ""
    detail: str = ""


def check_relay_url(url: str) -> str:
    """The address without its trailing slash. InvalidInputError unless it is HTTPS, or HTTP on loopback: the
    credential and the keys that the box will obey travel over it."""
    parts = urlsplit(url.strip())
    host = parts.hostname or ""
    if parts.scheme == "https" and host:
        return url.strip().rstrip("/")
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if parts.scheme == "http" and is_loopback:
        return url.strip().rstrip("/")
    raise InvalidInputError.of("relay_url", "must be an https address (http only for a relay on this machine)")


class RelayClient:
    """Requests of the link; each has a deadline, follows no redirect, and raises MowdeckError."""

    def __init__(self, session: aiohttp.ClientSession, relay_url: str) -> None:
        self._session = session
        self._base = f"{check_relay_url(relay_url)}/api/v1/edges/link"

    async def ask(self, request: LinkRequest) -> LinkOffer:
        """Begins a link. ConflictError when the relay has this box linked already."""
        _status, data = await self._send("POST", "", request, expected=(200, 201))
        offer = _decode(data, LinkOffer)
        _check_offer(offer)
        return offer

    async def poll(self, device_code: str) -> LinkGrant | LinkPending:
        """Whether somebody has confirmed."""
        status, data = await self._send("POST", "/token", LinkPoll(device_code=device_code), expected=(200, 400))
        return _decode(data, LinkGrant) if status == 200 else _decode(data, LinkPending)

    async def end(self, request: LinkEnd) -> None:
        """Ends the link on the relay. An unknown credential means that it has ended already."""
        await self._send("DELETE", "", request, expected=(204, 401))

    async def _send(
        self, method: str, path: str, body: msgspec.Struct, *, expected: tuple[int, ...]
    ) -> tuple[int, bytes]:
        try:
            async with (
                asyncio.timeout(DEADLINE_S),
                self._session.request(
                    method,
                    self._base + path,
                    data=msgspec.json.encode(body),
                    headers={"Content-Type": "application/json"},
                    allow_redirects=False,
                ) as answer,
            ):
                data = await _read(answer)
                if answer.status in expected:
                    return answer.status, data
                raise _error_of(answer.status, data, answer.headers.get("Retry-After"))
        except (aiohttp.ClientError, TimeoutError, OSError) as err:
            raise UnavailableError(f"the relay does not answer: {str(err) or 'no answer in time'}") from err


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """The body, cut at ANSWER_BYTES (it comes in pieces, and a longer one is none of ours)."""
    data = bytearray()
    while len(data) < ANSWER_BYTES:
        piece = await answer.content.read(ANSWER_BYTES - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def _check_offer(offer: LinkOffer) -> None:
    """UnavailableError for numbers that the box would hammer the relay or wait for ever by, and for texts that are
    not what they are shown as."""
    is_sound = (
        1 <= offer.interval <= INTERVAL_MAX_S
        and 1 <= offer.expires_in <= EXPIRES_MAX_S
        and _USER_CODE.fullmatch(offer.user_code) is not None
        and all(
            urlsplit(uri).scheme in {"http", "https"}
            for uri in (offer.verification_uri, offer.verification_uri_complete)
        )
    )
    if not is_sound:
        raise UnavailableError("the relay's offer makes no sense", hint=_NO_RELAY)


def _seconds_of(retry_after: str | None) -> float:
    """A Retry-After as a wait that can be waited; a minute without a sensible one."""
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit():
        return 60.0
    return min(float(retry_after[:9]), RETRY_AFTER_MAX_S)


def _error_of(status: int, data: bytes, retry_after: str | None) -> MowdeckError:
    try:
        problem = msgspec.json.decode(data, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        problem = _Problem()
    text = problem.detail or problem.title or f"the relay answered {status}"
    if status == 409:
        return ConflictError(text)
    if status == 429:
        return RateLimitedError(text, retry_after_s=_seconds_of(retry_after))
    hint = _NO_RELAY if status in {301, 302, 404, 405} else None
    return UnavailableError(f"{text} ({status})", hint=hint)


def _decode(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise UnavailableError(
            f"the relay's answer is not understood: {err}", hint="Compare the versions of box and relay."
        ) from err
