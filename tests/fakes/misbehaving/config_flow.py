"""A flow whose `fault` field says what goes wrong: the entry's fault, or one of the flow itself (`flow:<how>`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import voluptuous as vol

from core.platform.fields import Password
from core.platform.flow import (
    AbortResult,
    ConfigFlow,
    CreateEntryResult,
    ExternalResult,
    FlowResult,
    FormResult,
    ProgressResult,
)

from . import faults

SCHEMA = vol.Schema(
    {
        vol.Required("serial"): vol.All(str, vol.Length(min=1, max=32)),
        vol.Optional("fault", default=":"): str,
        vol.Optional("pin"): Password(),
    }
)
CONNECTION_SCHEMA = vol.Schema({vol.Optional("serial"): str, vol.Optional("fault"): str, vol.Optional("count"): int})


NONSENSE: dict[str, Any] = {
    "rubbish": lambda: "done",
    "script": lambda: ExternalResult(step_id="user", url="javascript:alert(1)"),
    "no_work": lambda: ProgressResult(step_id="user", action="waiting"),
    "wrong_types": lambda: FormResult(step_id=7, fields=[object()]),  # type: ignore[arg-type]
    "wrong_errors": lambda: FormResult(step_id="user", errors=["all of it"]),  # type: ignore[arg-type]
    "huge": lambda: AbortResult(reason="x" * 1_000_000),
    "no_json": lambda: CreateEntryResult(title="t", data={"x": object()}),
}
"""How -> an answer of a step that is none."""


class Flow(ConfigFlow):
    """Setting up a misbehaving mower."""

    async def step_user(self, user_input: Mapping[str, Any] | None) -> FlowResult:
        if user_input is None:
            return self.form(step_id="user", schema=SCHEMA)
        where, _, how = user_input["fault"].partition(":")
        if where == "flow":
            if how in NONSENSE:
                return NONSENSE[how]()
            await faults.apply(how, stubborn_s=1.0)
        await self.set_unique_id(user_input["serial"])
        if how == "error":
            return self.form(step_id="user", schema=SCHEMA, errors={"serial": "cannot_connect"})
        return self.create_entry(
            title=f"Misbehaving {user_input['serial']}",
            data={"serial": user_input["serial"], "fault": user_input["fault"]},
            secrets={"pin": user_input["pin"]} if "pin" in user_input else {},
        )

    async def step_discovery(self, user_input: Mapping[str, Any] | None) -> FlowResult:
        if user_input is None:
            await self.set_unique_id(self.context.details["serial"], updates={"address": "new"})
            if self.context.details.get("pushy"):
                return self.create_entry(title="Nobody asked me")
            return self.form(step_id="discovery", placeholders={"serial": self.context.details["serial"]})
        return self.create_entry(title="Found", data={"serial": self.unique_id})

    async def step_reauth(self, user_input: Mapping[str, Any] | None) -> FlowResult:
        if user_input is None:
            return self.form(step_id="reauth", schema=vol.Schema({vol.Required("pin"): Password()}))
        data = {**self.entry.data, "fault": ":"}
        return await self.update_entry(data=data, secrets={"pin": user_input["pin"]})

    async def step_import(self, user_input: Mapping[str, Any] | None) -> FlowResult:
        """A tour of every kind of step."""
        return self.menu(step_id="tour", options=["pair", "user", "bond"])

    async def step_pair(self, user_input: Mapping[str, Any] | None) -> FlowResult:
        async def pair() -> None:
            raise TimeoutError

        return self.progress(step_id="pair", action="pairing", work=pair, then="paired")

    async def step_bond(self, user_input: Mapping[str, Any] | None) -> FlowResult:
        async def bond() -> None:
            return None

        return self.progress(step_id="bond", action="pairing", work=bond, then="bonded")

    async def step_bonded(self, user_input: Mapping[str, Any] | None) -> FlowResult:
        return self.create_entry(title="Bonded", data={})

    async def step_paired(self, user_input: Mapping[str, Any] | None) -> FlowResult:
        return self.external(step_id="signed_in", url="https://vendor.example/authorize")

    async def step_signed_in(self, user_input: Mapping[str, Any] | None) -> FlowResult:
        cause = self.progress_error.__cause__ if self.progress_error is not None else None
        return self.create_entry(title="Tour", data={**(user_input or {}), "failed": type(cause).__name__})
