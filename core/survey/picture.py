"""The picture of a survey: the walked path on a local metric plane, coloured by dBm. Needs Pillow (extra `survey`)."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from core.survey.sample import TOO_WEAK_DBM, WEAK_DBM, Head, Sample
from core.survey.summary import Located, Summary, best_of, locate

WIDTH, HEIGHT = 960, 640
_MARGIN, _LEGEND = 40, 230
_TOP = 70
_GAP_US = 10_000_000
"""Two samples further apart in time are not joined: nobody knows the way between them."""
_STEP_M_MAX = 25.0
_INK, _PAPER, _PALE = (32, 36, 40), (252, 252, 250), (206, 210, 214)
_SILENT = (90, 90, 90)
_RAMP = (
    (-100, (90, 0, 25)),
    (TOO_WEAK_DBM - 1, (214, 47, 39)),
    (TOO_WEAK_DBM, (247, 150, 60)),
    (WEAK_DBM - 1, (253, 205, 80)),
    (WEAK_DBM, (171, 217, 233)),
    (-50, (33, 82, 156)),
)
"""Blue is good, yellow weak, red too weak: told apart also by people who do not see red from green."""

_Colour = tuple[int, int, int]


def colour_of(rssi_dbm: int | None) -> _Colour:
    """The colour of a strength; grey for silence."""
    if rssi_dbm is None:
        return _SILENT
    if rssi_dbm <= _RAMP[0][0]:
        return _RAMP[0][1]
    for (low, first), (high, second) in itertools.pairwise(_RAMP):
        if rssi_dbm <= high:
            share = (rssi_dbm - low) / (high - low)
            red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
            return red, green, blue
    return _RAMP[-1][1]


def draw(head: Head, samples: Sequence[Sample], summary: Summary) -> bytes | None:
    """A PNG; None when no sample has a place on a plane: then there is nothing to draw."""
    located = locate(best_of(samples))
    if not located:
        return None
    image = Image.new("RGB", (WIDTH, HEIGHT), _PAPER)
    pen = ImageDraw.Draw(image)
    frame = _Frame(located)
    _draw_grid(pen, frame)
    _draw_path(pen, frame, located)
    is_geographic = any(one.sample.place is not None and one.sample.place.lat is not None for one in located)
    _draw_scale(pen, frame, has_north=is_geographic)
    _draw_legend(pen, summary)
    moved = "the box was carried, the mower stood" if head.carried == "box" else "the mower moved, the box stood"
    pen.text((_MARGIN, 16), f"Bluetooth of {_shown(head.mower)}", fill=_INK, font=_font(20))
    pen.text((_MARGIN, 43), f"{head.started_at:%Y-%m-%d %H:%M} UTC; {moved}", fill=_INK, font=_font(13))
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=True)
    return stream.getvalue()


class _Frame:
    """From metres to pixels, the same in both directions, y upwards."""

    def __init__(self, located: Sequence[Located]) -> None:
        east = [one.point.east_m for one in located]
        north = [one.point.north_m for one in located]
        wide = WIDTH - _LEGEND - 2 * _MARGIN
        high = HEIGHT - _TOP - 2 * _MARGIN
        self.span_m = max(max(east) - min(east), (max(north) - min(north)) * wide / high, 4.0)
        self.pixels_per_m = wide / self.span_m * 0.94
        self._middle_m = ((min(east) + max(east)) / 2, (min(north) + max(north)) / 2)
        self._middle = (_MARGIN + wide / 2, _TOP + high / 2)
        self.left_m = self._middle_m[0] - wide / 2 / self.pixels_per_m
        self.right_m = self._middle_m[0] + wide / 2 / self.pixels_per_m
        self.bottom_m = self._middle_m[1] - high / 2 / self.pixels_per_m
        self.top_m = self._middle_m[1] + high / 2 / self.pixels_per_m

    def at(self, east_m: float, north_m: float) -> tuple[float, float]:
        x = self._middle[0] + (east_m - self._middle_m[0]) * self.pixels_per_m
        y = self._middle[1] - (north_m - self._middle_m[1]) * self.pixels_per_m
        return x, y


def round_length_m(span_m: float) -> float:
    """1, 2 or 5 times a power of ten metres: at most a quarter of the span, and more than a tenth of it."""
    power = 10.0 ** math.floor(math.log10(span_m / 4))
    return next(step * power for step in (5, 2, 1) if step * power <= span_m / 4 * (1 + 1e-9))


def _draw_grid(pen: ImageDraw.ImageDraw, frame: _Frame) -> None:
    step_m = round_length_m(frame.span_m)
    for number in range(math.ceil(frame.left_m / step_m), math.floor(frame.right_m / step_m) + 1):
        x, _ = frame.at(number * step_m, 0)
        pen.line([(x, _TOP), (x, HEIGHT - 2 * _MARGIN)], fill=_PALE)
    for number in range(math.ceil(frame.bottom_m / step_m), math.floor(frame.top_m / step_m) + 1):
        _, y = frame.at(0, number * step_m)
        pen.line([(_MARGIN, y), (WIDTH - _LEGEND - _MARGIN, y)], fill=_PALE)


def _draw_path(pen: ImageDraw.ImageDraw, frame: _Frame, located: Sequence[Located]) -> None:
    for before, here in itertools.pairwise(located):
        gap_us = (here.sample.at - before.sample.at).total_seconds() * 1e6
        step_m = math.dist((before.point.east_m, before.point.north_m), (here.point.east_m, here.point.north_m))
        if gap_us <= _GAP_US and step_m <= _STEP_M_MAX:
            ends = [frame.at(one.point.east_m, one.point.north_m) for one in (before, here)]
            pen.line(ends, fill=colour_of(here.sample.rssi_dbm), width=3)
    for one in located:
        x, y = frame.at(one.point.east_m, one.point.north_m)
        colour = colour_of(one.sample.rssi_dbm)
        if one.sample.rssi_dbm is None:
            pen.line([(x - 5, y - 5), (x + 5, y + 5)], fill=colour, width=2)
            pen.line([(x - 5, y + 5), (x + 5, y - 5)], fill=colour, width=2)
        else:
            pen.ellipse([(x - 5, y - 5), (x + 5, y + 5)], fill=colour)


def _draw_scale(pen: ImageDraw.ImageDraw, frame: _Frame, *, has_north: bool) -> None:
    length_m = round_length_m(frame.span_m)
    left, y = _MARGIN, HEIGHT - 34
    right = left + length_m * frame.pixels_per_m
    pen.line([(left, y), (right, y)], fill=_INK, width=3)
    for x in (left, right):
        pen.line([(x, y - 6), (x, y + 6)], fill=_INK, width=3)
    pen.text((right + 12, y - 9), f"{length_m:g} m", fill=_INK, font=_font(15))
    if has_north:
        x = WIDTH - _LEGEND - _MARGIN - 14
        pen.polygon([(x, y - 18), (x - 8, y + 6), (x, y), (x + 8, y + 6)], fill=_INK)
        pen.text((x - 26, y - 9), "N", fill=_INK, font=_font(15))


def _draw_legend(pen: ImageDraw.ImageDraw, summary: Summary) -> None:
    left, top, high = WIDTH - _LEGEND, _TOP + 20, 300
    strongest, weakest = _RAMP[-1][0], _RAMP[0][0]
    pen.text((left, _TOP - 6), "signal (dBm)", fill=_INK, font=_font(15))
    for row in range(high):
        dbm = strongest + (weakest - strongest) * row / (high - 1)
        pen.line([(left, top + row), (left + 26, top + row)], fill=colour_of(round(dbm)))

    def y_of(dbm: int) -> float:
        return top + high * (strongest - dbm) / (strongest - weakest)

    for dbm in (-50, -60, -70, WEAK_DBM, TOO_WEAK_DBM, -100):
        is_limit = dbm in (WEAK_DBM, TOO_WEAK_DBM)
        end = left + (38 if is_limit else 32)
        pen.line(
            [(left if is_limit else left + 26, y_of(dbm)), (end, y_of(dbm))], fill=_INK, width=2 if is_limit else 1
        )
        pen.text((left + 42, y_of(dbm) - 8), str(dbm), fill=_INK, font=_font(13))
    for word, dbm in (("good", -65), ("weak", -84), ("too weak", -94)):
        pen.text((left + 88, y_of(dbm) - 9), word, fill=_INK, font=_font(15))
    y = top + high + 22
    pen.line([(left + 4, y - 5), (left + 14, y + 5)], fill=_SILENT, width=2)
    pen.line([(left + 4, y + 5), (left + 14, y - 5)], fill=_SILENT, width=2)
    pen.text((left + 42, y - 9), "nothing heard", fill=_INK, font=_font(14))
    best = summary.best
    lines = [f"{best.samples} measurements"]
    if best.median_dbm is not None:
        lines += [
            f"median {best.median_dbm:g} dBm",
            f"below {WEAK_DBM}: {best.below_weak_percent:g} %",
            f"below {TOO_WEAK_DBM}: {best.below_too_weak_percent:g} %",
        ]
    if summary.without_place:
        lines.append(f"without a place: {summary.without_place}")
    pen.multiline_text((left, y + 26), "\n".join(lines), fill=_INK, font=_font(14), spacing=5)


def _shown(name: str) -> str:
    return "".join(c if c.isprintable() else " " for c in name)[:60]


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
