"""One set-up mower. There is nothing to ask before a link is open: who it is stands in the entry."""

from __future__ import annotations

from collections.abc import Sequence

from core.domain.errors import AuthFailedError, EntryError, NotReadyError, WrongPinError
from core.domain.mower import LinkKind, MowerDescription
from core.platform.integration import Entry, IntegrationContext, MowerKey, key_of
from integrations.husqvarna_ble.link import HusqvarnaLink, Memory
from integrations.husqvarna_ble.models import product_of
from integrations.husqvarna_ble.settings import PIN, REFUSED_PIN, MowerSettings


class HusqvarnaBle:
    """An Integration."""

    def __init__(self, context: IntegrationContext, entry: Entry) -> None:
        self._context = context
        self._settings = MowerSettings.of(entry)
        self._product = product_of(self._settings.model, self._settings.name)
        self._memory = Memory()
        self._description = MowerDescription(
            vendor=self._product.vendor,
            serial=self._settings.serial,
            name=self._settings.name,
            model=self._product.name,
            links=(LinkKind.BLE,),
        )

    async def mowers(self) -> Sequence[MowerDescription]:
        """AuthFailedError when the PIN is missing, or when the mower has refused it already."""
        pin = self._context.secrets.get(PIN)
        if pin is None:
            raise AuthFailedError("the PIN of the mower is not known")
        if pin == self._context.secrets.get(REFUSED_PIN):
            raise AuthFailedError("the mower has refused this PIN", hint=WrongPinError.hint)
        return (self._description,)

    async def open(self, mower: MowerKey, link: LinkKind) -> HusqvarnaLink:
        """A link that connects when it runs. EntryError for a mower or a link that this entry does not have;
        NotReadyError on a box without Bluetooth."""
        if mower != key_of(self._description) or link is not LinkKind.BLE:
            raise EntryError(f"there is no {link} link to {mower} in this entry")
        if self._context.bluetooth is None:
            raise NotReadyError("this box has no Bluetooth adapter and no proxy")
        return HusqvarnaLink(
            settings=self._settings,
            product=self._product,
            bluetooth=self._context.bluetooth,
            context=self._context,
            memory=self._memory,
        )

    async def close(self) -> None:
        """Nothing is held beyond the links."""
