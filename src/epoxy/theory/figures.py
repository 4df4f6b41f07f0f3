"""The figures: synthetic experiments and one source's radius.

Drawn with matplotlib's objects, never its global state.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MissingExtra, ParameterError, UnknownName
from .synthetics import Experiment
from .verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = [  # four of Okabe and Ito's colours, told apart by line style too
    {"color": colour, "linestyle": line, "linewidth": 1.9}
    for colour, line in zip(("#0072B2", "#D55E00", "#009E73", "#CC79A7"), ("-", "--", "-.", ":"))
]


def draw_synthetics(experiments: Sequence[Experiment]) -> Figure:
    """Lift against radius, one panel per experiment; the best radius and the chosen one are marked."""
    figure, panels = _panels(len(experiments))
    for panel, experiment in zip(panels, experiments, strict=True):
        for setting, style in zip(experiment.settings, _STYLES):
            _line(panel, setting.radii, setting.lift, setting.name, style, setting.spread)
            if setting.best_lift > 0 and setting.world.divisions is not None:
                colour = style["color"]
                panel.plot(setting.best_radius, setting.best_lift, "o", color=colour)
                chosen = float(np.nanmean(np.append(setting.chosen, setting.best_radius)))
                height = float(np.interp(chosen, setting.radii, setting.lift))
                panel.plot(chosen, height, "|", color=colour, ms=16, mew=2.2)
        panel.axhline(0, color="black", linewidth=0.8)
        panel.set(title=experiment.title, xlabel="radius r (side of the square = 1)")
        panel.legend(frameon=False)
    panels[0].set_ylabel("lift: fall of the risk")
    note = "filled mark: best radius     |: radius chosen from smoothness     band: ± 1 s.e."
    figure.supxlabel(note, fontsize=9)
    return figure


def draw_source(verdict: Verdict, source: str) -> Figure:
    """One source: radius against coverage, accuracy and lift, prediction beside outcome."""
    rows = [row for row in verdict.rows if row.source == source]
    if not rows:
        known = dict.fromkeys(row.source for row in verdict.rows)
        raise UnknownName.of("source", source, known)
    column = {name: np.array([getattr(row, name) for row in rows]) for name in vars(rows[0])}
    radii, chosen = column["radius"], verdict.radius[source]
    figure, (coverage, accuracy, lift) = _panels(3)
    one, two, three, _ = _STYLES
    _line(coverage, radii, column["coverage"], "train rows it covers", one)
    _line(accuracy, radii, column["new_accuracy"], "lent votes, on dev", one)
    _line(accuracy, radii, column["predicted_accuracy"], "lent votes, predicted", two)
    _line(accuracy, radii, column["accuracy"], "all its votes, on dev", three)
    _line(lift, radii, column["lift"], "on dev (± 2 s.e.)", one, 2 * column["lift_error"])
    _line(lift, radii, column["predicted_lift"], "predicted", two)
    lift.axhline(0, color="black", linewidth=0.8)
    coverage.set(title="coverage", ylabel="share of rows", ylim=(0, 1.03))
    accuracy.set(title="accuracy", ylabel="share of right votes", ylim=(0, 1.03))
    lift.set(title="lift", ylabel="lift: fall of the risk")
    for panel in (coverage, accuracy, lift):
        panel.set_xlabel("radius (distance)")
        panel.legend(frameon=False, fontsize=8)
        if chosen is not None:
            panel.axvline(chosen, color="black", linewidth=1, linestyle=":")
    told = "not extended" if chosen is None else f"dotted line: radius chosen, {chosen:.3f}"
    figure.suptitle(f"{source} ({told})", fontsize=11)
    return figure


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as .png or .svg, the same bytes each time."""
    target = Path(path)
    if target.suffix not in (".png", ".svg"):
        raise ParameterError(
            f"figures are saved as .png or .svg, got {target.name!r}; change the file's ending"
        )
    from matplotlib import rc_context

    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # panels would move a little each time
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "epoxy"}):
        stamp = {"Date": None} if target.suffix == ".svg" else {"Software": None}
        figure.savefig(target, dpi=150, metadata=stamp)
    return target


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra.of("drawing figures", "matplotlib", "plot") from None
    figure = Figure(figsize=(4.2 * count, 3.8), layout="constrained")
    panels = list(np.ravel(figure.subplots(1, count)))
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", alpha=0.3)
    return figure, panels


def _line(panel: Axes, x: Any, y: Any, label: str, style: dict[str, Any], band: Any = None) -> None:
    panel.plot(x, y, label=label, **style)
    if band is not None:
        panel.fill_between(x, y - band, y + band, color=style["color"], alpha=0.14, linewidth=0)
