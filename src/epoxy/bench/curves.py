"""Scores by the number of hand labels, as an SVG drawn by hand: one panel for each data set.

Lines differ by colour, by dashes and by marker, so that colour is never alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from .comparison import DataSet, amounts, data_sets

__all__ = ["draw_curves"]

_LINES = {  # colour, dashes, marker
    "Fusion": ("#0b4f9e", "", "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0"),
    "LR-xv": ("#b3261e", "6 3", "M-3 -3h6v6h-6z"),
    "Self-train": ("#6a3d9a", "2 2", "M0 -4L4 3H-4z"),
    "Boost-xv": ("#7a5200", "8 2 2 2", "M0 -4L4 0L0 4L-4 0z"),
    "Epoxy": ("#1b7837", "4 2 1 2", "M-3 -3L3 3M-3 3L3 -3"),
    "MV-LM": ("#555555", "1 3", "M0 -4V4M-4 0H4"),
}
_WIDE, _HIGH, _ACROSS = 230, 170, 4
_LEFT, _RIGHT, _TOP, _BOTTOM = 30, 220, 20, 145


def draw_curves(results: Mapping[str, Any]) -> str | None:
    """The figure; None where results have fewer than two amounts of labels."""
    steps = amounts(results)
    if len(steps) < 2:
        return None
    by_step = [data_sets(results, each) for each in steps]
    ticks = ["all" if each is None else str(each) for each in steps]
    panels = {
        sets[0].name: {name: [each.value(name) for each in sets] for name in _LINES}
        for sets in zip(*by_step, strict=True)
        if any(_drawn(each) for each in sets)
    }
    shown = [_panel(name, lines, ticks) for name, lines in panels.items()]
    placed = [
        f'<g transform="translate({_WIDE * (at % _ACROSS)},{_HIGH * (at // _ACROSS)})">{each}</g>'
        for at, each in enumerate(shown)
    ]
    height = _HIGH * -(-len(shown) // _ACROSS)
    key = "".join(
        f'<g transform="translate({20 + 150 * at},{height + 15})">'
        f"{_line(name, [(0, 0), (30, 0)])}"
        f'<text x="40" y="4">{name}</text></g>'
        for at, name in enumerate(_LINES)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE * _ACROSS} {height + 30}" '
        'role="img" font-family="sans-serif" font-size="10"><title>Score on test by number of hand '
        'labels</title><rect width="100%" height="100%" fill="white"/>'
        + "\n".join([*placed, key])
        + "</svg>\n"
    )


def _drawn(each: DataSet) -> bool:
    return sum(name in each.entries for name in _LINES) > 2


def _panel(title: str, lines: Mapping[str, Sequence[float]], ticks: Sequence[str]) -> str:
    known = [value for line in lines.values() for value in line if np.isfinite(value)]
    low, high = min(known), max(known)
    across = np.linspace(_LEFT + 10, _RIGHT - 10, len(ticks))

    def place(values: Sequence[float]) -> list[tuple[float, float]]:
        down = _BOTTOM - (np.array(values) - low) / max(high - low, 1e-9) * (_BOTTOM - _TOP - 8)
        return [(x, y) for x, y in zip(across, down, strict=True) if np.isfinite(y)]

    marks = "".join(
        f'<text x="{x:.0f}" y="{_BOTTOM + 14}" text-anchor="middle">{tick}</text>'
        for x, tick in zip(across, ticks, strict=True)
    )
    ends = (
        f'<text x="{_LEFT - 3}" y="{y}" text-anchor="end">{value:.0f}</text>'
        for y, value in ((_TOP + 10, high), (_BOTTOM, low))
    )
    return (
        f'<text x="{(_LEFT + _RIGHT) // 2}" y="12" text-anchor="middle">{escape(title)}</text>'
        f'<path d="M{_LEFT} {_TOP}V{_BOTTOM + 3}H{_RIGHT}" fill="none" stroke="#999"/>{marks}'
        + "".join(ends)
        + "".join(_line(name, place(values)) for name, values in reversed(list(lines.items())))
    )


def _line(name: str, points: Sequence[tuple[float, float]]) -> str:
    colour, dashes, marker = _LINES[name]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    marks = "".join(
        f'<path d="{marker}" transform="translate({x:.1f},{y:.1f})" fill="white"/>'
        for x, y in points
    )
    drawn = f'<path d="M{path}" fill="none" stroke-dasharray="{dashes}"/>' if points else ""
    return f'<g stroke="{colour}" stroke-width="1.4">{drawn}{marks}</g>'
