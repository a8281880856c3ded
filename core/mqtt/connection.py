"""A connected, non-blocking socket, with TLS verified when asked for: cancellable, with one deadline for all of it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass

from core.domain.errors import UnavailableError

_ATTEMPT_S = 5.0
"""One address of several must not use up the whole deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Which authorities a TLS connection believes: these (PEM), or the system's when both are None."""

    ca_file: str | None = None
    ca_pem: str | None = None


async def connect_socket(host: str, port: int, *, trust: Trust | None, timeout_s: float) -> socket.socket:
    """Resolves, connects and (with `trust`) shakes hands, all within `timeout_s`; UnavailableError otherwise."""
    try:
        async with asyncio.timeout(timeout_s):
            sock = await _connect_any(host, port)
            if trust is None:
                return sock
            try:
                return await _shake_hands(sock, host, trust)
            except BaseException:
                sock.close()
                raise
    except ssl.SSLCertVerificationError as err:
        raise UnavailableError(
            f"the certificate of {host} does not hold: {err.verify_message}",
            hint="Check the broker's certificate and the CA file; verification cannot be switched off.",
        ) from err
    except TimeoutError as err:
        raise UnavailableError(f"{host}:{port} does not answer") from err
    except (OSError, UnicodeError) as err:  # ssl.SSLError is an OSError
        raise UnavailableError(f"cannot connect to {host}:{port}: {err}") from err


async def _connect_any(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError(f"no address for {host}")
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(0)  # non-blocking
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(_ATTEMPT_S):
                await loop.sock_connect(sock, address)
        except OSError as err:  # TimeoutError is one
            sock.close()
            failure = err
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


async def _shake_hands(sock: socket.socket, host: str, trust: Trust) -> ssl.SSLSocket:
    context = await asyncio.to_thread(ssl.create_default_context, cafile=trust.ca_file, cadata=trust.ca_pem)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    wrapped = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    try:
        while True:
            try:
                wrapped.do_handshake()
            except ssl.SSLWantReadError:
                await _ready(wrapped, for_writing=False)
            except ssl.SSLWantWriteError:
                await _ready(wrapped, for_writing=True)
            else:
                return wrapped
    except BaseException:
        wrapped.close()
        raise


async def _ready(sock: socket.socket, *, for_writing: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def arrive() -> None:
        if not ready.done():
            ready.set_result(None)

    fd = sock.fileno()
    if for_writing:
        loop.add_writer(fd, arrive)
    else:
        loop.add_reader(fd, arrive)
    try:
        await ready
    finally:
        if for_writing:
            loop.remove_writer(fd)
        else:
            loop.remove_reader(fd)
