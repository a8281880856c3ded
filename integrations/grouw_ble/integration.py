"""One set-up mower. There is nothing to ask before a link is open: who it is stands in the entry."""

from __future__ import annotations

from collections.abc import Sequence

from core.domain.errors import AuthFailedError, EntryError, NotReadyError
from core.domain.mower import LinkKind, MowerDescription
from core.platform.integration import Entry, IntegrationContext, MowerKey, key_of
from integrations.grouw_ble.link import GrouwLink, Memory
from integrations.grouw_ble.mapping import UNPROTECTED
from integrations.grouw_ble.models import MODEL, VENDOR
from integrations.grouw_ble.settings import PIN, MowerSettings


class GrouwBle:
    """An Integration."""

    def __init__(self, context: IntegrationContext, entry: Entry) -> None:
        self._context = context
        self._settings = MowerSettings.of(entry)
        self._memory = Memory()
        self._description = MowerDescription(
            vendor=VENDOR,
            serial=self._settings.serial,
            name=self._settings.name,
            model=MODEL,
            links=(LinkKind.BLE,),
        )
        context.log.warning("%s: %s", self._settings.name, UNPROTECTED)

    async def mowers(self) -> Sequence[MowerDescription]:
        """AuthFailedError when nobody has shown that they know the PIN."""
        if self._context.secrets.get(PIN) is None:
            raise AuthFailedError("the PIN of the mower is not known")
        return (self._description,)

    async def open(self, mower: MowerKey, link: LinkKind) -> GrouwLink:
        """A link that connects when it runs. EntryError for a mower or a link that this entry does not have;
        NotReadyError on a box without Bluetooth."""
        if mower != key_of(self._description) or link is not LinkKind.BLE:
            raise EntryError(f"there is no {link} link to {mower} in this entry")
        if self._context.bluetooth is None:
            raise NotReadyError("this box has no Bluetooth adapter and no proxy")
        return GrouwLink(
            settings=self._settings,
            bluetooth=self._context.bluetooth,
            context=self._context,
            memory=self._memory,
        )

    async def close(self) -> None:
        """Nothing is held beyond the links."""
