"""One config flow that is open: what the director holds of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from core.platform.flow import ConfigFlow, FlowResult
from core.platform.flow_step import StepRunner
from core.platform.loader import LoadedIntegration
from core.platform.plugin_tasks import PluginTasks


@dataclass(slots=True, kw_only=True)
class OpenFlow:
    """`touched_at` is monotonic."""

    flow: ConfigFlow
    steps: StepRunner
    tasks: PluginTasks
    loaded: LoadedIntegration
    result: FlowResult
    touched_at: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    was_answered: bool = False
    """A person has taken at least one step."""
