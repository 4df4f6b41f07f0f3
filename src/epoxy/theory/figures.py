"""The figures: synthetic experiments and one source's radius.

Drawn with matplotlib's objects, never its global state. Colours are four of Okabe and Ito's, told
apart by line style and marker too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MissingExtra, ParameterError, UnknownName
from .synthetics import Experiment
from .verdict import RadiusRow, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # blue, vermillion, green, purple
_LINES = ("-", "--", "-.", ":")
_MARKS = ("o", "s", "^", "D")
_INK = "#222222"


def draw_synthetics(experiments: Sequence[Experiment]) -> Figure:
    """Lift against radius, one panel per experiment; the best radius and the chosen one are marked."""
    figure, panels = _panels(len(experiments), height=3.9)
    for panel, experiment in zip(panels, experiments, strict=True):
        for setting, style in zip(experiment.settings, _styles(), strict=False):
            panel.plot(setting.radii, setting.lift, label=setting.name, **_line(style))
            band = (setting.lift - setting.spread, setting.lift + setting.spread)
            panel.fill_between(setting.radii, *band, color=style[0], alpha=0.13, linewidth=0)
            if setting.best_lift > 0 and setting.world.divisions is not None:
                panel.plot(setting.best_radius, setting.best_lift, style[2], color=style[0], ms=7)
                _mark_chosen(panel, setting, style[0])
        panel.axhline(0, color=_INK, linewidth=0.8, alpha=0.6)
        panel.set(title=experiment.title, xlabel="radius r (side of the square = 1)", ylabel="")
        panel.legend(frameon=False, fontsize=9, labelcolor=_INK)
    panels[0].set_ylabel("lift: fall of the risk")
    note = "filled mark: best radius     |: radius chosen from smoothness     band: ± 1 s.e."
    figure.text(0.5, 0.01, note, ha="center", fontsize=8.5, color=_INK)
    figure.subplots_adjust(bottom=0.2, top=0.9, left=0.08, right=0.98, wspace=0.18)
    return figure


def _mark_chosen(panel: Axes, setting: Any, colour: str) -> None:
    picks = setting.chosen["smooth"]
    if not np.isnan(picks).all():
        chosen = float(np.nanmean(picks))
        height = float(np.interp(chosen, setting.radii, setting.lift))
        panel.plot(chosen, height, "|", color=colour, ms=16, mew=2.2)


def draw_source(verdict: Verdict, source: str) -> Figure:
    """One source: radius against coverage, accuracy and lift, prediction beside outcome."""
    rows = [row for row in verdict.rows if row.source == source]
    if not rows:
        known = dict.fromkeys(row.source for row in verdict.rows)
        raise UnknownName.of("source", source, known)
    figure, panels = _panels(3, height=3.6)
    radii = _column(rows, "radius")
    one, two, three = itertools.islice(_styles(), 3)
    panels[0].plot(radii, _column(rows, "coverage"), **_line(one))
    panels[0].set(ylabel="share of train rows it covers", ylim=(0, 1.03), title="coverage")
    panels[1].plot(radii, _column(rows, "new_accuracy"), label="lent votes, on dev", **_line(one))
    panels[1].plot(
        radii, _column(rows, "predicted_accuracy"), label="lent votes, predicted", **_line(two)
    )
    panels[1].plot(radii, _column(rows, "accuracy"), label="all its votes, on dev", **_line(three))
    panels[1].set(ylabel="share of right votes", ylim=(0, 1.03), title="accuracy")
    lift, error = _column(rows, "lift"), 2 * _column(rows, "lift_error")
    panels[2].plot(radii, lift, label="on dev (± 2 s.e.)", **_line(one))
    panels[2].fill_between(radii, lift - error, lift + error, color=one[0], alpha=0.15, linewidth=0)
    panels[2].plot(radii, _column(rows, "predicted_lift"), label="predicted", **_line(two))
    bound = _column(rows, "bound")
    if np.isfinite(bound).any():  # it makes no statement about more than two classes
        panels[2].plot(radii, bound, label="Theorem 1, bound", **_line(three))
    panels[2].axhline(0, color=_INK, linewidth=0.8, alpha=0.6)
    panels[2].set(ylabel="lift: fall of the risk", title="lift")
    chosen = verdict.radius[source]
    for panel in panels:
        panel.set_xlabel("radius (distance)")
        if chosen is not None:
            panel.axvline(chosen, color=_INK, linewidth=1, linestyle=(0, (2, 3)))
    for panel in panels[1:]:
        panel.legend(frameon=False, fontsize=8, labelcolor=_INK)
    told = "not extended" if chosen is None else f"dotted line: radius chosen, {chosen:.3f}"
    figure.suptitle(f"{source} ({told})", color=_INK, fontsize=11)
    figure.subplots_adjust(bottom=0.15, top=0.83, left=0.07, right=0.985, wspace=0.3)
    return figure


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as .png or .svg, the same bytes each time."""
    target = Path(path)
    if target.suffix not in (".png", ".svg"):
        raise ParameterError(
            f"figures are saved as .png or .svg, got {target.name!r}; change the file's ending"
        )
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "epoxy"}):
        stamp = {"Date": None} if target.suffix == ".svg" else {"Software": None}
        figure.savefig(target, dpi=150, metadata=stamp, facecolor=figure.get_facecolor())
    return target


def _panels(count: int, *, height: float) -> tuple[Figure, list[Axes]]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra.of("drawing figures", "matplotlib", "plot") from None
    figure = Figure(figsize=(min(5.2 * count, 12.6), height), facecolor="#ffffff")
    panels = list(np.ravel(figure.subplots(1, count)))
    for panel in panels:
        _dress(panel)
    return figure, panels


def _dress(panel: Axes) -> None:
    panel.set_facecolor("none")
    panel.tick_params(colors=_INK, labelsize=9)
    for side, spine in panel.spines.items():
        spine.set_color(_INK)
        spine.set_visible(side in ("left", "bottom"))
    for text in (panel.xaxis.label, panel.yaxis.label, panel.title):
        text.set_color(_INK)
        text.set_fontsize(10)
    panel.grid(axis="y", color=_INK, alpha=0.15, linewidth=0.7)


def _styles() -> itertools.cycle[tuple[str, str, str]]:
    return itertools.cycle(zip(_COLOURS, _LINES, _MARKS, strict=True))


def _line(style: tuple[str, str, str]) -> dict[str, Any]:
    return {"color": style[0], "linestyle": style[1], "linewidth": 1.9}


def _column(rows: Sequence[RadiusRow], name: str) -> np.ndarray:
    return np.array([getattr(row, name) for row in rows], dtype=np.float64)
