"""One step of a plugin's flow, behind the fire door: whatever it does, a result comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import structlog
import voluptuous as vol

from core.domain.errors import IntegrationError, MowdeckError
from core.platform.fields import errors_of
from core.platform.fire_door import call
from core.platform.flow import (
    AbortFlowError,
    AbortResult,
    ConfigFlow,
    ExternalResult,
    FlowContext,
    FlowResult,
    ProgressResult,
)
from core.platform.plugin_tasks import PluginTasks

log = structlog.get_logger(__name__)

PROGRESS_DEADLINE_S = 300.0
RESULT_BYTES = 256 * 1024


class StepRunner:
    """Runs the code of one flow with a deadline, in the scope `tasks`."""

    def __init__(self, tasks: PluginTasks, *, deadline_s: float, close_deadline_s: float) -> None:
        self._tasks = tasks
        self._deadline_s = deadline_s
        self._close_deadline_s = close_deadline_s

    async def make(self, flow_class: type[ConfigFlow], context: FlowContext) -> ConfigFlow:
        """A new flow; IntegrationError when its constructor fails."""

        async def construct() -> ConfigFlow:
            return flow_class(context)

        flow: ConfigFlow = await self._call(construct, f"{context.domain} flow")
        return flow

    async def take(self, flow: ConfigFlow, step: str, user_input: dict[str, Any] | None) -> FlowResult:
        """What `step_<step>` answers; an abort with reason `unknown` when it fails or answers nonsense."""
        domain = flow.context.domain
        method = getattr(flow, f"step_{step}", None)
        if method is None:
            log.error("flow has no such step", domain=domain, step=step)
            return AbortResult(reason="not_supported")
        try:
            result: object = await self._call(
                lambda: method(user_input), f"{domain} step {step}", passing=(AbortFlowError,)
            )
        except AbortFlowError as err:
            return AbortResult(reason=err.reason, placeholders=err.placeholders)
        except MowdeckError as err:
            if self._tasks.is_closed:
                return AbortResult(reason="cancelled")
            log.error("flow step failed", domain=domain, step=step, code=err.code, detail=err.detail)
            return AbortResult(reason="unknown")
        mistake = _find_mistake(result, flow)
        if mistake is not None or not isinstance(result, FlowResult):
            log.error("flow step answered nonsense", domain=domain, step=step, mistake=mistake)
            return AbortResult(reason="unknown")
        return result

    async def work(self, flow: ConfigFlow, work: Callable[[], Awaitable[None]]) -> None:
        """Runs the work of a `progress`; its failure is left in `flow.progress_error`."""
        flow.progress_error = None
        try:
            await call(
                work,
                where=f"{flow.context.domain} progress",
                deadline_s=PROGRESS_DEADLINE_S,
                close_deadline_s=self._close_deadline_s,
                context=self._tasks.context(),
            )
        except MowdeckError as err:
            flow.progress_error = err

    async def validate(self, flow: ConfigFlow, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """What the form's schema makes of the input, and its errors by field (then the input counts for nothing)."""
        schema = flow.schema

        async def check() -> dict[str, Any]:
            if schema is None:
                if given:
                    raise vol.Invalid("takes no input")
                return {}
            return cast("dict[str, Any]", schema(given))

        try:
            return await self._call(check, f"{flow.context.domain} schema", passing=(vol.Invalid,)), {}
        except vol.Invalid as err:
            return {}, errors_of(err)
        except IntegrationError:
            return {}, {"base": "unknown"}  # a validator of the plugin failed; logged at the fire door

    async def _call(self, make: Any, where: str, passing: tuple[type[Exception], ...] = ()) -> Any:
        return await call(
            make,
            where=where,
            deadline_s=self._deadline_s,
            close_deadline_s=self._close_deadline_s,
            passing=passing,
            context=self._tasks.context(),
        )


def _find_mistake(result: object, flow: ConfigFlow) -> str | None:
    """Why a step's answer cannot be shown to a person."""
    if not isinstance(result, FlowResult):
        return f"a {type(result).__name__}"
    if isinstance(result, ProgressResult) and flow.work is None:
        return "progress without work"
    if isinstance(result, ExternalResult) and not str(result.url).startswith(("https://", "http://")):
        return "an external step that is no web page"
    try:
        size = len(msgspec.json.encode(result))
        msgspec.convert(msgspec.to_builtins(result), FlowResult)
    except Exception as err:  # noqa: BLE001  (what a plugin has put into it is plugin code, its encoding too)
        return f"an answer of wrong types ({type(err).__name__})"
    return None if size <= RESULT_BYTES else f"an answer of {size} bytes"
