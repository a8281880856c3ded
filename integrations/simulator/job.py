"""One mowing job: the strokes still to cut, and how far each patch has come. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from integrations.simulator.planner import Stroke
from integrations.simulator.shapes import Point, length


@dataclass(slots=True)
class Job:
    """A job survives charging, rain and a pause; `points` are the places of the current stroke still to reach."""

    patches: tuple[str, ...]
    strokes: deque[Stroke]
    is_by_plan: bool = False
    limit_s: float | None = None
    spent_s: float = 0.0
    patch: str | None = None
    points: tuple[Point, ...] = ()
    _total_m: dict[str, float] = field(default_factory=dict)
    _done_m: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        patches: tuple[str, ...],
        strokes: Sequence[Stroke],
        *,
        is_by_plan: bool = False,
        limit_s: float | None = None,
    ) -> Job:
        total: dict[str, float] = {}
        for stroke in strokes:
            if stroke.area_id is not None:
                total[stroke.area_id] = total.get(stroke.area_id, 0.0) + stroke.length_m
        job = cls(patches=patches, strokes=deque(strokes), is_by_plan=is_by_plan, limit_s=limit_s, _total_m=total)
        job.begin_next()
        return job

    def begin_next(self) -> bool:
        """Takes the next stroke; False when there is none left."""
        if not self.strokes:
            self.points = ()
            return False
        stroke = self.strokes.popleft()
        self.patch, self.points = stroke.area_id, stroke.points
        return True

    def keep(self, points: Sequence[Point]) -> None:
        """What is left of the current stroke, when it is broken off."""
        self.points = tuple(points)

    def count(self, metres: float) -> None:
        """Metres cut of the current stroke."""
        if self.patch is not None:
            self._done_m[self.patch] = self._done_m.get(self.patch, 0.0) + metres

    @property
    def is_over_limit(self) -> bool:
        return self.limit_s is not None and self.spent_s >= self.limit_s

    @property
    def left_m(self) -> float:
        """Metres still to cut."""
        return length(self.points) + sum(stroke.length_m for stroke in self.strokes)

    @property
    def progress(self) -> dict[str, float]:
        """Percent done of each patch of this job."""
        return {
            patch: min(100.0, 100.0 * self._done_m.get(patch, 0.0) / total)
            for patch, total in self._total_m.items()
            if total > 0.0
        }
