"""Scores by the number of hand labels, as an SVG drawn by hand: one panel for each data set.

Lines differ by colour, by dashes and by marker, so that colour is never alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from .comparison import DataSet, amounts, data_sets

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
    ticks = ["all" if each is None else str(each) for each in steps]
    panels = [
        _panel(sets, ticks)
        for sets in zip(*(data_sets(results, each) for each in steps), strict=True)
        if any(sum(name in each.entries for name in _LINES) > 2 for each in sets)
    ]
    height = _HIGH * -(-len(panels) // _ACROSS)
    places = [(_WIDE * (at % _ACROSS), _HIGH * (at // _ACROSS)) for at in range(len(panels))]
    for at, name in enumerate(_LINES):
        panels.append(f'{_line(name, [(0, 0), (30, 0)])}<text x="40" y="4">{name}</text>')
        places.append((20 + 150 * at, height + 15))
    parts = [
        f'<g transform="translate({x},{y})">{each}</g>' for (x, y), each in zip(places, panels)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE * _ACROSS} {height + 30}" '
        'role="img" font-family="sans-serif" font-size="10"><title>Score on test by number of hand '
        'labels</title><rect width="100%" height="100%" fill="white"/>'
        + "\n".join(parts)
        + "</svg>\n"
    )


def _panel(sets: Sequence[DataSet], ticks: Sequence[str]) -> str:
    lines = np.array([[each.value(name) for each in sets] for name in _LINES])
    low, high = np.nanmin(lines), np.nanmax(lines)
    across = np.linspace(_LEFT + 10, _RIGHT - 10, len(ticks))
    down = _BOTTOM - (lines - low) / max(high - low, 1e-9) * (_BOTTOM - _TOP - 8)
    words = [
        ((_LEFT + _RIGHT) / 2, 12, escape(sets[0].name)),
        *((x, _BOTTOM + 14, tick) for x, tick in zip(across, ticks, strict=True)),
        *((_LEFT - 12, y, f"{value:.0f}") for y, value in ((_TOP + 10, high), (_BOTTOM, low))),
    ]
    drawn = (
        _line(name, [(x, y) for x, y in zip(across, ys, strict=True) if np.isfinite(y)])
        for name, ys in reversed(list(zip(_LINES, down, strict=True)))
    )
    return (
        f'<path d="M{_LEFT} {_TOP}V{_BOTTOM + 3}H{_RIGHT}" fill="none" stroke="#999"/>'
        + "".join(
            f'<text x="{x:.0f}" y="{y}" text-anchor="middle">{each}</text>' for x, y, each in words
        )
        + "".join(drawn)
    )


def _line(name: str, points: Sequence[tuple[float, float]]) -> str:
    colour, dashes, marker = _LINES[name]
    if not points:
        return ""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    marks = (f'<path d="{marker}" transform="translate({x:.1f},{y:.1f})"/>' for x, y in points)
    return (
        f'<g stroke="{colour}" stroke-width="1.4" fill="white">'
        f'<path d="M{path}" fill="none" stroke-dasharray="{dashes}"/>{"".join(marks)}</g>'
    )
