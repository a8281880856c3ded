"""The steps in which a person adds a Bluetooth mower and changes it later; what differs by brand are hooks.

    class AcmeFlow(BluetoothMowerFlow):
        options_schema = OPTIONS_SCHEMA
        def may_be_mower(self, heard): ...                 # what is heard there
        async def identify(self, connection) -> Identity: ...  # signs in with self.pin, once

    user | discovery -> confirm -> pair -> pin -> entry      (without a bond: confirm -> pin)
    reauth -> pin or pair;  reconfigure -> options, address or pin

Each connection begins because a person pressed a button, and ends with the step. A PIN is tried once for each time that
a person enters it. A bond that was made and then proved nothing is dropped again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import voluptuous as vol

from core.domain import errors
from core.platform.bluetooth import Advertisement, BluetoothPort, GattConnection
from core.platform.bluetooth_address import read_address
from core.platform.bluetooth_flow_texts import PASSKEY_ERRORS, shared_texts
from core.platform.fields import serialize_schema
from core.platform.flow import ConfigFlow, FlowContext, FlowResult, UserInput
from core.platform.pairing_words import (
    ADDRESS_SCHEMA,
    FAILURES,
    PASSKEY,
    PASSKEY_SCHEMA,
    PIN,
    PIN_SCHEMA,
    Failures,
    read_passkey,
    read_pin,
)

TITLE_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a mower is; None is what it did not tell. `data` goes into the entry as it is."""

    serial: str | None = None
    name: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


class BluetoothMowerFlow(ConfigFlow, ABC):
    """Override the class variables and hooks; the steps stay as they are."""

    needs_bond: ClassVar[bool] = True
    """Whether the mower has to be paired before the first word."""
    takes_passkey: ClassVar[bool] = False
    """Whether some of these mowers demand a passkey: it is asked for when one refuses to talk without."""
    confirms_typed: ClassVar[bool] = False
    """Whether a person confirms a mower, too, whose address they have typed: for a warning in the text of `confirm`."""
    tells_serial: ClassVar[bool] = True
    """Whether a mower is known by its serial number, so that its address may change."""
    credentials_step: ClassVar[str] = "pin"
    failures: ClassVar[Failures] = ()
    """Failures of this brand, before those of all."""
    options_schema: ClassVar[vol.Schema]

    def __init__(self, context: FlowContext) -> None:
        super().__init__(context)
        entry = context.entry
        self.address: str = "" if entry is None else str(entry.data.get("address", ""))
        self.name = "" if entry is None else entry.title
        self.pin: str | None = None
        """Given by a person and not refused yet."""
        self.identity: Identity | None = None
        self.is_bonded = entry is not None and (self.needs_bond or bool(entry.data.get("is_bonded")))
        self._passkey: int | None = None

    # Hooks

    def may_be_mower(self, heard: Advertisement | None) -> bool:  # noqa: ARG002  (the port names them)
        """Whether what is heard there (None: nothing) can be one of these mowers."""
        return True

    def name_of(self, heard: Advertisement | None) -> str | None:
        """How the mower calls itself on the air."""
        return heard.name if heard is not None else None

    async def wait_pairable(self) -> None:
        """Returns when the mower may pair; NotInPairingModeError when it goes on saying that it does not."""

    async def prove(self, connection: GattConnection) -> None:
        """Right after pairing: raises unless this is such a mower and the bond works."""

    @abstractmethod
    async def identify(self, connection: GattConnection) -> Identity:
        """Signs in, once, with what `read` has kept, and asks who it is. WrongPinError, BondLostError, ..."""

    def ask(self, mistakes: Mapping[str, str] | None = None) -> FlowResult:
        """The form for what the mower wants to know: a PIN, unless the brand has another one."""
        return self.form(step_id="pin", schema=PIN_SCHEMA, errors=mistakes, placeholders=self.placeholders())

    def read(self, user_input: UserInput) -> dict[str, str]:
        """Keeps what `ask` asked for; mistakes by field."""
        try:
            self.pin = read_pin(user_input[PIN])
        except vol.Invalid:
            return {PIN: "invalid_pin"}
        return {}

    def drop(self) -> None:
        """Forgets what was refused: it is never tried again by itself."""
        self.pin = None

    def blame(self, key: str) -> dict[str, str]:
        """The field that a failure belongs to."""
        return {PIN if key == "wrong_pin" else "base": key}

    def data(self, identity: Identity) -> dict[str, Any]:
        """A new entry's data. AbortFlowError when something is missing."""
        serial = {} if identity.serial is None else {"serial": identity.serial}
        return {"address": self.address, "name": self.title(identity), **serial, **identity.data}

    def secrets(self) -> dict[str, str]:
        """What is kept encrypted."""
        return {} if self.pin is None else {PIN: self.pin}

    def placeholders(self) -> dict[str, str]:
        """For the texts of all steps."""
        return {"name": self.name, "address": self.address}

    # Which mower

    async def step_user(self, user_input: UserInput | None) -> FlowResult:
        """The address, for a mower that is not found by itself."""
        return await self.pick("user", user_input)

    async def pick(self, step_id: str, user_input: UserInput | None) -> FlowResult:
        """The step `step_id` that asks for an address."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        mistakes: dict[str, str] = {}
        if user_input is not None:
            try:
                address = read_address(user_input["address"])
            except vol.Invalid:
                mistakes["address"] = "invalid_address"
            else:
                return await self._choose(address, None) or self._begin(is_typed=True)
        return self.form(
            step_id=step_id,
            schema=ADDRESS_SCHEMA,
            errors=mistakes,
            suggested=user_input,
            placeholders=self.placeholders(),
        )

    async def step_discovery(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (discovery has no form)
        """Something of this brand is near: the address in the details says what."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        try:
            address = read_address(self.context.details.get("address"))
        except vol.Invalid:
            return self.abort(reason="not_a_mower")
        return await self._choose(address, self.context.details.get("name")) or self._confirm()

    def unique_id_of(self, address: str) -> str:
        """What discovery knows a mower by."""
        return address

    async def _choose(self, address: str, name: object) -> FlowResult | None:
        """Notes which mower it is about; a result when it is none, the end of the flow when it is there already."""
        heard = self.bluetooth.latest(address)
        if not self.may_be_mower(heard):
            return self.abort(reason="not_a_mower")
        if self.context.entry is None:
            await self.set_unique_id(self.unique_id_of(address))
            self.name = str(name or self.name_of(heard) or f"Mower {address[-5:]}")[:TITLE_MAX]
        elif address != self.address:
            self.is_bonded = self.needs_bond
        self.address = address
        return None

    def _begin(self, *, is_typed: bool) -> FlowResult:
        if is_typed and self.confirms_typed:
            return self._confirm()
        return self._ask_to_pair() if self.needs_bond else self.ask()

    def _confirm(self) -> FlowResult:
        return self.form(step_id="confirm", placeholders=self.placeholders())

    async def step_confirm(self, user_input: UserInput | None) -> FlowResult:
        """Whether the person wants this mower."""
        return self._confirm() if user_input is None else self._begin(is_typed=False)

    # Pairing

    def _ask_to_pair(self, key: str | None = None) -> FlowResult:
        mistakes = {} if key is None else {"base": key}
        return self.form(step_id="pair", errors=mistakes, placeholders=self.placeholders())

    async def step_pair(self, user_input: UserInput | None) -> FlowResult:
        """What to press on the mower; then the box pairs while the person waits."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        return self._ask_to_pair() if user_input is None else self._begin_pairing()

    def _ask_passkey(self, mistakes: Mapping[str, str] | None = None) -> FlowResult:
        return self.form(step_id="passkey", schema=PASSKEY_SCHEMA, errors=mistakes, placeholders=self.placeholders())

    async def step_passkey(self, user_input: UserInput | None) -> FlowResult:
        """The fixed passkey of a mower that does not talk without; left empty it is the one that was given before."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        if user_input is None:
            return self._ask_passkey()
        kept = self.context.secrets.get(PASSKEY) if self.context.secrets is not None else None
        try:
            self._passkey = read_passkey(user_input.get(PASSKEY) or kept or "")
        except vol.Invalid:
            return self._ask_passkey({PASSKEY: "invalid_passkey"})
        return self._begin_pairing()

    def _begin_pairing(self) -> FlowResult:
        return self.progress(
            step_id="pairing", action="pairing", work=self._pair, then="paired", placeholders=self.placeholders()
        )

    async def _pair(self) -> None:
        await self.wait_pairable()
        is_made = False
        try:
            async with self.bluetooth.connect(self.address, bond="pair", passkey=self._passkey) as connection:
                is_made = True
                await self.prove(connection)
        except BaseException:
            if is_made and self.context.entry is None:
                await self.bluetooth.forget(self.address)  # also when the flow is given up in the middle
            raise

    async def step_paired(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (follows a progress)
        """After the attempt: the same form with what went wrong, or what comes next."""
        if self.progress_error is None:
            self.is_bonded = True
            return self.ask() if self._passkey is None else self._sign_in()
        key = self.failure_key(self.progress_error)
        self.context.log.info("pairing failed: %s", key)
        if self._passkey is None:
            return self._ask_to_pair(key)
        self._passkey = None
        return self._ask_passkey({PASSKEY: "wrong_passkey"} if key == "pairing_refused" else {"base": key})

    # Signing in

    async def step_pin(self, user_input: UserInput | None) -> FlowResult:
        """The PIN, tried once for each time that a person enters it."""
        return await self.take(user_input)

    async def take(self, user_input: UserInput | None) -> FlowResult:
        """The answer to `ask`."""
        if self.context.bluetooth is None:
            return self.abort(reason="no_bluetooth")
        if user_input is None:
            return self.ask()
        mistakes = self.read(user_input)
        return self.ask(mistakes) if mistakes else self._sign_in()

    def _sign_in(self) -> FlowResult:
        return self.progress(
            step_id="signing_in",
            action="signing_in",
            work=self._identify,
            then="signed_in",
            placeholders=self.placeholders(),
        )

    async def _identify(self) -> None:
        self.identity = None
        bond = self.bluetooth.connect(self.address, bond="existing" if self.needs_bond or self.is_bonded else "none")
        async with bond as connection:
            self.identity = await self.identify(connection)

    async def step_signed_in(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (follows a progress)
        """After the attempt: the form again, or done."""
        if self.progress_error is None and self.identity is not None:
            return await self.finish(self.identity)
        key = "cannot_connect" if self.progress_error is None else self.failure_key(self.progress_error)
        self.context.log.info("signing in failed: %s", key)
        if key == "not_paired" and self.takes_passkey and self._passkey is None:
            return self._ask_passkey()  # what was entered is tried again once the mower talks: it was not heard yet
        self.drop()
        if key == "not_paired":
            self._passkey = None
        if key == "not_paired" and self.needs_bond:
            return self._ask_to_pair(key)
        return self.ask(self.blame(key))

    async def finish(self, identity: Identity) -> FlowResult:
        """The new entry, or the change of the one that there is."""
        entry = self.context.entry
        if entry is None:
            same = None if identity.serial is None else {"serial": identity.serial}
            data = self.data(identity)
            await self.set_unique_id(self.unique_id_of(self.address), updates={"address": self.address}, same=same)
            return self.create_entry(title=self.title(identity), data=data, secrets=self.all_secrets())
        known = entry.data.get("serial")
        if identity.serial is not None and known is not None and identity.serial != known:
            return self.abort(reason="another_mower")
        changed = {**entry.data, "address": self.address}
        return await self.update_entry(
            data=None if changed == entry.data else changed,
            secrets=self.all_secrets(),
            unique_id=None if changed == entry.data else self.unique_id_of(self.address),
        )

    def all_secrets(self) -> dict[str, str]:
        """Those of the brand, and the passkey if one was needed."""
        return self.secrets() | ({} if self._passkey is None else {PASSKEY: f"{self._passkey:06d}"})

    def title(self, identity: Identity) -> str:
        """The name of a new entry."""
        return (identity.name or self.name)[:TITLE_MAX]

    # Later

    async def step_reauth(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (a form follows)
        """The mower refuses what this box knows, or does not know this box any more."""
        if not self.needs_bond:
            return self.ask()
        return self.menu(step_id="reauth", options=(self.credentials_step, "pair"), placeholders=self.placeholders())

    async def step_reconfigure(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (a menu follows)
        """What may be changed."""
        address = ("address",) if self.tells_serial else ()
        return self.menu(
            step_id="reconfigure",
            options=("options", *address, self.credentials_step),
            placeholders=self.placeholders(),
        )

    async def step_options(self, user_input: UserInput | None) -> FlowResult:
        """How often the mower is asked, and the like; nothing is asked of the mower."""
        if user_input is not None:
            return await self.update_entry(options={**self.entry.options, **user_input})
        return self.form(
            step_id="options",
            schema=self.options_schema,
            suggested=self.entry.options,
            placeholders=self.placeholders(),
        )

    async def step_address(self, user_input: UserInput | None) -> FlowResult:
        """The mower's new address; it has to tell the serial number of this entry there."""
        return await self.pick("address", user_input)

    # Parts

    @property
    def bluetooth(self) -> BluetoothPort:
        """The box's Bluetooth; NotReadyError on a box without."""
        if self.context.bluetooth is None:
            raise errors.NotReadyError("this box has no Bluetooth")
        return self.context.bluetooth

    @classmethod
    def failure_key(cls, err: Exception) -> str:
        """The translation key of a failure."""
        return next((key for kind, key in (*cls.failures, *FAILURES) if isinstance(err, kind)), "cannot_connect")

    @classmethod
    def shared_texts(cls) -> frozenset[str]:
        """See ConfigFlow."""
        has_pin, pairs = cls.credentials_step == "pin", cls.needs_bond or cls.takes_passkey
        unheard = {*(() if has_pin else ("wrong_pin",)), *(() if pairs else ("not_in_pairing_mode", "pairing_refused"))}
        keys = {key for _, key in (*cls.failures, *FAILURES)} - unheard
        passkey = PASSKEY_ERRORS if cls.takes_passkey else ()
        return shared_texts(
            errors={*keys, *passkey, "cannot_connect", "invalid_address"},
            credentials_step=cls.credentials_step,
            needs_bond=cls.needs_bond,
            takes_passkey=cls.takes_passkey,
            tells_serial=cls.tells_serial,
            options=[field["name"] for field in serialize_schema(cls.options_schema)] if has_pin else (),
        )
