"""Draw the figures of the documentation from benchmarks/results, and a reliability curve on the digits.

python docs/figures.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import epoxy
from epoxy.datasets import digits_lfs

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "benchmarks" / "results"
LINES = {
    "Fusion": "Fusion (the default)",
    "LR-xv": "linear head on hand labels",
    "Self-train": "the same, self-trained",
    "Epoxy": "Epoxy (the paper)",
    "WS-LM": "the paper's label model",
    "MV-LM": "majority vote",
}
MARKS = "os^Dx+"  # colour is never alone


def main() -> None:
    """Every figure that is not a photograph of the studio."""
    sys.path.insert(0, str(HERE.parent / "benchmarks"))
    import answers
    from kept import read_rows

    draw("score-by-labels.png", scores)
    draw("reliability.png", reliability)
    draw("speed-scaling.png", scaling)
    answers._draw(read_rows(RESULTS / "answers.csv"), str(HERE / "answers.png"))


def draw(name: str, fill: object) -> None:
    """One panel, saved beside the pages."""
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.add_subplot()
    fill(axes)  # type: ignore[operator]
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(HERE / name, dpi=130)


def scores(axes: Axes) -> None:
    """Mean score on test by the number of hand labels, over the sets on which every line was measured."""
    table = mean_scores()
    at = ["0", "5", "20", "100", "all"]
    for mark, (method, words) in zip(MARKS, LINES.items(), strict=True):
        axes.plot(at, table.loc[method].reindex(at), marker=mark, label=words)
    axes.set_xlabel("hand labels")
    axes.set_ylabel("score on test, mean of eleven sets")


def mean_scores() -> pd.DataFrame:
    """Mean over data sets by method and number of hand labels; a dash where a set is missing."""
    runs = pd.read_csv(RESULTS / "bench.csv")
    runs = runs[runs["data"] != "spouse_paper_L"]  # votes alone
    runs["labels"] = [
        "all" if np.isnan(each) else str(int(each)) for each in runs["dev_rows"].astype(float)
    ]
    by_set = runs.groupby(["method", "labels", "data"])["score"].mean()
    found = by_set.groupby(["method", "labels"]).agg(["mean", "size"])
    return found["mean"].where(found["size"] == runs["data"].nunique()).unstack()


def reliability(axes: Axes) -> None:
    """How often a label is right, by how sure the model says it is: 500 digits it never saw."""
    lfs = [value for value in vars(digits_lfs).values() if hasattr(value, "vote")]
    data = epoxy.datasets.load("digits")
    train, dev, test = data.prepare(lfs)
    truth = data.truth["test"]
    models = {
        "majority vote": epoxy.MajorityVote().fit(train.votes).predict_proba(test.votes),
        "Epoxy (the paper)": epoxy.tune(train, dev).predict_proba(test),
        "Fusion (the default)": epoxy.Fusion().fit(train, dev).predict_proba(test),
    }
    edges = np.linspace(0, 1, 11)
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", label="as sure as right")
    for mark, (name, proba) in zip(MARKS, models.items(), strict=False):
        sure, right = proba.max(axis=1), proba.argmax(axis=1) == truth
        group = np.minimum(np.digitize(sure, edges) - 1, 9)
        many = [at for at in range(10) if (group == at).sum() >= 10]
        said = [sure[group == at].mean() for at in many]
        axes.plot(said, [right[group == at].mean() for at in many], marker=mark, label=name)
    axes.set_xlabel("probability of the label")
    axes.set_ylabel("share of such labels that are right")


def scaling(axes: Axes) -> None:
    """Seconds against rows."""
    points = pd.read_csv(RESULTS / "scaling.csv")
    for mark, name in zip(MARKS, ("graph", "edit", "radius"), strict=False):
        seconds = points[f"{name}_seconds"]
        slope = np.polyfit(np.log(points["rows"]), np.log(seconds), 1)[0]
        words = {"graph": "finding neighbours", "edit": "an edit", "radius": "a radius"}[name]
        axes.loglog(points["rows"], seconds, marker=mark, label=f"{words}: rows^{slope:.2f}")
    axes.set_xlabel("rows")
    axes.set_ylabel("seconds")


if __name__ == "__main__":
    main()
