"""Angles, turns and boxes of text quads. Pure; pixels, origin top left, y down, so positive turns are clockwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from portal.page_text import Box, Line, Quad

_MAX_SKEW_DEGREES = 30.0
_MIN_SKEW_DEGREES = 0.2


def bounding_box(quad: Quad, width_px: int, height_px: int) -> Box:
    """The upright box around a quad, clipped to the page."""
    xs, ys = quad[0::2], quad[1::2]
    return (
        max(0, math.floor(min(xs))),
        max(0, math.floor(min(ys))),
        min(width_px, math.ceil(max(xs))),
        min(height_px, math.ceil(max(ys))),
    )


def skew_degrees(quads: Sequence[Quad]) -> float:
    """Median tilt of the longer half of the long lines, -30 to 30; 0 where none is long or the tilt does not matter."""
    longest = sorted(filter(_is_long, quads), key=_length, reverse=True)
    telling = longest[: (len(longest) + 1) // 2]
    angles = [math.degrees(math.atan2(quad[3] - quad[1], quad[2] - quad[0])) for quad in telling]
    angle = median(angles) if angles else 0.0
    return round(angle, 2) if _MIN_SKEW_DEGREES <= abs(angle) <= _MAX_SKEW_DEGREES else 0.0


def straightened(line: Line, skew: float) -> tuple[float, float, float, float]:
    """The line's box (x0, y0, x1, y1) after turning the page about its origin by `-skew` degrees."""
    if line.box is None:
        raise ValueError("a line without a box has no place on the page")
    if line.quad is None or skew == 0.0:
        return line.box
    cosine, sine = math.cos(math.radians(-skew)), math.sin(math.radians(-skew))
    corners = list(zip(line.quad[0::2], line.quad[1::2], strict=True))
    xs = [x * cosine - y * sine for x, y in corners]
    ys = [x * sine + y * cosine for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)


def _length(quad: Quad) -> float:
    return math.hypot(quad[2] - quad[0], quad[3] - quad[1])


def _is_long(quad: Quad) -> bool:
    return abs(quad[2] - quad[0]) > 4 * abs(quad[7] - quad[1])
