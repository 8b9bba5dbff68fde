"""Plots as our own SVG: stacked columns by day with the limit as a line, and bars. Each has its words beside it.

Series are told apart by pattern as well as by colour; labels are HTML around the drawing, so that they keep their
size on a phone. Numbers come from the ledger; names are escaped by Markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from markupsafe import Markup

from portal.ui import markup, words
from portal.ui.usage_words import number

_WIDTH, _HEIGHT = 900.0, 180.0
_GAP = 0.22  # of a day's width
_FAR = 2.0  # a limit this many times above the highest column would flatten the plot: it is told in words instead

# Drawn once on the page; each series refers to its own by `url(#…)`.
PATTERNS = Markup(
    '<svg class="off-screen" aria-hidden="true" width="0" height="0"><defs>'
    '<pattern id="fill-blank" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="ground" width="6"'
    ' height="6"/><circle cx="3" cy="3" r="1.4"/></pattern>'
    '<pattern id="fill-failed" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="ground" width="7" height="7"/><rect width="3" height="7"/></pattern>'
    '<pattern id="fill-truncated" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="ground" width="6"'
    ' height="6"/><rect width="6" height="2.4"/></pattern>'
    '<pattern id="fill-free" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="ground" width="6"'
    ' height="6"/><rect width="2" height="6"/></pattern>'
    '<pattern id="fill-refused" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<rect class="ground" width="7" height="7"/><rect width="3" height="7"/></pattern>'
    '<pattern id="fill-nearest" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="ground" width="8" height="8"/><rect width="5" height="8"/></pattern>'
    '<pattern id="fill-nearest-warn" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="ground" width="8" height="8"/><rect width="5" height="8"/></pattern>'
    '<pattern id="fill-nearest-full" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="ground" width="8" height="8"/><rect width="5" height="8"/></pattern>'
    "</defs></svg>"
)


@dataclass(frozen=True)
class Column:
    """A day with the heights of its stacked series, lowest first, and what is said of it on hover."""

    label: str
    values: tuple[int, ...]
    words: str


def columns(found: Sequence[Column], series: Sequence[str], *, title: str, limit: int | None = None) -> Markup:
    """Stacked columns of the `series`, as a figure with a scale, the first and last label, and a legend."""
    highest = max((sum(column.values) for column in found), default=0)
    is_near = limit is not None and 0 < limit <= max(highest, 1) * _FAR
    top = _rounded_up(max(highest, limit if is_near and limit else 0, 1))
    drawn = markup.joined(_column(column, at, len(found), series, top) for at, column in enumerate(found))
    line = _line(limit, top) if is_near and limit else Markup("")
    return Markup(
        '<figure class="plot"><div class="plot-frame"><span class="plot-top">{0}</span>'
        '<span class="plot-zero">0</span>'
        '<svg viewBox="0 0 {1:.0f} {2:.0f}" preserveAspectRatio="none" role="img" aria-label="{3}">'
        "{4}{5}</svg>{6}</div>"
        '<div class="plot-days" aria-hidden="true">{7}</div>{8}</figure>'
    ).format(
        number(top),
        _WIDTH,
        _HEIGHT,
        title,
        drawn,
        line,
        _line_label(limit, top) if line and limit else "",
        _days(found),
        legend(series),
    )


def legend(series: Sequence[str]) -> Markup:
    """The series with their patterns."""
    names = words.SERIES | {"refused": "refused requests"}
    items = markup.joined(
        Markup(
            '<li><svg width="18" height="14" aria-hidden="true"><rect class="fill-{0}" width="18" height="14"/></svg>'
            " {1}</li>"
        ).format(name, names[name])
        for name in series
    )
    return Markup('<ul class="legend">{}</ul>').format(items)


def bar(share: float, *, kind: str = "charged") -> Markup:
    """A bar filled to `share` (0–1); its words stand beside it, so readers are spared it."""
    return Markup(
        '<svg class="bar" viewBox="0 0 300 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="bar-ground" width="300" height="10"/><rect class="fill-{}" width="{:.1f}" height="10"/></svg>'
    ).format(kind, 300 * min(max(share, 0.0), 1.0))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str) -> Markup:
    """The same as a table, folded away until somebody wants it."""
    cells = markup.joined(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row[0], markup.joined(Markup("<td>{}</td>").format(cell) for cell in row[1:])
        )
        for row in rows
    )
    heads = markup.joined(Markup('<th scope="col">{}</th>').format(name) for name in head)
    return Markup(
        '<details class="as-table"><summary>Show as a table</summary>'
        '<div class="table-frame" tabindex="0" role="region" aria-label="{0}">'
        "<table><caption>{0}</caption><thead><tr>{1}</tr></thead><tbody>{2}</tbody></table></div>"
        "</details>"
    ).format(caption, heads, cells)


def _column(column: Column, at: int, count: int, series: Sequence[str], top: int) -> Markup:
    width = _WIDTH / max(count, 1)
    left, base = at * width + width * _GAP / 2, _HEIGHT
    parts = []
    for name, value in zip(series, column.values, strict=True):
        height = value / top * _HEIGHT
        base -= height
        if value:
            parts.append(
                Markup('<rect class="fill-{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
                    name, left, base, width * (1 - _GAP), height
                )
            )
    # The whole height of the day can be pointed at, also where its column is low.
    area = Markup('<rect class="plot-area" x="{:.1f}" y="0" width="{:.1f}" height="{:.0f}"/>').format(
        at * width, width, _HEIGHT
    )
    return Markup("<g><title>{}</title>{}{}</g>").format(column.words, area, markup.joined(parts))


def _line(limit: int, top: int) -> Markup:
    y = _HEIGHT * (1 - limit / top)
    return Markup('<line class="plot-limit" x1="0" x2="{:.0f}" y1="{:.1f}" y2="{:.1f}"/>').format(_WIDTH, y, y)


def _line_label(limit: int, top: int) -> Markup:
    return Markup('<span class="plot-limit-label" style="top: {:.1f}%">limit {}</span>').format(
        100 * (1 - limit / top), number(limit)
    )


def _days(found: Sequence[Column]) -> Markup:
    if not found:
        return Markup("")
    shown = (found[0].label, found[len(found) // 2].label, found[-1].label)
    return markup.joined(Markup("<span>{}</span>").format(label) for label in shown)


def _rounded_up(value: int) -> int:
    """The next number that reads well: 1, 2, 5, 10, 12, 15, 20, 25 …"""
    step: int = 10 ** max(len(str(value)) - 2, 0)
    return ceil(value / step) * step
