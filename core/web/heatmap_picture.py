"""The picture of a heatmap: the lawn with north up, title, scale bar and legend.

Pillow and not matplotlib: one wheel, and it brings a font of its own, so that a bare Debian can write the words.
"""

from __future__ import annotations

import io
import itertools
import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from core.telemetry.heatmap import Heatmap
from core.telemetry.track_columns import Layer

WIDTH, HEIGHT = 960, 720
_LEFT, _TOP, _WIDE, _HIGH = 30, 84, 730, 560
_LEGEND = 800
_INK, _PAPER, _EMPTY = (32, 36, 40), (252, 252, 250), (232, 232, 228)
Stop = tuple[float, tuple[int, int, int]]
RAMPS: dict[Layer, tuple[Stop, ...]] = {
    "coverage": ((1, (186, 228, 179)), (2, (116, 196, 118)), (4, (49, 163, 84)), (8, (0, 90, 50)), (16, (60, 20, 90))),
    "rtk": ((0.0, (165, 0, 38)), (0.5, (253, 174, 97)), (0.9, (171, 217, 233)), (1.0, (33, 82, 156))),
    "wifi": (
        (-95, (120, 0, 30)),
        (-80, (247, 150, 60)),
        (-70, (253, 205, 80)),
        (-60, (171, 217, 233)),
        (-45, (33, 82, 156)),
    ),
    "mobile": (
        (-120, (120, 0, 30)),
        (-110, (247, 150, 60)),
        (-100, (253, 205, 80)),
        (-90, (171, 217, 233)),
        (-70, (33, 82, 156)),
    ),
}
"""Blue or dark is good: told apart also by people who do not see red from green."""


def draw(made: Heatmap, *, title: str, unit: str, subtitle: str) -> bytes:
    """A PNG. Without any cell it says so."""
    image = Image.new("RGB", (WIDTH, HEIGHT), _PAPER)
    pen = ImageDraw.Draw(image)
    pen.text((_LEFT, 16), title, fill=_INK, font=_font(20))
    pen.text((_LEFT, 48), subtitle, fill=_INK, font=_font(13))
    pen.rectangle((_LEFT, _TOP, _LEFT + _WIDE, _TOP + _HIGH), fill=_EMPTY)
    if made.grid.width == 0:
        pen.text((_LEFT + 20, _TOP + 20), "nothing known in this time", fill=_INK, font=_font(16))
    else:
        _draw_scale(pen, _draw_cells(image, made))
    _draw_legend(pen, made, unit)
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()


def colours_of(values: NDArray[np.float64], layer: Layer) -> NDArray[np.uint8]:
    """Red, green, blue for each value; beyond the ramp its ends, grey for NaN."""
    places = [place for place, _ in RAMPS[layer]]
    known = np.where(np.isfinite(values), values, places[0])
    parts = [np.interp(known, places, [colour[part] for _, colour in RAMPS[layer]]) for part in range(3)]
    colours = np.stack(parts, axis=-1)
    colours[~np.isfinite(values)] = _EMPTY
    return np.round(colours).astype(np.uint8)


def _draw_cells(image: Image.Image, made: Heatmap) -> float:
    """Draws the lawn in the middle of its frame; pixels per metre."""
    grid = made.grid
    colours = colours_of(made.values, made.layer).reshape(grid.height, grid.width, 3)
    pixels = min(_WIDE / grid.width, _HIGH / grid.height)
    if pixels >= 1:
        pixels = float(min(40, math.floor(pixels)))
    size = max(1, round(grid.width * pixels)), max(1, round(grid.height * pixels))
    way = Image.Resampling.NEAREST if pixels >= 1 else Image.Resampling.BOX
    lawn = Image.fromarray(np.ascontiguousarray(colours[::-1])).resize(size, way)
    image.paste(lawn, (_LEFT + (_WIDE - size[0]) // 2, _TOP + (_HIGH - size[1]) // 2))
    return pixels / grid.cell_m


def _draw_scale(pen: ImageDraw.ImageDraw, pixels_per_m: float) -> None:
    length_m = round_length_m(_WIDE / pixels_per_m)
    y, right = HEIGHT - 40, _LEFT + length_m * pixels_per_m
    pen.line([(_LEFT, y), (right, y)], fill=_INK, width=3)
    for x in (_LEFT, right):
        pen.line([(x, y - 6), (x, y + 6)], fill=_INK, width=3)
    pen.text((right + 12, y - 10), f"{length_m:g} m", fill=_INK, font=_font(15))
    x = _LEFT + _WIDE - 14
    pen.polygon([(x, y - 16), (x - 8, y + 8), (x, y + 2), (x + 8, y + 8)], fill=_INK)
    pen.text((x - 28, y - 10), "N", fill=_INK, font=_font(15))


def round_length_m(span_m: float) -> float:
    """1, 2 or 5 times a power of ten metres: at most a quarter of the span, and more than a tenth of it."""
    power = 10.0 ** math.floor(math.log10(span_m / 4))
    return next(step * power for step in (5, 2, 1) if step * power <= span_m / 4 * (1 + 1e-9))


def _draw_legend(pen: ImageDraw.ImageDraw, made: Heatmap, unit: str) -> None:
    ramp, top, high = RAMPS[made.layer], _TOP + 30, 300
    pen.text((_LEGEND, _TOP), unit, fill=_INK, font=_font(15))
    step = high / (len(ramp) - 1)
    for index, ((low, _), (upper, _)) in enumerate(itertools.pairwise(ramp)):
        shares = np.linspace(low, upper, round(step))
        for row, colour in enumerate(colours_of(shares, made.layer).tolist()):
            y = top + high - index * step - row
            pen.line([(_LEGEND, y), (_LEGEND + 26, y)], fill=(colour[0], colour[1], colour[2]))
    for index, (value, _) in enumerate(ramp):
        words = f"{value:.0%}" if made.layer == "rtk" else f"{value:g}"
        pen.text((_LEGEND + 36, top + high - index * step - 8), words, fill=_INK, font=_font(13))
    y = top + high + 24
    pen.rectangle((_LEGEND, y, _LEGEND + 26, y + 16), fill=_EMPTY, outline=_INK)
    pen.text((_LEGEND + 36, y), "never mown" if made.layer == "coverage" else "not measured", fill=_INK, font=_font(13))
    known = int(np.isfinite(made.values).sum())
    lines = [f"cell {made.grid.cell_m:g} m", f"{made.rows} rows"]
    if made.layer == "coverage":
        lines.append(f"mown: {known * made.grid.cell_m**2:.1f} sq m")
    if made.left_out:
        lines.append(f"left out: {made.left_out}")
    pen.multiline_text((_LEGEND, y + 32), "\n".join(lines), fill=_INK, font=_font(13), spacing=5)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
