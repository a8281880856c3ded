"""Keeps one adapter scanning: starts, watches, starts again. An adapter that is off is tried for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from bleak.backends.device import BLEDevice
from bleak.backends.scanner import AdvertisementData
from bleak.exc import BleakError

from edge_agent.bluetooth.adapter import BluetoothAdapter

log = structlog.get_logger(__name__)

SILENCE_S = 180.0
"""A scan that has heard nothing at all for this long is started anew: radios and BlueZ do fall asleep."""
RETRY_FIRST_S = 2.0
RETRY_MAX_S = 60.0
START_DEADLINE_S = 15.0
STOP_DEADLINE_S = 5.0

OnHeard = Callable[[BLEDevice, AdvertisementData], None]


class Scan:
    """One adapter's scan. `is_up` while it runs; `why` it does not, else."""

    def __init__(self, adapter: BluetoothAdapter, on_heard: OnHeard, on_down: Callable[[], None]) -> None:
        self.adapter = adapter
        self.is_up = False
        self.why: str | None = "not started"
        self.tried = asyncio.Event()
        """Set once it is known whether it runs."""
        self._on_heard = on_heard
        self._on_down = on_down
        self._heard = asyncio.Event()
        self._wake = asyncio.Event()

    def restart(self) -> None:
        """The adapter may be back, or has turned out to be gone."""
        self._wake.set()
        self._heard.set()  # one that hears nothing is waiting for this

    async def run(self) -> None:
        """Scans until it is cancelled."""
        delay_s = RETRY_FIRST_S
        while True:
            self._wake.clear()
            try:
                await self._scan_until_silent()
                delay_s = RETRY_FIRST_S
            except (BleakError, OSError, TimeoutError, EOFError) as err:
                self._report_down(str(err) or type(err).__name__)
                await self._pause(delay_s)
                delay_s = min(delay_s * 2, RETRY_MAX_S)

    async def _scan_until_silent(self) -> None:
        scanner = self.adapter.make_scanner(self._received)
        async with asyncio.timeout(START_DEADLINE_S):
            await scanner.start()
        try:
            self._report_up()
            while not self._wake.is_set():
                self._heard.clear()
                try:
                    async with asyncio.timeout(SILENCE_S):
                        await self._heard.wait()
                except TimeoutError:
                    return
                await self._pause(SILENCE_S / 2)
        finally:
            try:
                async with asyncio.timeout(STOP_DEADLINE_S):
                    await scanner.stop()
            except (BleakError, OSError, TimeoutError, EOFError) as err:
                log.debug("scan did not stop cleanly", adapter=self.adapter.name, reason=str(err))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _received(self, device: BLEDevice, data: AdvertisementData) -> None:
        self._heard.set()
        self._on_heard(device, data)

    def _report_up(self) -> None:
        self.tried.set()
        if not self.is_up:
            self.is_up = True
            self.why = None
            log.info("bluetooth scan is up", adapter=self.adapter.name)

    def _report_down(self, why: str) -> None:
        self.tried.set()
        if self.is_up or self.why != why:
            log.warning("bluetooth scan is down", adapter=self.adapter.name, reason=why)
        was_up, self.is_up, self.why = self.is_up, False, why
        if was_up:
            self._on_down()
