"""The line to one proxy: connects, keeps the adapter in the Bluetooth service while it is up, comes back."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
from aioesphomeapi.client import APIClient

from core.domain.clock import Clock
from core.domain.errors import ConflictError
from core.sync.backoff import Backoff
from edge_agent.proxies.failures import AWAY_HINT, Trouble, trouble_of
from edge_agent.proxies.pace import Pace
from edge_agent.proxies.record import ProxyRecord, ProxyState, ProxyStatus
from edge_agent.proxies.session import ProxySession

if TYPE_CHECKING:
    from edge_agent.bluetooth.service import BluetoothService

log = structlog.get_logger(__name__)

CLOSE_DEADLINE_S = 3.0
PASSIVE_HINT = (
    "It is heard but never connects. Set `active: true` under `bluetooth_proxy` in its ESPHome configuration if mowers "
    "are to be reached over it (some devices with proxies of their own cannot)."
)
TAKEN_HINT = "A proxy serves one program at a time. Remove it from Home Assistant or the other box, or use another one."
UNFIT_HINT = "Add `bluetooth_proxy: active: true` to its ESPHome configuration, with ESPHome 2023.6 or later."
TWICE_HINT = "Remove one of the two."


class ProxyLine:
    """`run` is its life. `status` may be read at any time."""

    def __init__(
        self,
        record: ProxyRecord,
        key: Callable[[], str | None],
        service: BluetoothService,
        *,
        clock: Clock,
        random: Callable[[], float],
        pace: Pace,
    ) -> None:
        self.record = record
        self._key = key
        self._service = service
        self._clock = clock
        self._random = random
        self._pace = pace
        self._session: ProxySession | None = None
        self._status = ProxyStatus(record=record, state="connecting", is_encrypted=key() is not None)

    @property
    def status(self) -> ProxyStatus:
        session = self._session
        if session is None or not session.can_connect:
            return self._status
        return dataclasses.replace(self._status, slots=session.limit, slots_free=session.free)

    async def run(self) -> None:
        """Until cancelled. Nothing that a proxy does ends it."""
        pace = self._pace
        backoff = Backoff(pace.retry_first_s, pace.retry_max_s, random=self._random)
        while True:
            began_at = self._clock.monotonic()
            trouble = await self._live()
            backoff.succeed(self._clock.monotonic() - began_at)
            self._note(trouble)
            pause_s = pace.person_s * self._random() if trouble.is_for_a_person else backoff.next_s()
            at_least_s = pace.person_s if trouble.is_for_a_person else pace.retry_first_s
            await asyncio.sleep(at_least_s + pause_s)

    async def _live(self) -> Trouble:
        """One connection, to its end; why it ended."""
        ended = asyncio.Event()

        async def on_stop(_is_expected: bool) -> None:
            ended.set()

        client = None
        try:
            client = self._make_client()
            async with asyncio.timeout(self._pace.connect_s):
                await client.connect(on_stop=on_stop, login=True, log_errors=False)
                info = await client.device_info()
            session = ProxySession(client, info, self._changed, confirm_s=self._pace.confirm_s)
            return await self._serve(session, ended)
        except Exception as err:  # the fire door of a proxy: whatever it is, the others go on
            trouble = trouble_of(err)
            if trouble.reason.startswith("unexpected"):
                log.exception("a proxy failed in an unexpected way", proxy=self.record.proxy_id)
            return trouble
        finally:
            if client is not None:
                await _hang_up(client)

    def _make_client(self) -> APIClient:
        return APIClient(
            self.record.host,
            self.record.port,
            client_info="Mowdeck",
            keepalive=self._pace.keepalive_s,
            noise_psk=self._key(),
            provide_time=False,
        )

    async def _serve(self, session: ProxySession, ended: asyncio.Event) -> Trouble:
        self._status = dataclasses.replace(
            self._status, name=session.title, source=session.source, firmware=session.firmware
        )
        if not session.is_proxy:
            return Trouble(state="unfit", reason="it is no Bluetooth proxy", hint=UNFIT_HINT, is_for_a_person=True)
        adapter = session.open()
        try:
            self._service.add_adapter(adapter)
        except ConflictError:
            reason = "it is here already, under another address"
            return Trouble(state="unfit", reason=reason, hint=TWICE_HINT, is_for_a_person=True)
        self._session = session
        try:
            self._changed()
            log.info("a Bluetooth proxy is up", proxy=session.source, firmware=session.firmware)
            await ended.wait()
        finally:
            self._session = None
            session.close()
            await self._service.remove_adapter(session.source)
        return Trouble(state="unreachable", reason="the connection ended", hint=AWAY_HINT)

    def _changed(self) -> None:
        """The session has news: its slots, or who has its advertisements."""
        session = self._session
        if session is None:
            return
        self._service.slots_changed()
        if session.is_taken:
            self._show("taken", "another program has its advertisements", TAKEN_HINT)
        elif not session.can_connect:
            self._show("passive", "it only listens", PASSIVE_HINT)
        else:
            self._show("connected", None, None)

    def _note(self, trouble: Trouble) -> None:
        if (self._status.state, self._status.reason) != (trouble.state, trouble.reason):
            log.warning(
                "a Bluetooth proxy is not up", proxy=self.record.proxy_id, state=trouble.state, reason=trouble.reason
            )
        self._show(trouble.state, trouble.reason, trouble.hint)

    def _show(self, state: ProxyState, reason: str | None, hint: str | None) -> None:
        self._status = dataclasses.replace(self._status, state=state, reason=reason, hint=hint)


async def _hang_up(client: APIClient) -> None:
    """Says goodbye, or just goes."""
    try:
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await client.disconnect()
    except Exception:  # noqa: BLE001  (it was a proxy's last word; the socket is closed below all the same)
        log.debug("a proxy did not say goodbye")
    finally:
        client.force_disconnect()
