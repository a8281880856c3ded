"""The steps in which a person adds an Ardumower, over the network or over Bluetooth, or changes one.

Over Bluetooth they are those of all Bluetooth mowers, with a password instead of a PIN; a bridge that was set up with a
fixed passkey is paired with it when it refuses to talk without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import voluptuous as vol

from core.domain.errors import AuthFailedError, IntegrationError, LinkTimeoutError
from core.platform.bluetooth import GattConnection
from core.platform.bluetooth_mower_flow import BluetoothMowerFlow, Identity
from core.platform.fields import Password
from core.platform.flow import FlowContext, FlowResult, UserInput
from core.platform.pairing_words import Failures
from integrations.ardumower.battery import DEFAULT_CELLS
from integrations.ardumower.ble_line import start_line
from integrations.ardumower.exchange import Patience
from integrations.ardumower.form import Answers, garden_of, read_answers
from integrations.ardumower.http_line import open_http_line
from integrations.ardumower.occupancy import is_held
from integrations.ardumower.probe import PATIENCE, ask_version
from integrations.ardumower.settings import DEFAULT_NAME, DEFAULT_PASSWORD
from integrations.ardumower.wire import Version

_NAME: dict[Any, Any] = {vol.Required("name", default=DEFAULT_NAME): str}
_PASSWORD: dict[Any, Any] = {vol.Required("password", default=DEFAULT_PASSWORD): Password()}
_GARDEN: dict[Any, Any] = {
    vol.Required("cells", default=DEFAULT_CELLS): vol.All(vol.Coerce(int), vol.Range(min=1, max=20)),
    vol.Optional("datum_lat"): vol.All(vol.Coerce(float), vol.Range(min=-85, max=85)),
    vol.Optional("datum_lon"): vol.All(vol.Coerce(float), vol.Range(min=-180, max=180)),
    vol.Required("rotation_deg", default=0.0): vol.All(vol.Coerce(float), vol.Range(min=-360, max=360)),
    vol.Optional("areas"): str,
}
LAN_SCHEMA = vol.Schema({**_NAME, vol.Required("host"): str, **_PASSWORD, **_GARDEN})
PASSWORD_SCHEMA = vol.Schema({**_NAME, **_PASSWORD, **_GARDEN})
REAUTH_SCHEMA = vol.Schema({vol.Required("password"): Password()})
LAN_RECONFIGURE_SCHEMA = vol.Schema({vol.Required("host"): str, vol.Optional("password"): Password(), **_GARDEN})
BLE_RECONFIGURE_SCHEMA = vol.Schema({vol.Required("address"): str, vol.Optional("password"): Password(), **_GARDEN})


class ArdumowerFlow(BluetoothMowerFlow):
    """user -> lan | ble; ble | discovery -> confirm -> password [-> passkey]; reauth, reconfigure: one form each."""

    needs_bond: ClassVar[bool] = False
    takes_passkey: ClassVar[bool] = True
    tells_serial: ClassVar[bool] = False
    credentials_step: ClassVar[str] = "password"
    patience: ClassVar[Patience] = PATIENCE
    failures: ClassVar[Failures] = ((AuthFailedError, "invalid_auth"),)

    def __init__(self, context: FlowContext) -> None:
        super().__init__(context)
        self._is_lan = context.entry is not None and context.entry.data["link"] == "lan"
        self._answers: Answers | None = None
        """What a person has typed and the mower has not refused."""
        self._version: Version | None = None

    # Which mower

    async def step_user(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (a menu has no input)
        """The path to the mower: one of them, for the mower serves only one at a time."""
        return self.menu(step_id="user", options=("lan", "ble"))

    async def step_ble(self, user_input: UserInput | None) -> FlowResult:
        """A mower in Bluetooth range."""
        return await self.pick("ble", user_input)

    def unique_id_of(self, address: str) -> str:
        return f"ble-{address.replace(':', '').lower()}"

    async def step_lan(self, user_input: UserInput | None) -> FlowResult:
        """A mower on the local network."""
        errors: dict[str, str] = {}
        if user_input is not None:
            self._answers, errors = read_answers(user_input, "host")
            version = None
            if not errors:
                version, errors = await self._ask_host(self._answers)
            if version is not None:
                host = self._answers.path.removeprefix("http://").rstrip("/")
                await self.set_unique_id(version.robot_id or f"lan-{host}")
                return self._create({"link": "lan", "url": self._answers.path}, version, {})
        return self.form(step_id="lan", schema=LAN_SCHEMA, errors=errors, suggested=user_input)

    async def _ask_host(self, answers: Answers) -> tuple[Version | None, dict[str, str]]:
        """Who answers there, or the errors of the form."""
        try:
            async with open_http_line(self.context.http, answers.path) as line:
                return await ask_version(line, answers.password, self.patience), {}
        except IntegrationError as err:
            self.context.log.info("the mower cannot be added yet: %s", err.detail)
            if isinstance(err, AuthFailedError):
                return None, {"password": "invalid_auth"}
            return None, {"host": "no_answer" if isinstance(err, LinkTimeoutError) else "cannot_connect"}

    def _create(self, path: Mapping[str, Any], version: Version, secrets: Mapping[str, str]) -> FlowResult:
        answers = self._answers
        assert answers is not None
        data = {**path, "name": answers.name, "model": version.name, "robot_id": version.robot_id}
        return self.create_entry(
            title=answers.name, data=data, options=answers.garden, secrets={**secrets, **answers.secrets}
        )

    # Over Bluetooth

    async def step_password(self, user_input: UserInput | None) -> FlowResult:
        """The password, and what is known of garden and battery."""
        return await self.take(user_input)

    def ask(self, mistakes: Mapping[str, str] | None = None) -> FlowResult:
        if self.source == "reauth":
            return self.form(step_id="reauth", schema=REAUTH_SCHEMA, errors=mistakes)
        if self.source == "reconfigure":
            return self._ask_changes(mistakes)
        typed = {} if self._answers is None else self._answers.shown
        return self.form(
            step_id="password",
            schema=PASSWORD_SCHEMA,
            errors=mistakes,
            suggested={"name": self.name, **typed},
            placeholders=self.placeholders(),
        )

    def read(self, user_input: UserInput) -> dict[str, str]:
        self._answers, mistakes = read_answers(user_input, None)
        return mistakes

    def drop(self) -> None:
        if self._answers is not None:
            self._answers = self._answers.without_password()

    def blame(self, key: str) -> dict[str, str]:
        return {"password" if key == "invalid_auth" else "base": key}

    async def identify(self, connection: GattConnection) -> Identity:
        """Asks for the version, which sets nothing in motion, with the password if there is one."""
        line = await start_line(connection, self.context.clock)
        password = None if self._answers is None else self._answers.password
        self._version = await ask_version(line, password, self.patience)
        return Identity()

    async def prove(self, connection: GattConnection) -> None:
        """What is paired has to let itself be listened to."""
        await start_line(connection, self.context.clock)

    async def finish(self, identity: Identity) -> FlowResult:  # noqa: ARG002  (the version says more)
        version, answers = self._version, self._answers
        assert version is not None
        assert answers is not None
        if self.source == "reauth":
            data = {**self.entry.data, **self._bond_data()}
            return await self.update_entry(data=data, secrets=answers.secrets | self.all_secrets())
        if self.source == "reconfigure":
            return await self._change({"address": self.address, **self._bond_data()}, version, "address")
        if version.robot_id is not None:
            await self.set_unique_id(version.robot_id)  # over whichever path it was added
        await self.set_unique_id(self.unique_id_of(self.address))  # what a discovery of it will ask for
        return self._create({"link": "ble", "address": self.address, **self._bond_data()}, version, self.all_secrets())

    def _bond_data(self) -> dict[str, Any]:
        return {"is_bonded": True} if self.is_bonded else {}

    # Later

    async def step_reauth(self, user_input: UserInput | None) -> FlowResult:
        """The password again; nothing else changes. A mower that has lost its bond asks for the passkey too."""
        if user_input is None:
            return self.ask()
        if not self._is_lan:
            return await self.take(user_input)
        errors = self.read(user_input)
        if not errors and self._answers is not None:
            answers = self._answers.at(str(self.entry.data["url"]))
            version, errors = await self._ask_host(answers)
            if version is not None:
                return await self.update_entry(secrets=answers.secrets)
        return self.ask({"password" if name == "password" else "base": word for name, word in errors.items()})

    async def step_reconfigure(self, user_input: UserInput | None) -> FlowResult:
        """Where the mower is reached, and what is known about garden and battery; which mower it is stays."""
        field = "host" if self._is_lan else "address"
        if user_input is None:
            return self._ask_changes()
        self._answers, errors = read_answers(user_input, field)
        if errors:
            return self._ask_changes(errors)
        answers = self._answers
        is_moved = answers.path != self._known_path()
        is_in_use = not self._is_lan and not is_moved and self.unique_id is not None and is_held(self.unique_id)
        if is_in_use or (not is_moved and answers.password is None):
            # a mower that this box talks to over Bluetooth takes no second connection
            return await self.update_entry(data=self.entry.data, options=answers.garden, secrets=answers.secrets)
        if self._is_lan:
            version, errors = await self._ask_host(answers)
            return (
                self._ask_changes(errors)
                if version is None
                else await self._change({"url": answers.path}, version, field)
            )
        if self.context.bluetooth is None:
            return self._ask_changes({"base": "adapter_off"})
        self.address, self.is_bonded = answers.path, self.is_bonded and not is_moved
        return self._sign_in()

    def _ask_changes(self, mistakes: Mapping[str, str] | None = None) -> FlowResult:
        if self._answers is not None:
            shown = self._answers.shown
        else:
            shown = {("host" if self._is_lan else "address"): self._known_path(), **garden_of(self.entry.options)}
        schema = LAN_RECONFIGURE_SCHEMA if self._is_lan else BLE_RECONFIGURE_SCHEMA
        return self.form(step_id="reconfigure", schema=schema, errors=mistakes, suggested=shown)

    async def _change(self, path: Mapping[str, Any], version: Version, field: str) -> FlowResult:
        answers, known = self._answers, self.entry.data.get("robot_id")
        assert answers is not None
        if known is not None and version.robot_id is not None and known != version.robot_id:
            return self._ask_changes({field: "another_mower"})
        robot_id = {} if version.robot_id is None else {"robot_id": version.robot_id}
        return await self.update_entry(
            data={**self.entry.data, **path, **robot_id},
            options=answers.garden,
            secrets=answers.secrets | self.all_secrets(),
        )

    def _known_path(self) -> str:
        return str(self.entry.data["url" if self._is_lan else "address"])
