"""The steps in which a person adds a mower: confirm or type its address, pair, enter the PIN. And changes it later.

Each connection begins because a person pressed a button. A wrong PIN is never tried again by itself.
"""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

import voluptuous as vol

from core.domain import errors
from core.platform.bluetooth import BluetoothPort
from core.platform.fields import Password
from core.platform.flow import ConfigFlow, FlowContext, FlowResult, UserInput
from integrations.husqvarna_ble import settings
from integrations.husqvarna_ble.conversation import MowerBlockedError
from integrations.husqvarna_ble.pairing import PAIRABLE_S, SETTLE_S, Identity, Pairing, advertised_of
from integrations.husqvarna_ble.settings import PIN, REFUSED_PIN

USER_SCHEMA = vol.Schema({vol.Required("address"): str})
PIN_SCHEMA = vol.Schema({vol.Required("pin"): Password()})
RECONFIGURE_SCHEMA = vol.Schema(
    {
        vol.Required("releases", default=True): bool,
        vol.Required("poll_moving_s", default=30.0): vol.All(vol.Coerce(float), vol.Range(min=10, max=300)),
        vol.Required("poll_standing_s", default=300.0): vol.All(vol.Coerce(float), vol.Range(min=30, max=3600)),
        vol.Required("poll_fault_s", default=1200.0): vol.All(vol.Coerce(float), vol.Range(min=60, max=3600)),
    }
)
TITLE_MAX = 64
_FAILURES: tuple[tuple[type[errors.MowdeckError], str], ...] = (
    (errors.WrongPinError, "wrong_pin"),
    (MowerBlockedError, "blocked"),
    (errors.NotInPairingModeError, "not_in_pairing_mode"),
    (errors.PairingRefusedError, "pairing_refused"),
    (errors.BondLostError, "not_paired"),
    (errors.PeerBusyError, "peer_busy"),
    (errors.OutOfRangeError, "out_of_range"),
    (errors.NoFreeSlotError, "no_free_slot"),
    (errors.AdapterOffError, "adapter_off"),
    (errors.LinkTimeoutError, "no_answer"),
    (errors.LinkLostError, "connection_lost"),
)
"""What may go wrong, the narrowest class first -> translation key of what a person can do."""


def failure_key(err: Exception) -> str:
    """The translation key of a failure."""
    return next((key for kind, key in _FAILURES if isinstance(err, kind)), "cannot_connect")


class HusqvarnaFlow(ConfigFlow):
    """user | discovery -> pair -> pin; reauth -> pin or pair; reconfigure."""

    settle_s: ClassVar[float] = SETTLE_S
    pairable_s: ClassVar[float] = PAIRABLE_S

    def __init__(self, context: FlowContext) -> None:
        super().__init__(context)
        entry = context.entry
        self._address: str = "" if entry is None else str(entry.data.get("address", ""))
        self._name = "" if entry is None else entry.title
        self._channel = _channel_of(context.flow_id) if entry is None else int(str(entry.data.get("channel", 1)))
        self._pin: str | None = None
        self._identity: Identity | None = None

    # Which mower

    async def step_user(self, user_input: UserInput | None) -> FlowResult:
        """The address, for a mower that is not found by itself."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        mistakes: dict[str, str] = {}
        if user_input is not None:
            try:
                address = settings.address(user_input["address"])
            except vol.Invalid:
                mistakes["address"] = "invalid_address"
            else:
                return await self._choose(address, None) or await self.step_pair(None)
        return self.form(step_id="user", schema=USER_SCHEMA, errors=mistakes, suggested=user_input)

    async def step_discovery(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (discovery has no form)
        """Something of this brand is near: the address in the details says what."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        try:
            address = settings.address(self.context.details.get("address"))
        except vol.Invalid:
            return self.abort(reason="not_a_mower")
        name = self.context.details.get("name")
        return await self._choose(address, name) or self._confirm()

    async def _choose(self, address: str, name: object) -> FlowResult | None:
        """Notes which mower it is about; a result when it is none, the end of the flow when it is there already."""
        heard = self._bluetooth.latest(address)
        said = advertised_of(heard)
        if not said.may_be_mower:
            return self.abort(reason="not_a_mower")
        await self.set_unique_id(address)
        self._address = address
        known = name or said.name or (heard.name if heard is not None else None)
        self._name = str(known or f"Mower {address[-5:]}")[:TITLE_MAX]
        return None

    def _confirm(self) -> FlowResult:
        return self.form(step_id="confirm", placeholders=self._placeholders())

    async def step_confirm(self, user_input: UserInput | None) -> FlowResult:
        """Whether the person wants the mower that was found."""
        return self._confirm() if user_input is None else await self.step_pair(None)

    # Pairing

    async def step_pair(self, user_input: UserInput | None) -> FlowResult:
        """What to press on the mower; then the box pairs while the person waits."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        if user_input is None:
            return self.form(step_id="pair", placeholders=self._placeholders())
        return self.progress(
            step_id="pairing",
            action="pairing",
            work=self._pairing().pair,
            then="paired",
            placeholders=self._placeholders(),
        )

    async def step_paired(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (follows a progress)
        """After the attempt: the same form with what went wrong, or the PIN."""
        if self.progress_error is None:
            return self._ask_pin()
        key = failure_key(self.progress_error)
        self.context.log.info("pairing failed: %s", key)
        return self.form(step_id="pair", errors={"base": key}, placeholders=self._placeholders())

    # The PIN

    def _ask_pin(self, mistakes: dict[str, str] | None = None) -> FlowResult:
        return self.form(step_id="pin", schema=PIN_SCHEMA, errors=mistakes or {}, placeholders=self._placeholders())

    async def step_pin(self, user_input: UserInput | None) -> FlowResult:
        """The PIN, tried once for each time that a person enters it."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        if user_input is None:
            return self._ask_pin()
        try:
            self._pin = settings.pin(user_input["pin"])
        except vol.Invalid:
            return self._ask_pin({"pin": "invalid_pin"})
        return self.progress(
            step_id="signing_in",
            action="signing_in",
            work=self._sign_in,
            then="signed_in",
            placeholders=self._placeholders(),
        )

    async def _sign_in(self) -> None:
        self._identity = await self._pairing().identify(self._pin or "")

    async def step_signed_in(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (follows a progress)
        """After the attempt: the form again, or done."""
        if self.progress_error is not None or self._identity is None or self._pin is None:
            self._pin = None
            key = failure_key(self.progress_error) if self.progress_error is not None else "cannot_connect"
            if key == "not_paired":
                return self.form(step_id="pair", errors={"base": key}, placeholders=self._placeholders())
            return self._ask_pin({"pin" if key == "wrong_pin" else "base": key})
        secrets = {PIN: self._pin, REFUSED_PIN: ""}
        if self.context.entry is not None:
            return await self._renew(secrets, self._identity)
        return await self._finish(secrets, self._identity)

    async def _renew(self, secrets: dict[str, str], identity: Identity) -> FlowResult:
        if identity.serial is not None and identity.serial != self.entry.data.get("serial"):
            return self.abort(reason="another_mower")
        return await self.update_entry(secrets=secrets)

    async def _finish(self, secrets: dict[str, str], identity: Identity) -> FlowResult:
        said = advertised_of(self._bluetooth.latest(self._address))
        serial = identity.serial or (str(said.serial) if said.serial else None)
        if serial is None:
            return self.abort(reason="no_serial")
        model = identity.model or said.model
        name = (identity.name or self._name)[:TITLE_MAX]
        data: dict[str, Any] = {"address": self._address, "channel": self._channel, "serial": serial, "name": name}
        if model is not None:
            data |= {"device_type": model.device_type, "variant": model.variant}
        return self.create_entry(title=name, data=data, secrets=secrets)

    # Later

    async def step_reauth(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (a menu follows)
        """The mower refuses the PIN, or does not know this box any more."""
        return self.menu(step_id="reauth", options=("pin", "pair"), placeholders=self._placeholders())

    async def step_reconfigure(self, user_input: UserInput | None) -> FlowResult:
        """How often the mower is asked, and whether it is let go while it stands."""
        if user_input is not None:
            return await self.update_entry(options={**self.entry.options, **user_input})
        return self.form(step_id="reconfigure", schema=RECONFIGURE_SCHEMA, suggested=self.entry.options)

    # Parts

    @property
    def _bluetooth(self) -> BluetoothPort:
        if self.context.bluetooth is None:
            raise errors.NotReadyError("this box has no Bluetooth")
        return self.context.bluetooth

    def _pairing(self) -> Pairing:
        return Pairing(
            self._bluetooth,
            address=self._address,
            channel=self._channel,
            clock=self.context.clock,
            settle_s=self.settle_s,
            pairable_s=self.pairable_s,
        )

    def _placeholders(self) -> dict[str, str]:
        return {"name": self._name, "address": self._address}


def _channel_of(flow_id: str) -> int:
    """A number from 1 to 2^32 - 1 that is this box's with this mower: any will do, and it stays."""
    return int.from_bytes(hashlib.sha256(flow_id.encode()).digest()[:4], "little") or 1
