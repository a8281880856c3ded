"""The whole relay in this process: real broker, real databases, real sockets on free ports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from cloud_relay.app import Relay, run
from cloud_relay.settings import RelaySettings
from core.sync.linking import LinkGrant

PASSWORD = "a long enough password"
START_S = 30.0


@dataclass
class RunningRelay:
    """A relay that serves, and a client of it."""

    relay: Relay
    url: str
    session: aiohttp.ClientSession

    async def call(self, token: str | None, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON body (None for an empty one) of a request below `/api/v1`."""
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        async with self.session.request(method, f"{self.url}/api/v1{path}", json=body, headers=headers) as answer:
            raw = await answer.read()
            return answer.status, (await answer.json(content_type=None) if raw else None)

    async def sign_up(self, name: str) -> str:
        """The access token of the owner of a new account."""
        body = {"username": name, "password": PASSWORD, "account_name": f"{name}'s"}
        status, answer = await self.call(None, "POST", "/identity/register", body)
        assert status == 201, answer
        status, pair = await self.call(None, "POST", "/identity/session", {"username": name, "password": PASSWORD})
        assert status in {200, 201}, pair
        return str(pair["access_token"])

    async def link(self, token: str, fingerprint: str) -> LinkGrant:
        """A box linked to the account of the token."""
        ask = {"name": "Shed", "version": "0.1.0", "fingerprint": fingerprint}
        _, offer = await self.call(None, "POST", "/edges/link", ask)
        status, edge = await self.call(token, "POST", f"/edges/link/{offer['user_code']}/confirm", {})
        assert status == 201, edge
        status, grant = await self.call(None, "POST", "/edges/link/token", {"device_code": offer["device_code"]})
        assert status == 200, grant
        return msgspec.convert(grant, LinkGrant)

    async def until(self, token: str | None, path: str, is_so: Any) -> Any:
        """The answer of a GET once `is_so` holds for it."""
        async with asyncio.timeout(START_S):
            while True:
                status, answer = await self.call(token, "GET", path)
                if status == 200 and is_so(answer):
                    return answer
                await asyncio.sleep(0.02)


@asynccontextmanager
async def running_relay(folder: Path) -> AsyncIterator[RunningRelay]:
    """A relay on free ports, ready (the broker included); ended gracefully."""
    settings = RelaySettings(data_dir=folder / "relay", listen_port=0, broker_port=0)
    started: asyncio.Future[Relay] = asyncio.get_running_loop().create_future()
    ending = asyncio.Event()

    async def on_started(relay: Relay) -> None:
        started.set_result(relay)
        await ending.wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(settings, on_started=on_started), name="relay")
        async with asyncio.timeout(START_S):
            await asyncio.wait({started, task}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
        url = _url(settings)
        async with aiohttp.ClientSession() as session:
            running = RunningRelay(started.result(), url, session)
            async with asyncio.timeout(START_S):
                while (await session.get(f"{url}/health/ready")).status != 200:
                    await asyncio.sleep(0.02)
            yield running
        ending.set()


def _url(settings: RelaySettings) -> str:
    return str(json.loads(settings.address_path.read_text())["url"])
