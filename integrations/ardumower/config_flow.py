"""The steps in which a person adds an Ardumower, over the network or over Bluetooth, or changes one."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import voluptuous as vol

from core.domain.errors import AdapterOffError, IntegrationError
from core.platform.fields import Password
from core.platform.flow import ConfigFlow, FlowResult, UserInput
from integrations.ardumower.areas import read_areas
from integrations.ardumower.battery import DEFAULT_CELLS
from integrations.ardumower.ble_line import open_ble_line
from integrations.ardumower.http_line import open_http_line
from integrations.ardumower.line import Line
from integrations.ardumower.occupancy import is_held
from integrations.ardumower.probe import CONNECT_DEADLINE_S, ask_version, error_of
from integrations.ardumower.settings import (
    DEFAULT_NAME,
    DEFAULT_PASSWORD,
    read_address,
    read_password,
    read_url,
)
from integrations.ardumower.wire import Version

_PATH_FIELDS = {"lan": "host", "ble": "address"}
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
BLE_SCHEMA = vol.Schema({**_NAME, vol.Required("address"): str, **_PASSWORD, **_GARDEN})
DISCOVERED_SCHEMA = vol.Schema({**_NAME, **_PASSWORD, **_GARDEN})
REAUTH_SCHEMA = vol.Schema({vol.Required("password"): Password()})


class ArdumowerFlow(ConfigFlow):
    """`user` chooses the path; `lan` and `ble` ask the mower for its version before there is an entry."""

    async def step_user(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (a menu has no input)
        """The path to the mower: one of them, for the mower serves only one at a time."""
        return self.menu(step_id="user", options=("lan", "ble"))

    async def step_lan(self, user_input: UserInput | None) -> FlowResult:
        """A mower on the local network."""
        return await self._add("lan", "lan", LAN_SCHEMA, user_input)

    async def step_ble(self, user_input: UserInput | None) -> FlowResult:
        """A mower in Bluetooth range."""
        return await self._add("ble", "ble", BLE_SCHEMA, user_input)

    async def step_discovery(self, user_input: UserInput | None) -> FlowResult:  # noqa: ARG002  (details say it)
        """A mower that was heard over Bluetooth. Its service is that of any serial bridge, so a person decides."""
        try:
            address = read_address(str(self.context.details.get("address", "")))
        except vol.Invalid:
            return self.abort(reason="not_a_mower")
        await self.set_unique_id(_ble_id(address))
        return await self.step_confirm(None)

    async def step_confirm(self, user_input: UserInput | None) -> FlowResult:
        """The form of a discovered mower."""
        return await self._add("confirm", "ble", DISCOVERED_SCHEMA, user_input)

    async def _add(self, step_id: str, link: str, schema: vol.Schema, user_input: UserInput | None) -> FlowResult:
        heard = str(self.context.details.get("name") or "")[:64] if step_id == "confirm" else ""
        shown: UserInput | None = user_input if user_input is not None else ({"name": heard} if heard else None)
        errors: dict[str, str] = {}
        if user_input is not None:
            values = dict(user_input)
            if step_id == "confirm":
                values["address"] = str(self.context.details.get("address", ""))
            path, options, password, errors = _read(values, link)
            name = str(values["name"]).strip()
            if not 1 <= len(name) <= 64:
                errors["name"] = "invalid_name"
            if not errors:
                version, errors = await self._ask(link, path, password)
                if version is not None:
                    await self._claim(link, path, version)
                    data = {"link": link, **_path_data(link, path), "name": name, **_identity(version)}
                    secrets = {"password": str(password)}
                    return self.create_entry(title=name, data=data, options=options, secrets=secrets)
        if step_id == "confirm" and "address" in errors:
            errors["base"] = errors.pop("address")
        placeholders = {"name": heard, "address": str(self.context.details.get("address", ""))} if heard else {}
        return self.form(step_id=step_id, schema=schema, errors=errors, suggested=shown, placeholders=placeholders)

    async def _claim(self, link: str, path: str, version: Version) -> None:
        """Says which mower it is about; ends the flow when an entry has it, over whichever path."""
        if version.robot_id is not None:
            await self.set_unique_id(version.robot_id)
        if link == "ble":
            await self.set_unique_id(_ble_id(path))  # what a discovery of it will ask for
        elif version.robot_id is None:
            await self.set_unique_id(f"lan-{path.removeprefix('http://').rstrip('/')}")

    async def step_reauth(self, user_input: UserInput | None) -> FlowResult:
        """The password again; nothing else changes."""
        errors: dict[str, str] = {}
        if user_input is not None:
            link = str(self.entry.data["link"])
            try:
                password = read_password(user_input["password"])
            except vol.Invalid:
                errors = {"password": "invalid_password"}
            else:
                version, errors = await self._ask(link, _entry_path(self.entry.data), password)
                if version is not None:
                    return await self.update_entry(secrets={"password": str(password)})
                if "password" not in errors:
                    errors = {"base": next(iter(errors.values()))}
        return self.form(step_id="reauth", schema=REAUTH_SCHEMA, errors=errors)

    async def step_reconfigure(self, user_input: UserInput | None) -> FlowResult:
        """Where the mower is reached, and what is known about garden and battery; which mower it is stays."""
        link = str(self.entry.data["link"])
        field = _PATH_FIELDS[link]
        schema = vol.Schema({vol.Required(field): str, vol.Optional("password"): Password(), **_GARDEN})
        errors: dict[str, str] = {}
        shown: UserInput = user_input if user_input is not None else _shown(field, self.entry.data, self.entry.options)
        if user_input is not None:
            path, options, password, errors = _read(user_input, link)
            if not errors:
                data, errors = await self._checked_data(link, path, password)
                if not errors:
                    secrets = {} if password is None else {"password": str(password)}
                    return await self.update_entry(data=data, options=options, secrets=secrets)
        return self.form(step_id="reconfigure", schema=schema, errors=errors, suggested=shown)

    async def _checked_data(self, link: str, path: str, password: int | None) -> tuple[dict[str, Any], dict[str, str]]:
        """The entry's data with the new path, once the mower there has been asked who it is."""
        data: dict[str, Any] = {**self.entry.data, **_path_data(link, path)}
        is_moved = path != _entry_path(self.entry.data)
        is_in_use = link == "ble" and not is_moved and self.unique_id is not None and is_held(self.unique_id)
        if is_in_use or (not is_moved and password is None):
            return data, {}  # a mower that this box talks to over Bluetooth takes no second connection
        version, errors = await self._ask(link, path, password)
        if version is None:
            return data, errors
        known = self.entry.data.get("robot_id")
        if known is not None and version.robot_id is not None and known != version.robot_id:
            return data, {_PATH_FIELDS[link]: "another_mower"}
        if version.robot_id is not None:
            data["robot_id"] = version.robot_id
        return data, {}

    async def _ask(self, link: str, path: str, password: int | None) -> tuple[Version | None, dict[str, str]]:
        """Who answers there, or the errors of the form."""
        try:
            return await ask_version(lambda: self._open_line(link, path), password), {}
        except IntegrationError as err:
            self.context.log.info("the mower cannot be added yet: %s", err.detail)
            return None, error_of(err, _PATH_FIELDS[link])

    def _open_line(self, link: str, path: str) -> AbstractAsyncContextManager[Line]:
        if link == "lan":
            return open_http_line(self.context.http, path)
        port = self.context.bluetooth
        if port is None:
            raise AdapterOffError("this box has no Bluetooth")
        return open_ble_line(port, path, self.context.clock, deadline_s=CONNECT_DEADLINE_S)


def _read(values: UserInput, link: str) -> tuple[str, dict[str, Any], int | None, dict[str, str]]:
    """Path, options and password of a form, and its errors by field."""
    errors: dict[str, str] = {}
    field = _PATH_FIELDS[link]
    path, password = "", None
    try:
        path = read_url(str(values[field])) if link == "lan" else read_address(str(values[field]))
    except vol.Invalid:
        errors[field] = f"invalid_{field}"
    if values.get("password"):
        try:
            password = read_password(values["password"])
        except vol.Invalid:
            errors["password"] = "invalid_password"  # noqa: S105  (a translation key)
    lat, lon = values.get("datum_lat"), values.get("datum_lon")
    if (lat is None) != (lon is None):
        errors["datum_lon" if lon is None else "datum_lat"] = "half_a_place"
    elif lat is not None and not (abs(lat) <= 85 and abs(lon or 0.0) <= 180):  # NaN passes the form's own check
        errors["datum_lat"] = "invalid_place"
    if not abs(values["rotation_deg"]) <= 360:
        errors["rotation_deg"] = "invalid_rotation"
    areas = str(values.get("areas") or "")
    try:
        read_areas(areas)
    except ValueError:
        errors["areas"] = "invalid_areas"
    datum = None if lat is None or lon is None else {"lat": lat, "lon": lon}
    options = {"cells": values["cells"], "datum": datum, "rotation_deg": values["rotation_deg"], "areas": areas}
    return path, options, password, errors


def _path_data(link: str, path: str) -> dict[str, str]:
    return {"url" if link == "lan" else "address": path}


def _entry_path(data: UserInput) -> str:
    return str(data["url"] if data["link"] == "lan" else data["address"])


def _identity(version: Version) -> dict[str, Any]:
    return {"model": version.name, "robot_id": version.robot_id}


def _ble_id(address: str) -> str:
    return f"ble-{address.replace(':', '').lower()}"


def _shown(field: str, data: UserInput, options: UserInput) -> dict[str, Any]:
    """An entry as the form shows it; what is not set is left out."""
    datum = options.get("datum") or {}
    shown = {
        field: _entry_path(data),
        "cells": options.get("cells"),
        "rotation_deg": options.get("rotation_deg"),
        "areas": options.get("areas") or None,
        "datum_lat": datum.get("lat"),
        "datum_lon": datum.get("lon"),
    }
    return {name: value for name, value in shown.items() if value is not None}
