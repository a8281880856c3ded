"""Mosquitto as a child process that never outlives the relay."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import structlog

from cloud_relay.broker.mosquitto_files import parse_version
from core.domain.errors import Mistake, SettingsError, UnavailableError

_STOP_S = 5.0
_SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin"
_PR_SET_PDEATHSIG = 1
_NUDGE_S = 0.25
"""Mosquitto loses a SIGTERM that comes just after it says that it runs; so it is sent again."""
# Runs in the child and becomes Mosquitto. The kernel then kills it when the relay's main thread dies, however that
# happens. (SIGTERM could be lost, see above; what the broker had not saved yet, boxes and relay say again. A
# preexec_fn would run Python between fork and exec of a process with threads.)
_LEASH = f"""
import ctypes, os, sys
parent = int(sys.argv[1])
libc = ctypes.CDLL(None)
if hasattr(libc, "prctl"):
    libc.prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})
if os.getppid() != parent:
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

_log = structlog.get_logger(__name__)


def find_binary(name: str) -> str:
    """The program's path; SettingsError naming the package when it is not installed."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM_FOLDERS}")
    if found is None:
        raise SettingsError(
            mistakes=(Mistake(field="MOWDECK_RELAY_BROKER_BINARY", reason=f"there is no program {name}"),),
            hint="Install the Debian package mosquitto (sudo apt install mosquitto), or set MOWDECK_RELAY_BROKER=external.",
        )
    return found


async def read_version(binary: str) -> tuple[int, int, int]:
    """The version that the program says it is; SettingsError when it says nothing of the kind."""
    process = await asyncio.create_subprocess_exec(
        binary, "-h", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(10):
            output, _ = await process.communicate()
    except TimeoutError as err:
        raise UnavailableError(f"{binary} does not answer") from err
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    version = parse_version(output.decode(errors="replace"))
    if version is None or version < (2, 0, 0):
        raise SettingsError(
            mistakes=(Mistake(field="MOWDECK_RELAY_BROKER_BINARY", reason=f"{binary} is no Mosquitto 2"),)
        )
    return version


@asynccontextmanager
async def running_child(binary: str, config: Path, pid_file: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Mosquitto on `config`, its output on `stdout`; ended on leaving."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _LEASH, str(os.getpid()), binary, "-c", str(config)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        _note_pid(pid_file, process.pid)
        yield process
    finally:
        await _stop(process)
        _forget_pid(pid_file)


async def _stop(process: asyncio.subprocess.Process) -> None:
    try:
        for _ in range(int(_STOP_S / _NUDGE_S)):
            if await _ends(process, signal.SIGTERM):
                return
        _log.warning("broker does not stop", pid=process.pid)
    finally:
        while not await _ends(process, signal.SIGKILL):
            pass


async def _ends(process: asyncio.subprocess.Process, how: signal.Signals) -> bool:
    """Sends the signal; whether the process has ended a moment later."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(how)
    try:
        async with asyncio.timeout(_NUDGE_S):
            await process.wait()
    except TimeoutError:
        return False
    return True


async def end_stale(config: Path, pid_file: Path) -> None:
    """Ends a Mosquitto of an earlier life of this relay: the one that the pid file names, if its command line says
    that it runs on this very configuration. UnavailableError when it does not go."""
    pid = _noted_pid(pid_file)
    if pid is not None and runs_with(pid, config):
        _log.warning("ending a broker that an earlier relay left behind", pid=pid)
        for how in [*[signal.SIGTERM] * int(_STOP_S / _NUDGE_S), signal.SIGKILL, signal.SIGKILL]:
            try:
                os.kill(pid, how)
            except ProcessLookupError:
                break
            await asyncio.sleep(_NUDGE_S)
            if not runs_with(pid, config):
                break
        else:
            raise UnavailableError(f"the broker of an earlier relay (process {pid}) does not end")
    _forget_pid(pid_file)


def _note_pid(pid_file: Path, pid: int) -> None:
    pid_file.write_text(f"{pid}\n")


def _noted_pid(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text())
    except (OSError, ValueError):
        return None


def _forget_pid(pid_file: Path) -> None:
    pid_file.unlink(missing_ok=True)


def runs_with(pid: int, config: Path) -> bool:
    """Whether process `pid` is a Mosquitto on this very configuration."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return str(config).encode() in words and any(word.endswith(b"mosquitto") for word in words)
