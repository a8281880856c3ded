"""`mowdeck drive`: one mower by the keys of the terminal, over the host's realtime socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Annotated, Any

import aiohttp
import msgspec
import typer

from core.command_line.host_client import HostClient
from core.command_line.joystick import FRAME_S, Key, KeyReader, Stick
from core.command_line.mowers import find_mower
from core.command_line.terminal import HostOption, console, errors, open_host, plain, told
from core.domain.drive import DriveEnd
from core.domain.errors import ConflictError, InvalidInputError, MowdeckError, UnavailableError

SIT_DOWN_S = 20.0
"""Until the mower is in manual mode."""
TICK_S = FRAME_S / 2
_FINAL = frozenset({"rejected", "executed", "expired", "failed"})
_HELP = "arrow keys or WASD: drive   space: stand   q: end"


def drive(
    mower: Annotated[str, typer.Argument(help="Name or id of the mower (or its unique beginning).")],
    speed: Annotated[float, typer.Option(min=0.1, max=1.0, help="Share of the mower's highest speed.")] = 0.6,
    host: HostOption = None,
) -> None:
    """Drive a mower by hand. It stands when no key is held, and when this program or the line ends."""
    with told(as_json=False):
        if not sys.stdin.isatty():
            raise InvalidInputError.of("stdin", "driving needs a terminal with a keyboard")
        with open_host(host) as client:
            target = find_mower(client, mower)
            if (target.get("capabilities") or {}).get("manual_drive") is None:
                raise ConflictError(f"{target['name']} cannot be driven by hand")
            keyboard = sys.stdin.fileno()
            with _key_by_key(keyboard):
                reason = asyncio.run(drive_by_keys(client, target, Stick(speed=speed), keyboard))
        console.print(f"{plain(target['name'])}: {plain(reason)}", soft_wrap=True)


@contextlib.contextmanager
def _key_by_key(descriptor: int) -> Iterator[None]:
    """The terminal gives each key at once and shows none."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def drive_by_keys(client: HostClient, target: dict[str, Any], stick: Stick, keyboard: int) -> str:
    """From the command to the end of its session; why it ended."""
    token = await asyncio.to_thread(lambda: client.token(is_refused=True))  # a session may last as long as a token
    async with aiohttp.ClientSession() as session:
        try:
            async with session.ws_connect(f"{client.host}/api/v1/realtime/ws", heartbeat=20) as socket:
                await socket.send_str(json.dumps({"type": "auth", "token": token}))
                await socket.send_str(json.dumps({"type": "subscribe", "mower_ids": [target["mower_id"]]}))
                return await Drive(client, socket, target, stick, keyboard).run()
        except (aiohttp.ClientError, OSError) as err:
            raise UnavailableError(f"connection lost ({err})") from err


class Drive:
    """One session, from its command to its end. `run` is its life; keys come from the descriptor `keyboard`."""

    def __init__(
        self,
        client: HostClient,
        socket: aiohttp.ClientWebSocketResponse,
        target: dict[str, Any],
        stick: Stick,
        keyboard: int,
    ) -> None:
        self._client = client
        self._socket = socket
        self._target = target
        self._stick = stick
        self._keyboard = keyboard
        self._keys = KeyReader()
        self._session_id = ""
        self._manual: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._told = ""

    @property
    def _mower_id(self) -> str:
        return str(self._target["mower_id"])

    async def run(self) -> str:
        """Why the session ended. ConflictError (somebody else drives), UnavailableError (no answer)."""
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self._listen(), name="drive listen")
            try:
                outcome = await self._sit()
            finally:
                listening.cancel()
                await self._end()
        if isinstance(outcome, MowdeckError):
            raise outcome
        return outcome

    async def _sit(self) -> str | MowdeckError:
        """An error is a value here: a group would wrap it."""
        try:
            await self._begin()
        except MowdeckError as err:
            return err
        return await self._steer()

    async def _begin(self) -> None:
        path = f"/fleet/mowers/{self._mower_id}/commands"
        issued = await asyncio.to_thread(self._client.post, path, {"command": {"kind": "manual_drive"}})
        self._session_id = str(issued["command_id"])
        errors.print("[dim]waiting for the mower ...[/]")
        awaited: set[asyncio.Future[Any]] = {self._manual, self._over}
        await asyncio.wait(awaited, timeout=SIT_DOWN_S, return_when=asyncio.FIRST_COMPLETED)
        if not self._over.done() and not self._manual.done():
            raise UnavailableError("the mower did not answer in time")

    async def _steer(self) -> str:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._keyboard, self._read_keys)
        errors.print(f"[bold]{_HELP}[/]")
        try:
            while not self._over.done():
                frame = self._stick.next_frame(loop.time())
                if frame is not None:
                    message = {"type": "drive", "mower_id": self._mower_id, "frame": msgspec.to_builtins(frame)}
                    await self._socket.send_str(json.dumps(message))
                await asyncio.wait({self._over}, timeout=TICK_S)
            return self._over.result()
        finally:
            loop.remove_reader(self._keyboard)

    def _read_keys(self) -> None:
        """The newest keys; the end of the input is the end of the drive."""
        for key in self._keys.read(os.read(self._keyboard, 64) or b"q"):
            if key is Key.QUIT:
                self._finish(DriveEnd.DRIVER.value)
            else:
                self._stick.press(key, asyncio.get_running_loop().time())

    async def _listen(self) -> None:
        async for frame in self._socket:
            if frame.type is aiohttp.WSMsgType.TEXT:
                self._hear(json.loads(frame.data))
        self._finish("the connection ended")

    def _hear(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "state" if self._session_id and message["state"]["activity"] == "manual":
                if not self._manual.done():
                    self._manual.set_result(None)
            case "command_result" if message["command_id"] == self._session_id and message["status"] in _FINAL:
                self._finish(message.get("reason") or message["status"])
            case "error" if not self._over.done() and message["detail"] != self._told:
                self._told = message["detail"]
                errors.print(f"[red]{plain(message['detail'])}[/]", highlight=False)

    def _finish(self, why: str) -> None:
        if not self._over.done():
            self._over.set_result(why)

    async def _end(self) -> None:
        """Ends the session on the host as well, whatever the reason here."""
        if not self._session_id:
            return
        path = f"/fleet/mowers/{self._mower_id}/drive-sessions/{self._session_id}"
        with contextlib.suppress(MowdeckError):  # over already, or out of reach: it ends there by itself
            await asyncio.to_thread(self._client.request, "DELETE", path)
