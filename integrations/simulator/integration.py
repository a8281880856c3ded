"""One set-up simulator entry: its machines, which live as long as the entry is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from core.domain.errors import EntryError
from core.domain.geo import Plane
from core.domain.mower import LinkKind, MowerDescription
from core.platform.integration import Entry, IntegrationContext, MowerKey, key_of
from integrations.simulator.lawn import make_garden
from integrations.simulator.link import Plot, SimulatorLink
from integrations.simulator.machine import Machine, Traits
from integrations.simulator.mapping import Frame, area_of
from integrations.simulator.models import CAPABILITIES, VENDOR
from integrations.simulator.settings import SimulatorSettings, serial_of

_REMOTE_REST_S = 60.0
"""Real seconds without a joystick frame until a machine leaves the remote mode."""


class Simulator:
    """An Integration. A restart makes new machines: docked, and docked they stay."""

    def __init__(self, context: IntegrationContext, entry: Entry) -> None:
        self._context = context
        self._settings = SimulatorSettings.of(entry)
        self._plots: dict[MowerKey, Plot] = {}
        self._descriptions: list[MowerDescription] = []
        plane = Plane(self._settings.origin)
        for index in range(self._settings.mowers):
            self._add(index, Frame(plane, index))

    def _add(self, index: int, frame: Frame) -> None:
        settings = self._settings
        seed = settings.seed * 100 + index
        traits = Traits(
            seed=seed,
            start_battery=settings.start_battery,
            has_rain=settings.has_rain,
            weather_seed=settings.seed,
            stuck_per_hour=settings.stuck_per_hour,
            remote_rest_s=_REMOTE_REST_S * settings.time_scale,
        )
        garden = make_garden(seed)
        description = MowerDescription(
            vendor=VENDOR,
            serial=serial_of(settings.seed, index),
            name=settings.name if settings.mowers == 1 else f"{settings.name} {index + 1}",
            model=settings.model,
            links=(LinkKind.SIM,),
            areas=tuple(area_of(patch, frame, number) for number, patch in enumerate(garden.patches, start=1)),
        )
        self._descriptions.append(description)
        self._plots[key_of(description)] = Plot(Machine(garden, traits), frame, CAPABILITIES[settings.model])

    async def mowers(self) -> Sequence[MowerDescription]:
        return tuple(self._descriptions)

    def machine(self, mower: MowerKey) -> Machine:
        """The machine itself, for tests: what is true of it, and what happens to it. KeyError without one."""
        return self._plots[mower].machine

    async def open(self, mower: MowerKey, link: LinkKind) -> SimulatorLink:
        """EntryError for a mower or a link that this entry does not have."""
        plot = self._plots.get(mower)
        if plot is None or link is not LinkKind.SIM:
            raise EntryError(f"there is no {link} link to {mower} in this entry")
        return SimulatorLink(plot, self._settings, self._context)

    async def close(self) -> None:
        """Nothing is held beyond the links."""
