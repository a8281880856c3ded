"""History in bins of one width: the pure rule that each store repeats as one SQL statement.

Bins are anchored at 2000-01-01T00:00:00Z. A range is half open: `start <= observed_at < end`. A bin that begins
before `start` counts only what lies in the range.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from core.domain import limits
from core.domain.clock import from_us, to_us
from core.domain.errors import InvalidInputError, TooManyBinsError
from core.telemetry.rows import HistoryBin, HistoryRow, PositionRow

ANCHOR_US = to_us(datetime(2000, 1, 1, tzinfo=UTC))

STEPS: dict[str, int] = {"5s": 5, "1m": 60, "5m": 300, "15m": 900, "1h": 3_600, "1d": 86_400}
"""Widths in seconds by the name that clients use; `raw` is no width."""
RAW = "raw"


def step_seconds(name: str) -> int | None:
    """The width of a step, None for `raw`; InvalidInputError for an unknown name."""
    if name == RAW:
        return None
    try:
        return STEPS[name]
    except KeyError:
        raise InvalidInputError.of("step", f"must be one of {', '.join([RAW, *STEPS])}") from None


def bin_start_us(stamp_us: int, step_s: int) -> int:
    """Where the bin of an instant begins (microseconds since 1970)."""
    step_us = step_s * 1_000_000
    return (stamp_us - ANCHOR_US) // step_us * step_us + ANCHOR_US


def count_bins(start: datetime, end: datetime, step_s: int) -> int:
    """How many bins the range touches."""
    start_us, end_us = to_us(start), to_us(end)
    if end_us <= start_us:
        return 0
    return (bin_start_us(end_us - 1, step_s) - bin_start_us(start_us, step_s)) // (step_s * 1_000_000) + 1


def fitting_step(start: datetime, end: datetime, most: int = limits.MAX_BINS) -> str | None:
    """The finest named step with at most `most` bins, or None when even days are too many."""
    return next((name for name, step_s in STEPS.items() if count_bins(start, end, step_s) <= most), None)


def check_bins(start: datetime, end: datetime, step_s: int, most: int = limits.MAX_BINS) -> None:
    """TooManyBinsError, naming the step that fits, when the range has more than `most` bins of `step_s` seconds."""
    if step_s <= 0:
        raise InvalidInputError.of("step", "must be a positive number of seconds")
    count = count_bins(start, end, step_s)
    if count > most:
        step = fitting_step(start, end, most)
        advice = f"step {step} fits" if step else "ask for a shorter range"
        raise TooManyBinsError(f"{count} bins are more than {most}: {advice}", fitting_step=step)


def bin_history(
    history: Iterable[HistoryRow],
    positions: Iterable[PositionRow],
    start: datetime,
    end: datetime,
    *,
    step_s: int,
) -> list[HistoryBin]:
    """The bins of one mower that have history rows, oldest first."""
    rows: dict[int, list[HistoryRow]] = {}
    for row in sorted((r for r in history if start <= r.observed_at < end), key=lambda r: r.observed_at):
        rows.setdefault(bin_start_us(to_us(row.observed_at), step_s), []).append(row)
    places: dict[int, PositionRow] = {}
    for place in sorted((p for p in positions if start <= p.observed_at < end), key=lambda p: p.observed_at):
        places[bin_start_us(to_us(place.observed_at), step_s)] = place
    return [_summarise(at_us, members, places.get(at_us)) for at_us, members in sorted(rows.items())]


def rounded_mean(values: list[int]) -> int:
    """The mean of whole numbers >= 0, halves up, in whole arithmetic so that SQL agrees to the digit."""
    return (2 * sum(values) + len(values)) // (2 * len(values))


def _summarise(at_us: int, rows: list[HistoryRow], place: PositionRow | None) -> HistoryBin:
    last = rows[-1]
    batteries = [row.battery_percent for row in rows if row.battery_percent is not None]
    return HistoryBin(
        at=from_us(at_us),
        samples=len(rows),
        activity=last.activity,
        rtk_fix=last.rtk_fix,
        error_code=next((row.error_code for row in reversed(rows) if row.error_code is not None), None),
        battery_mean=rounded_mean(batteries) if batteries else None,
        battery_min=min(batteries, default=None),
        battery_max=max(batteries, default=None),
        is_charging=any(row.is_charging is True for row in rows),
        lat=None if place is None else place.lat,
        lon=None if place is None else place.lon,
    )
