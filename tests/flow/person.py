"""A person in a test: an account's user with an HTTP client and, when wanted, a realtime socket."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import httpx

PASSWORD = "a lawn is a slow pond"


class Person:
    """Speaks to one host. `get` and the like demand success; `ask` gives the raw answer."""

    def __init__(self, url: str, username: str) -> None:
        self.url = url
        self.username = username
        self.http = httpx.Client(base_url=f"{url}/api/v1", timeout=30)
        self._members: list[Person] = []
        self.account_id = ""
        self.user_id = ""

    def close(self) -> None:
        for member in self._members:
            member.close()
        self.http.close()

    def register(self, account_name: str) -> Person:
        body = {"username": self.username, "password": PASSWORD, "account_name": account_name}
        self.ask("POST", "/identity/register", body).raise_for_status()
        return self.sign_in(PASSWORD)

    def sign_in(self, password: str = PASSWORD) -> Person:
        answer = self.ask("POST", "/identity/session", {"username": self.username, "password": password})
        assert answer.status_code == 201, answer.text
        pair = answer.json()
        self.account_id, self.user_id = pair["account_id"], pair["user_id"]
        self.http.headers["Authorization"] = f"Bearer {pair['access_token']}"
        return self

    @property
    def token(self) -> str:
        return self.http.headers["Authorization"].removeprefix("Bearer ")

    def make_member(self, username: str, role: str) -> Person:
        """A sub-user of this owner's account, who has changed the first password."""
        first = "the first one, to be changed"
        level = {"type": "account", "id": self.account_id}
        body = {"username": username, "password": first, "assignments": [{"role": role, "level": level}]}
        self.post(f"/identity/accounts/{self.account_id}/users", body)
        member = Person(self.url, username)
        self._members.append(member)
        member.sign_in(first)
        assert member.ask("GET", "/fleet/mowers").status_code == 403  # nothing before the password is changed
        member.ask(
            "POST", "/identity/me/password", {"current_password": first, "new_password": PASSWORD}
        ).raise_for_status()
        return member.sign_in()

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.http.request(method, path, json=body)

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(path, params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def post(self, path: str, body: Any) -> Any:
        answer = self.ask("POST", path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def command(self, mower_id: str, kind: str, **values: Any) -> httpx.Response:
        return self.ask("POST", f"/fleet/mowers/{mower_id}/commands", {"command": {"kind": kind, **values}})

    def await_command(self, command_id: str, *wanted: str, timeout_s: float = 40) -> dict[str, Any]:
        return until(
            lambda: self.get(f"/fleet/commands/{command_id}"), lambda c: c["status"] in wanted, timeout_s=timeout_s
        )

    def await_state(self, mower_id: str, *activities: str, timeout_s: float = 40) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            answer = self.ask("GET", f"/telemetry/mowers/{mower_id}/state")
            return answer.json() if answer.status_code == 200 else None

        return until(look, lambda s: s is not None and s["state"]["activity"] in activities, timeout_s=timeout_s)

    @asynccontextmanager
    async def socket(self) -> AsyncIterator[Socket]:
        """An authenticated realtime socket."""
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{self.url}/api/v1/realtime/ws") as ws:
            await ws.send_json({"type": "auth", "token": self.token})
            socket = Socket(ws)
            await socket.see(lambda m: m["type"] == "ready")
            yield socket


class Socket:
    """A realtime socket; everything that has arrived is kept in `seen`."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.seen: list[dict[str, Any]] = []

    async def say(self, **message: Any) -> None:
        await self.ws.send_str(json.dumps(message))

    async def see(self, is_it: Callable[[dict[str, Any]], bool], timeout_s: float = 30) -> dict[str, Any]:
        async with asyncio.timeout(timeout_s):
            while True:
                frame = await self.ws.receive()
                assert frame.type is aiohttp.WSMsgType.TEXT, f"closed: {self.ws.close_code}; saw {self.seen[-3:]}"
                message = json.loads(frame.data)
                self.seen.append(message)
                if is_it(message):
                    return message

    async def see_state(self, *activities: str, timeout_s: float = 40) -> dict[str, Any]:
        return await self.see(
            lambda m: m["type"] == "state" and m["state"]["activity"] in activities, timeout_s=timeout_s
        )

    async def see_result(self, command_id: str, status: str, timeout_s: float = 40) -> dict[str, Any]:
        def is_it(message: dict[str, Any]) -> bool:
            if message["type"] != "command_result" or message["command_id"] != command_id:
                return False
            assert message["status"] in {"accepted", status}, message
            return message["status"] == status

        return await self.see(is_it, timeout_s=timeout_s)

    async def listen(self, seconds: float) -> list[dict[str, Any]]:
        """Everything that arrives in that time."""
        begun = len(self.seen)
        with suppress(TimeoutError):
            await self.see(lambda _: False, timeout_s=seconds)
        return self.seen[begun:]


def until(look: Callable[[], Any], is_so: Callable[[Any], bool] = bool, *, timeout_s: float = 40) -> Any:
    """Looks again and again until it is so."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if is_so(found):
            return found
        assert time.monotonic() < deadline, f"not within {timeout_s} s; last: {found}"
        time.sleep(0.1)
