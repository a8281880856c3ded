"""The steps in which a person adds a mower: confirm or type its address, read that it protects itself badly, enter the
PIN. And changes it later. Each connection begins because a person pressed a button."""

from __future__ import annotations

from typing import ClassVar

import voluptuous as vol

from core.domain import errors
from core.platform.fields import Password
from core.platform.flow import ConfigFlow, FlowContext, FlowResult, UserInput
from integrations.grouw_ble import settings
from integrations.grouw_ble.probe import ANSWER_S, check_pin
from integrations.grouw_ble.settings import PIN

USER_SCHEMA = vol.Schema({vol.Required("address"): str})
PIN_SCHEMA = vol.Schema({vol.Required("pin"): Password()})
RECONFIGURE_SCHEMA = vol.Schema(
    {
        vol.Required("releases", default=True): bool,
        vol.Required("verifies_sign_in", default=False): bool,
        vol.Required("poll_moving_s", default=30.0): vol.All(vol.Coerce(float), vol.Range(min=10, max=300)),
        vol.Required("poll_standing_s", default=300.0): vol.All(vol.Coerce(float), vol.Range(min=30, max=3600)),
        vol.Required("poll_low_s", default=1200.0): vol.All(vol.Coerce(float), vol.Range(min=60, max=3600)),
    }
)
TITLE_MAX = 64
_FAILURES: tuple[tuple[type[errors.MowdeckError], str], ...] = (
    (errors.WrongPinError, "wrong_pin"),
    (errors.NotReadyError, "pin_not_told"),
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


class GrouwFlow(ConfigFlow):
    """user | discovery -> confirm -> pin; reauth -> pin; reconfigure."""

    answer_s: ClassVar[float] = ANSWER_S

    def __init__(self, context: FlowContext) -> None:
        super().__init__(context)
        entry = context.entry
        self._address: str = "" if entry is None else str(entry.data.get("address", ""))
        self._name = "" if entry is None else entry.title
        self._pin: str | None = None

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
                return await self._choose(address, None)
        return self.form(step_id="user", schema=USER_SCHEMA, errors=mistakes, suggested=user_input)

    async def step_discovery(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (discovery has no form)
        """Something with a name of this brand is near: the address in the details says what."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        try:
            address = settings.address(self.context.details.get("address"))
        except vol.Invalid:
            return self.abort(reason="not_a_mower")
        return await self._choose(address, self.context.details.get("name"))

    async def _choose(self, address: str, name: object) -> FlowResult:
        """Notes which mower it is about; the end of the flow when it is there already."""
        await self.set_unique_id(address)
        heard = self.context.bluetooth.latest(address) if self.context.bluetooth is not None else None
        known = name or (heard.name if heard is not None else None)
        self._address = address
        self._name = str(known or f"Mower {address[-5:]}")[:TITLE_MAX]
        return await self.step_confirm(None)

    async def step_confirm(self, user_input: UserInput | None) -> FlowResult:
        """Whether the person wants this mower; its text says that anybody near can command it."""
        if user_input is None:
            return self.form(step_id="confirm", placeholders=self._placeholders())
        return self._ask_pin()

    # The PIN

    def _ask_pin(self, mistakes: dict[str, str] | None = None) -> FlowResult:
        return self.form(step_id="pin", schema=PIN_SCHEMA, errors=mistakes or {}, placeholders=self._placeholders())

    async def step_pin(self, user_input: UserInput | None) -> FlowResult:
        """The PIN. The mower tells its own and locks nobody out; the box compares."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        if user_input is None:
            return self._ask_pin()
        try:
            self._pin = settings.pin(user_input["pin"])
        except vol.Invalid:
            return self._ask_pin({"pin": "invalid_pin"})
        return self.progress(
            step_id="checking", action="checking", work=self._check, then="checked", placeholders=self._placeholders()
        )

    async def _check(self) -> None:
        if self.context.bluetooth is None or self._pin is None:
            raise errors.NotReadyError("this box has no Bluetooth")
        await check_pin(
            self.context.bluetooth, self._address, self._pin, clock=self.context.clock, answer_s=self.answer_s
        )

    async def step_checked(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (follows a progress)
        """After the attempt: the form again, or done."""
        pin, self._pin = self._pin, None
        if self.progress_error is not None or pin is None:
            key = failure_key(self.progress_error) if self.progress_error is not None else "cannot_connect"
            self.context.log.info("the mower was not added: %s", key)
            return self._ask_pin({"pin" if key == "wrong_pin" else "base": key})
        if self.context.entry is not None:
            return await self.update_entry(secrets={PIN: pin})
        data = {"address": self._address, "name": self._name}
        return self.create_entry(title=self._name, data=data, secrets={PIN: pin})

    # Later

    async def step_reauth(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (the PIN's form follows)
        """The PIN is not known, or the mower has another one now."""
        return self._ask_pin()

    async def step_reconfigure(self, user_input: UserInput | None) -> FlowResult:
        """How often the mower is asked, and whether it is let go while it stands."""
        if user_input is not None:
            return await self.update_entry(options={**self.entry.options, **user_input})
        return self.form(step_id="reconfigure", schema=RECONFIGURE_SCHEMA, suggested=self.entry.options)

    def _placeholders(self) -> dict[str, str]:
        """`time` is what the mower may set its clock by: a person sees whether the box's zone is theirs."""
        local = self.context.clock.now().astimezone()
        return {"name": self._name, "address": self._address, "time": f"{local:%Y-%m-%d %H:%M}"}
