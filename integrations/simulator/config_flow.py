"""The steps in which a person adds a simulated mower, or changes one."""

from __future__ import annotations

from typing import Any

import voluptuous as vol

from core.platform.flow import ConfigFlow, FlowResult, UserInput
from integrations.simulator.models import CAPABILITIES, DEFAULT_MODEL
from integrations.simulator.settings import CONNECTION_SCHEMA, DEFAULT_NAME, SEED_MAX, zone

_BEHAVIOUR: dict[Any, Any] = {
    vol.Required("time_scale", default=1.0): vol.All(vol.Coerce(float), vol.Range(min=0.1, max=1000)),
    vol.Required("rain", default=False): bool,
    vol.Required("trouble", default=False): bool,
    vol.Required("follow_schedule", default=False): bool,
    vol.Required("time_zone", default="UTC"): str,
}
USER_SCHEMA = vol.Schema(
    {
        vol.Required("name", default=DEFAULT_NAME): str,
        vol.Required("model", default=DEFAULT_MODEL): vol.In(sorted(CAPABILITIES)),
        vol.Required("seed", default=1): vol.All(vol.Coerce(int), vol.Range(min=0, max=SEED_MAX)),
        vol.Required("mowers", default=1): vol.All(vol.Coerce(int), vol.Range(min=1, max=10)),
        vol.Optional("lat"): vol.All(vol.Coerce(float), vol.Range(min=-80, max=80)),
        vol.Optional("lon"): vol.All(vol.Coerce(float), vol.Range(min=-180, max=180)),
        **_BEHAVIOUR,
    }
)
RECONFIGURE_SCHEMA = vol.Schema(_BEHAVIOUR)
_OPTIONS = tuple(str(key.schema) for key in _BEHAVIOUR)


class SimulatorFlow(ConfigFlow):
    """`user`: one form. The seed makes the serial numbers, so it is the entry's identity."""

    async def step_user(self, user_input: UserInput | None) -> FlowResult:
        """The garden, how many mowers are in it, and how they behave."""
        errors: dict[str, str] = {}
        if user_input is not None:
            data, options = _split(user_input)
            errors = _find_errors({**data, **options}) or _find_half_place(user_input)
            if not errors:
                await self.set_unique_id(f"seed-{data['seed']}")
                return self.create_entry(title=data["name"], data=data, options=options)
        return self.form(step_id="user", schema=USER_SCHEMA, errors=errors, suggested=user_input)

    async def step_reconfigure(self, user_input: UserInput | None) -> FlowResult:
        """How the mowers behave; who they are stays."""
        errors: dict[str, str] = {}
        if user_input is not None:
            options = {**self.entry.options, **user_input}
            errors = _find_errors({**self.entry.data, **options})
            if not errors:
                return await self.update_entry(options=options)
        shown = user_input if user_input is not None else {**self.entry.data, **self.entry.options}
        return self.form(step_id="reconfigure", schema=RECONFIGURE_SCHEMA, errors=errors, suggested=shown)


def _split(user_input: UserInput) -> tuple[dict[str, Any], dict[str, Any]]:
    """Who the mowers are (data) and how they behave (options)."""
    options = {name: user_input[name] for name in _OPTIONS}
    data = {
        "name": str(user_input["name"]).strip(),
        "model": user_input["model"],
        "seed": user_input["seed"],
        "mowers": user_input["mowers"],
    }
    if "lat" in user_input and "lon" in user_input:
        data["origin"] = {"lat": user_input["lat"], "lon": user_input["lon"]}
    return data, options


def _find_half_place(user_input: UserInput) -> dict[str, str]:
    """A latitude without a longitude is no place, and the other way round."""
    if ("lat" in user_input) == ("lon" in user_input):
        return {}
    return {"lon" if "lat" in user_input else "lat": "half_a_place"}


def _find_errors(values: dict[str, Any]) -> dict[str, str]:
    """Field -> translation key of what the form's own schema cannot see."""
    errors: dict[str, str] = {}
    if not 1 <= len(str(values["name"])) <= 64:
        errors["name"] = "invalid_name"
    try:
        zone(values["time_zone"])
    except vol.Invalid:
        errors["time_zone"] = "unknown_time_zone"
    if errors:
        return errors
    try:
        CONNECTION_SCHEMA(values)
    except vol.Invalid:  # the forms are at least as strict; this keeps an entry from being made that cannot load
        errors["base"] = "invalid_settings"
    return errors
