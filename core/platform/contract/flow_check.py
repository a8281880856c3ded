"""Whether the forms of a config flow can be shown: each schema as JSON, and the first step taken for real."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import voluptuous as vol

from core.domain.errors import MowdeckError
from core.domain.ids import FlowId
from core.domain.limits import STEP_DEADLINE_S
from core.platform.contract.finding import Finding
from core.platform.contract.suite import explain
from core.platform.contract.surroundings import open_context
from core.platform.fields import Field, serialize_schema
from core.platform.fire_door import call, text_of
from core.platform.flow import AbortFlowError, AbortResult, ConfigFlow, FlowContext, FlowResult
from core.platform.integration import Entry
from core.platform.loader import LoadedIntegration
from core.platform.manifest import Manifest


class _Port:
    """Takes whatever a flow says."""

    async def claim_unique_id(
        self,
        flow_id: FlowId,
        unique_id: str,
        *,
        updates: Mapping[str, Any] | None,
        raise_on_progress: bool,
        same: Mapping[str, Any] | None = None,
    ) -> None:
        """Nobody else is there."""

    async def update_entry(
        self,
        entry: Entry,
        *,
        title: str | None,
        data: Mapping[str, Any] | None,
        options: Mapping[str, Any] | None,
        secrets: Mapping[str, str],
        unique_id: str | None = None,
    ) -> None:
        """Nothing is kept."""


def form_fields(flow_class: type[ConfigFlow]) -> tuple[dict[str, tuple[Field, ...]], list[Finding]]:
    """The module's schemas as fields, by name, and a finding for each that has no form. `CONNECTION_SCHEMA` is for
    machines and may be of any shape."""
    shown: dict[str, tuple[Field, ...]] = {}
    findings = []
    for name, value in vars(sys.modules[flow_class.__module__]).items():
        if not isinstance(value, vol.Schema) or name == "CONNECTION_SCHEMA":
            continue
        try:
            shown[name] = serialize_schema(value)
        except Exception as err:  # noqa: BLE001  (fire door: a validator of the plugin may raise anything)
            reason = f"has no form: {text_of(err)}"
            findings.append(Finding(area="flow", name=name, status="failed", detail=reason))
        else:
            fields = ", ".join(str(field["name"]) for field in shown[name])
            findings.append(Finding(area="flow", name=name, status="passed", detail=fields))
    return shown, findings


def has_login_form(shown: Mapping[str, Iterable[Field]]) -> bool:
    """Whether any form has a password field."""
    return any(field.get("format") == "password" for fields in shown.values() for field in fields)


def steps_fit(manifest: Manifest, flow_class: type[ConfigFlow]) -> Finding:
    """A person can begin the flow, and so can discovery when the manifest asks for it."""
    name = "steps"
    if not callable(getattr(flow_class, "step_user", None)):
        return Finding(area="flow", name=name, status="failed", detail="there is no step_user: nobody can begin it")
    is_discovered = bool(manifest.bluetooth or manifest.zeroconf or manifest.mqtt)
    if is_discovered and not callable(getattr(flow_class, "step_discovery", None)):
        return Finding(
            area="flow", name=name, status="failed", detail="the manifest has matchers, but there is no step_discovery"
        )
    steps = sorted(step.removeprefix("step_") for step in dir(flow_class) if step.startswith("step_"))
    return Finding(area="flow", name=name, status="passed", detail=", ".join(steps))


async def first_step(loaded: LoadedIntegration, folder: Path) -> tuple[FlowResult | None, Finding]:
    """What `step_user(None)` answers on a box without Bluetooth and without any entry."""
    flow_class, name = loaded.flow_class, "step_user"
    if flow_class is None:
        return None, Finding(area="flow", name=name, status="skipped", detail="there is no flow")
    try:
        result = await _take(flow_class, loaded.manifest.domain)
    except AbortFlowError as err:
        result = AbortResult(reason=err.reason, placeholders=err.placeholders)
    except MowdeckError as err:
        return None, Finding(area="flow", name=name, status="failed", detail=explain(err, folder))
    try:
        msgspec.convert(msgspec.to_builtins(result), FlowResult)
        msgspec.json.encode(result)
    except Exception as err:  # noqa: BLE001  (fire door: what a plugin has put into it is plugin code)
        return None, Finding(area="flow", name=name, status="failed", detail=f"no answer of a flow: {text_of(err)}")
    return result, Finding(area="flow", name=name, status="passed", detail=_kind(result))


async def _take(flow_class: type[ConfigFlow], domain: str) -> FlowResult:
    async with open_context() as surroundings:
        context = FlowContext(
            flow_id=FlowId("check"),
            domain=domain,
            source="user",
            details={},
            entry=None,
            clock=surroundings.clock,
            log=surroundings.log,
            http=surroundings.http,
            port=_Port(),
        )

        async def take() -> FlowResult:
            flow: Any = flow_class(context)
            result: FlowResult = await flow.step_user(None)
            return result

        return await call(take, where="step_user", deadline_s=STEP_DEADLINE_S, passing=(AbortFlowError,))


def _kind(result: FlowResult) -> str:
    if isinstance(result, AbortResult):
        return f"abort: {result.reason}"
    return str(type(result).__struct_config__.tag)
