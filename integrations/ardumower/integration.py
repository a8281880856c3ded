"""One set-up Ardumower entry: one mower over one path."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import voluptuous as vol

from core.domain.errors import AdapterOffError, AuthFailedError, EntryError
from core.domain.mower import LinkKind, MowerDescription
from core.platform.integration import Entry, IntegrationContext, MowerKey, key_of
from integrations.ardumower.areas import describe
from integrations.ardumower.ble_line import open_ble_line
from integrations.ardumower.exchange import PATIENCE, Patience
from integrations.ardumower.http_line import open_http_line
from integrations.ardumower.line import Line
from integrations.ardumower.link import RHYTHM, ArdumowerLink, Mower, Rhythm
from integrations.ardumower.mapping import Garden
from integrations.ardumower.models import VENDOR
from integrations.ardumower.notebook import Notebook
from integrations.ardumower.settings import ArdumowerSettings, read_password


class Ardumower:
    """An Integration. It asks the mower nothing before a link is opened."""

    def __init__(
        self, context: IntegrationContext, entry: Entry, *, rhythm: Rhythm = RHYTHM, patience: Patience = PATIENCE
    ) -> None:
        self._context = context
        self._rhythm = rhythm
        self._patience = patience
        self._settings = settings = ArdumowerSettings.of(entry)
        self._notebook = Notebook()
        self._description = MowerDescription(
            vendor=VENDOR,
            serial=settings.serial,
            name=settings.name,
            model=settings.model,
            links=(settings.link,),
            areas=tuple(describe(patch, settings.frame) for patch in settings.patches),
        )

    async def mowers(self) -> Sequence[MowerDescription]:
        return (self._description,)

    async def open(self, mower: MowerKey, link: LinkKind) -> ArdumowerLink:
        """EntryError for a mower or a link that this entry does not have: it names one path, and only that is used.
        AuthFailedError without a password; AdapterOffError on a box without Bluetooth."""
        settings = self._settings
        if mower != key_of(self._description) or link is not settings.link:
            raise EntryError(f"there is no {link} link to {mower} in this entry")
        try:
            password = read_password(self._context.secrets.get("password"))
        except vol.Invalid as err:
            raise AuthFailedError("the password of the mower is missing, or is no number") from err
        names = (settings.serial, settings.robot_id, settings.url, settings.address)
        subject = Mower(
            identities=tuple(name for name in names if name is not None),
            robot_id=settings.robot_id,
            password=password,
            garden=Garden(link=settings.link, frame=settings.frame, patches=settings.patches, cells=settings.cells),
            notebook=self._notebook,
            open_line=self._open_line,
            rssi_dbm=self._rssi_dbm,
            rhythm=self._rhythm,
            patience=self._patience,
        )
        return ArdumowerLink(subject, self._context)

    def _open_line(self) -> AbstractAsyncContextManager[Line]:
        settings, context = self._settings, self._context
        if settings.url is not None:
            return open_http_line(context.http, settings.url)
        if context.bluetooth is None or settings.address is None:
            raise AdapterOffError("this box has no Bluetooth")
        return open_ble_line(context.bluetooth, settings.address, context.clock, is_bonded=settings.is_bonded)

    def _rssi_dbm(self) -> int | None:
        port, address = self._context.bluetooth, self._settings.address
        heard = None if port is None or address is None else port.latest(address)
        return None if heard is None else heard.rssi_dbm

    async def close(self) -> None:
        """Nothing is held beyond the links."""
