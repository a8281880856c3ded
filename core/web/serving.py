"""A host's web server: bound before anything else is started, served while the rest runs, announced in a file."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from core.domain.errors import SettingsError

log = structlog.get_logger(__name__)

SHUTDOWN_S = 10.0
"""Requests that still run when the host ends have this long."""
BACKLOG = 1024
IDLE_S = 75.0
"""A connection without a whole request is closed after this: longer than a proxy keeps its own (nginx: 60 s), and far
shorter than aiohttp's hour, in which strangers could use up all file descriptors."""


def bind(host: str, port: int, *, section: str) -> socket.socket:
    """A bound socket (port 0: a free one). SettingsError, naming the settings of `section`, when the address cannot
    be had."""
    prefix = f"MOWDECK_{section.upper()}"
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as err:
        raise SettingsError.of(f"{prefix}_LISTEN_HOST", f"{host} is no address of this machine") from err
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.settimeout(0)
    except OSError as err:
        sock.close()
        reason = f"cannot listen on {host} port {port}: {err.strerror}"
        raise SettingsError.of(f"{prefix}_LISTEN_PORT", reason) from err
    return sock


def url_of(sock: socket.socket) -> str:
    """The address under which this machine reaches the socket."""
    host, port = sock.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:
        host = "127.0.0.1" if sock.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@asynccontextmanager
async def serve(app: web.Application, sock: socket.socket, *, idle_s: float = IDLE_S) -> AsyncIterator[None]:
    """Serves while the body runs; then waits for running requests and closes."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S, keepalive_timeout=idle_s)
    await runner.setup()
    try:
        await web.SockSite(runner, sock, backlog=BACKLOG).start()
        yield
    finally:
        await runner.cleanup()


@contextmanager
def announced(path: Path, address: dict[str, Any]) -> Iterator[None]:
    """Says in a file, for tools on this machine, where the host listens, while it does. A disk that does not take the
    file (it is full) must not keep a host from serving."""
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.write_text(json.dumps({**address, "pid": os.getpid()}), encoding="utf-8")
        draft.replace(path)
    except OSError as err:
        log.warning("where the host listens cannot be written down", path=str(path), error=err.strerror)
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
