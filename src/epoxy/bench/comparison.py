"""Columns compared: scores with hand labels few or many, and whether a lead is one.

A number nobody measured is NaN, so that differences need no question, and is printed as a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .columns import CEILING, COLUMNS, DEEP, OURS

Results = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Text cells with a header; the first column names the row."""

    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: tuple[frozenset[int], ...] = ()  # by row, the columns to stress
    words: bool = False  # cells are sentences, not numbers


def amounts(results: Results) -> list[int | None]:
    """Amounts of hand labels, all of them last."""
    found = {each["dev_rows"] for each in results["results"]}
    return [*sorted(each for each in found if each is not None), *([None] if None in found else [])]


def _labels(dev_rows: int | None) -> str:
    return "all labels" if dev_rows is None else f"{dev_rows} labels"


def data_sets(results: Results, dev_rows: int | None) -> list[DataSet]:
    """Every data set, with what was measured with so many hand labels."""
    return [DataSet(about, results, dev_rows) for about in results["data"]]


class DataSet:
    """What the results say of one data set with so many hand labels."""

    def __init__(self, about: Mapping[str, Any], results: Results, dev_rows: int | None) -> None:
        self.about = about
        self.name = about["data"]
        self.entries = {
            each["method"]: each
            for each in results["results"]
            if each["data"] == self.name and each["dev_rows"] == dev_rows
        }

    def lead(self, method: str) -> Sequence[float]:
        """Our margin over a column, its interval and standard error; NaN where not measured."""
        return self.entries.get(method, {}).get("margin") or (np.nan,) * 4

    @property
    def baselines(self) -> list[str]:
        """Columns measured beside ours, the best first."""
        known = [name for name in self.entries if name not in (OURS, CEILING)]
        return sorted(known, key=self.value, reverse=True)

    @property
    def first(self) -> str | None:
        """Who leads significantly: ours before every other, or another before ours."""
        best = next(iter(self.baselines), None)
        if best is None or self.lead(best)[2] < 0:
            return best
        ours = self.value(OURS)  # what was not compared is no first, and none before a higher mean
        low = [self.lead(name)[1] for name in self.baselines if "as_of" not in self.entries[name]]
        return OURS if low and min(low) > 0 and self.value(best) < ours else None

    def value(self, method: str, key: str = "mean") -> float:
        """A column's mean score, or another of its figures."""
        found = self.entries.get(method, {}).get(key)
        return np.nan if found is None else float(found)

    def lift(self, method: str, over: str) -> float:
        """Points by which a column beats another."""
        return self.value(method) - self.value(over)

    def above(self, method: str) -> float:
        """Points by which the mean source beats a method."""
        accuracy = self.about["source_accuracy"]
        return np.nan if accuracy is None else float(accuracy) - self.value(method)

    def facts(self, method: str) -> list[Mapping[str, Any]]:
        """What each run of a method told besides its scores."""
        entry = self.entries.get(method)
        return [] if entry is None else [run["facts"] for run in entry["runs"]]

    def fact(self, method: str, name: str) -> float:
        """One number a column told besides its scores."""
        return float(next((each[name] for each in self.facts(method) if name in each), np.nan))

    def drift(self, name: str) -> float:
        """How far fine-tuning moved the vectors, mean over seeds."""
        found = [each["drift"][name] for each in self.facts("WS-FT")]
        return float(np.mean(found)) if found else np.nan

    @property
    def n_rows(self) -> int:
        """Rows of all splits."""
        return sum(self.about[name] for name in ("train", "dev", "test"))


def _written(form: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: "–" if np.isnan(value) else form(value)


points = _written("{:.1f}".format)
signed = _written("{:+.1f}".format)
number = _written("{:.3f}".format)
time = _written(lambda value: f"{value:.3f}" if value < 10 else f"{value:,.0f}")


def compared(results: Results) -> list[Table]:
    """Scores with all labels, who is first, ours against each column, scores with fewer labels."""
    few = [each for each in amounts(results) if each is not None]
    whole = [] if None not in amounts(results) else [_scores(results, None)]
    return [*whole, _first(results), _against(results), *(_scores(results, each) for each in few)]


def _scores(results: Results, dev_rows: int | None) -> Table:
    sets = [each for each in data_sets(results, dev_rows) if each.entries]
    present = {name for each in sets for name in each.entries}
    methods = [column.name for column in COLUMNS if column.name in present]
    rows = [
        (f"{each.name} ({each.about['metric']})", *(_cell(each, method) for method in methods))
        for each in sets
    ]
    values = np.array([[each.value(method) for method in methods] for each in sets])
    light = [method not in (*DEEP, CEILING) for method in methods]
    whole = np.isfinite(values[:, light]).all(axis=1) if any(light) else np.zeros(0, bool)
    best = [frozenset([1 + methods.index(each.first)] if each.first else ()) for each in sets]
    if sum(whole) > 1:
        rows.append((f"mean of {sum(whole)}", *map(points, values[whole].mean(axis=0))))
        seconds = np.array([[each.value(name, "seconds") for name in methods] for each in sets])
        rows.append(("training seconds, mean", *map(time, seconds[whole].mean(axis=0))))
        best += [frozenset(), frozenset()]
    title = "Scores" if dev_rows is None else f"Scores with {_labels(dev_rows)}"
    note = _SCORES_NOTE if dev_rows is None else ""
    return Table(title, note, ("data", *methods), tuple(rows), tuple(best))


_SCORES_NOTE = (
    "Points on the test rows; F1 is that of the positive class. ± standard deviation over seeds and "
    f"draws. ▼ significantly below {OURS}, ▲ significantly above (95 % paired bootstrap over test rows "
    f"and draws of dev rows). Bold: significantly first, {OURS} before every other column or another "
    "before it. † from an earlier run, not compared. WS-LM is the paper's label model in FlyingSquid's "
    "arithmetic for two classes (its own Triplet for more), and Epoxy, WS-NFT, WS-KNN and Liger build on "
    "it; Triplet is this package's own arithmetic for the same model. LR-xv: logistic regression on "
    "vectors and one-hot votes of the hand-labelled rows; Self-train: the same, self-trained on train "
    "rows; Boost-xv: histogram gradient boosting on both. Ceiling: LR-xv on the true labels of all train "
    "rows, the only column that reads them, and no baseline. Training seconds: votes to labels of all "
    "train rows, neighbours known and settings chosen; for end models also their own training. They are "
    "by the clock, and grow with whatever else the machine does."
)


def _cell(each: DataSet, method: str) -> str:
    shown = points(each.value(method))
    entry = each.entries.get(method, {})
    if entry.get("seeds", 1) > 1:
        shown += f" ± {entry['sd']:.1f}"
    _, low, high, _ = each.lead(method)
    return shown + (" ▼" if low > 0 else " ▲" if high < 0 else " †" if "as_of" in entry else "")


def _first(results: Results) -> Table:
    """Our margin over the best baseline of each set, picked with hindsight."""
    steps = amounts(results)
    by_amount = [data_sets(results, each) for each in steps]
    rows = []
    for same in zip(*by_amount, strict=True):
        if any(OURS in each.entries for each in same):
            rows.append((same[0].name, *map(_verdict, same)))
    margins = [
        [each.lead(_measured(each)[0])[0] for each in sets if _measured(each)] for sets in by_amount
    ]
    if rows:
        rows.append(
            ("mean margin", *(signed(float(np.mean(each or [np.nan]))) for each in margins))
        )
    return Table(
        f"Is {OURS} first?",
        f"Points by which {OURS} leads the best other column of the row, picked with hindsight on test; "
        "95 % interval; which column that is. A lead whose interval holds 0 is none.",
        ("data", *map(_labels, steps)),
        tuple(rows),
        words=True,
    )


def _measured(each: DataSet) -> list[str]:
    """Baselines with an interval, the best first."""
    return [name for name in each.baselines if np.isfinite(each.lead(name)[0])]


def _verdict(each: DataSet) -> str:
    best = next(iter(_measured(each)), None)
    if best is None:
        return "–"
    margin, low, high, _ = each.lead(best)
    word = "first" if each.first == OURS else "behind" if high < 0 else "level"
    return f"{margin:+.1f} [{low:+.1f}, {high:+.1f}] {best}: {word}"


def _against(results: Results) -> Table:
    """Our mean margin over each column, and where it is behind."""
    steps = amounts(results)
    rows = []
    for method in (column.name for column in COLUMNS if column.name not in (OURS, CEILING)):
        cells = [_mean_lead(data_sets(results, each), method) for each in steps]
        if any(cell != "–" for cell in cells):
            rows.append((method, *cells))
    note = (
        f"Mean over data sets of {OURS}'s lead in points ± 1.96 standard errors; sets on which it is "
        "significantly ahead / behind / how many were compared."
    )
    header = ("column", *map(_labels, steps))
    return Table(f"{OURS} against each column", note, header, tuple(rows))


def _mean_lead(sets: Sequence[DataSet], method: str) -> str:
    leads = np.array([lead for each in sets if np.isfinite((lead := each.lead(method))[0])])
    if not len(leads):
        return "–"
    error = 1.96 * np.sqrt((leads[:, 3] ** 2).sum()) / len(leads)
    ahead, behind = (leads[:, 1] > 0).sum(), (leads[:, 2] < 0).sum()
    return f"{leads[:, 0].mean():+.1f} ± {error:.1f} ({ahead} / {behind} / {len(leads)})"
