"""The few rows of a track that say most of it, in the order of thinning: rows that a rule keeps come before those that
only the bound keeps, and of each kind the one that lies farthest from the line so far comes next.

Pure. Nothing is deleted; what is left out is within the stated error of the line through what is left.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from core.telemetry.thinning import JudgedTrack, TrackPoint, stated_mm

_Gap = tuple[float, int, int, int]
"""Minus the square of the largest distance, its row, and the rows that the gap lies between: the worst gap is the
smallest, ties go to the earlier row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simplified:
    """Indexes of the rows that stay, ascending, and how far the others are from the line through these at most."""

    kept: tuple[int, ...]
    error_mm: int


def simplify(rows: Sequence[TrackPoint], most: int, error_times: Collection[int] = ()) -> Simplified:
    """At most `most` (2 or more) rows of one mower's track, ascending in time with no time twice, first and last among
    them. 0 mm when none is left out."""
    if len(rows) <= most:
        return Simplified(kept=tuple(range(len(rows))), error_mm=0)
    track = JudgedTrack(rows)
    by_rules = [index for index, is_kept in enumerate(track.find_by_rules(frozenset(error_times))) if is_kept]
    if len(by_rules) > most:
        kept = _take_farthest(track, by_rules, [0, len(rows) - 1], most)
    else:
        kept = _take_farthest(track, range(len(rows)), by_rules, most)
    left_out = [gap for a, b in itertools.pairwise(kept) if (gap := _gap(track, range(len(rows)), a, b))]
    return Simplified(kept=tuple(kept), error_mm=stated_mm(-min(left_out)[0]) if left_out else 0)


def _take_farthest(track: JudgedTrack, candidates: Sequence[int], ends: Sequence[int], most: int) -> list[int]:
    """`ends` and the candidates that are farthest from the line, one after the other, up to `most`."""
    kept = list(ends)
    gaps = [gap for a, b in itertools.pairwise(ends) if (gap := _gap(track, candidates, a, b))]
    heapify(gaps)
    while gaps and len(kept) < most:
        square, index, a, b = heappop(gaps)
        if square == 0.0:
            break
        kept.append(index)
        for gap in (_gap(track, candidates, a, index), _gap(track, candidates, index, b)):
            if gap is not None:
                heappush(gaps, gap)
    return sorted(kept)


def _gap(track: JudgedTrack, candidates: Sequence[int], a: int, b: int) -> _Gap | None:
    """The farthest candidate strictly between two rows; None without one."""
    between = candidates[bisect_left(candidates, a + 1) : bisect_left(candidates, b)]
    if not between:
        return None
    square, index = min((-track.square_m2(a, b, index), index) for index in between)
    return square, index, a, b
