"""A whole box in this process: `edge_agent.app.run` in a task, real SQLite, real sockets, and people who use it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from edge_agent.app import run
from edge_agent.settings import EdgeSettings

PASSWORD = "a lawn is a slow pond"
DEADLINE_S = 20.0


def settings_for(folder: Path, **fields: Any) -> EdgeSettings:
    """A box that nobody else can meet: a free port, no announcement."""
    given = {"listen_port": 0, "announce": False, "trust_clock": True, "name": "Shed", **fields}
    return EdgeSettings(data_dir=folder, **given)


class Person:
    """Somebody who uses the box's API."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url
        self.token = ""
        self.account_id = ""

    async def ask(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """The answer, which must have this status."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with self.http.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers) as answer:
            text = await answer.text()
            assert answer.status == status, f"{method} {path}: {answer.status} {text}"
            return json.loads(text) if text else None

    async def register(self, username: str = "anna") -> Person:
        body = {"username": username, "password": PASSWORD, "account_name": "Home"}
        await self.ask("POST", "/identity/register", body, status=201)
        return await self.sign_in(username)

    async def sign_in(self, username: str = "anna", password: str = PASSWORD) -> Person:
        pair = await self.ask("POST", "/identity/session", {"username": username, "password": password}, status=201)
        self.token, self.account_id = pair["access_token"], pair["account_id"]
        return self

    async def make_member(self, username: str, role: str) -> Person:
        """A sub-user who has already changed the first password."""
        first = "the first one, to be changed"
        level = {"type": "account", "id": self.account_id}
        body = {"username": username, "password": first, "assignments": [{"role": role, "level": level}]}
        await self.ask("POST", f"/identity/accounts/{self.account_id}/users", body, status=201)
        member = await Person(self.http, self.url).sign_in(username, first)
        change = {"current_password": first, "new_password": PASSWORD}
        await member.ask("POST", "/identity/me/password", change, status=204)
        return await member.sign_in(username)

    async def add(self, domain: str, **values: Any) -> str:
        """Walks a flow of one form; the id of the new entry."""
        flow = await self.ask("POST", "/config/flows", {"domain": domain}, status=201)
        done = await self.ask("POST", f"/config/flows/{flow['flow_id']}", {"user_input": values})
        assert done["result"]["type"] == "create_entry", done
        return str(done["result"]["entry_id"])

    async def add_simulator(self, name: str = "Shaun", seed: int = 7, **values: Any) -> dict[str, Any]:
        """A simulated mower that has reported; as the API shows it."""
        await self.add("simulator", name=name, seed=seed, time_scale=200.0, **values)
        return await self.mower(name)

    async def mower(self, name: str) -> dict[str, Any]:
        """The mower of that name, once it is there, can do something and is online."""

        async def look() -> dict[str, Any] | None:
            items = (await self.ask("GET", "/fleet/mowers"))["items"]
            mower = next((m for m in items if m["name"].startswith(name)), None)
            if mower is None or not any(mower["capabilities"].values()):
                return None
            state = await self.state(mower["mower_id"])
            return mower if state is not None and state["connectivity"] == "online" else None

        return dict(await until(look))

    async def entries(self) -> list[dict[str, Any]]:
        found = await self.ask("GET", "/config/entries")
        return list(found["items"])

    async def state(self, mower_id: str) -> dict[str, Any] | None:
        states = (await self.ask("GET", "/telemetry/states"))["items"]
        return next((s["state"] for s in states if s["mower_id"] == mower_id), None)

    async def see_state(self, mower_id: str, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            state = await self.state(mower_id)
            return state if state is not None and is_it(state) else None

        return dict(await until(look))

    async def command(self, mower_id: str, kind: str, **values: Any) -> dict[str, Any]:
        """Issues a command and waits for what becomes of it."""
        body = {"command": {"kind": kind, **values}}
        issued = await self.ask("POST", f"/fleet/mowers/{mower_id}/commands", body, status=202)

        async def look() -> dict[str, Any] | None:
            view = await self.ask("GET", f"/fleet/commands/{issued['command_id']}")
            return view if view["status"] not in {"pending", "accepted"} else None

        return dict(await until(look))


async def until(look: Callable[[], Any], pause_s: float = 0.02) -> Any:
    """Looks (a coroutine function) until something true comes."""
    async with asyncio.timeout(DEADLINE_S):
        while not (found := await look()):
            await asyncio.sleep(pause_s)
        return found


class RunningBox:
    """One life of a box."""

    def __init__(self, url: str, http: aiohttp.ClientSession, task: asyncio.Task[None]) -> None:
        self.url = url
        self.http = http
        self.task = task

    def person(self) -> Person:
        return Person(self.http, self.url)


@asynccontextmanager
async def running_box(settings: EdgeSettings) -> AsyncIterator[RunningBox]:
    """Starts a box, ends it as SIGTERM does, and demands that nothing of it is left."""
    tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
    ending = asyncio.Event()
    task = asyncio.create_task(run(settings, ending), name="the box")
    try:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
            yield RunningBox(await _address(settings, task), http, task)
            assert not task.done(), "the box has ended by itself"
    finally:
        ending.set()
        async with asyncio.timeout(DEADLINE_S):
            await task
    await asyncio.sleep(0)
    left = {one.get_name() for one in asyncio.all_tasks() - tasks - {task}}
    assert left == set(), "tasks outlive the box"
    assert {
        one.name for one in set(threading.enumerate()) - threads if not one.daemon and "asyncio" not in one.name
    } == set()
    assert not settings.address_path.exists()


async def _address(settings: EdgeSettings, task: asyncio.Task[None]) -> str:
    async with asyncio.timeout(DEADLINE_S):
        while not settings.address_path.exists():
            if task.done():
                task.result()
            await asyncio.sleep(0.01)
    return str(json.loads(settings.address_path.read_text())["url"])
