"""From a benchmark's results to the paper's tables, as values; pages only write them down.

A number nobody measured is NaN, so that differences need no question, and is printed as a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..heads.networks import DEFAULT_IMAGE, DEFAULT_TEXT
from .columns import COLUMNS, DEEP

__all__ = ["Table", "tables"]

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


def tables(results: Results) -> tuple[Table, ...]:
    """Every table the results can fill, in the order of the paper."""
    sets = [_DataSet(about, results) for about in results["data"]]
    present = {each["method"] for each in results["results"]}
    methods = [column.name for column in COLUMNS if column.name in present]
    network = results["settings"]["network"] or f"{DEFAULT_TEXT}, images {DEFAULT_IMAGE}"
    made = (
        _scores(sets, methods),
        _seconds(sets, methods),
        _filled("Lifts, and what explains them", _LIFTS_NOTE, _LIFTS, sets, "Epoxy"),
        _filled("Precision, recall, F1", _PRECISION_NOTE, _PRECISION, sets, "Epoxy"),
        _filled("What fine-tuning changes", f"{_DRIFT_NOTE} {network}.", _DRIFT, sets, "WS-FT"),
        _ablation(sets),
        _filled("One radius for all sources", _SWEEP_NOTE, _SWEEP, sets, "Epoxy-fixed-r"),
        _filled("One-time preprocessing", _ONCE_NOTE, _ONCE, sets, "Epoxy"),
        _filled("Data", "", _DATA, sets),
        _skipped(results),
    )
    return tuple(table for table in made if table.rows)


class _DataSet:
    """What the results say of one data set."""

    def __init__(self, about: Mapping[str, Any], results: Results) -> None:
        self.about = about
        self.name = about["data"]
        self.entries = {
            each["method"]: each for each in results["results"] if each["data"] == self.name
        }

    def value(self, method: str, key: str = "mean") -> float:
        found = self.entries.get(method, {}).get(key)
        return np.nan if found is None else float(found)

    def lift(self, method: str, over: str) -> float:
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
        return float(next((each[name] for each in self.facts(method) if name in each), np.nan))

    def drift(self, name: str) -> float:
        found = [each["drift"][name] for each in self.facts("WS-FT")]
        return float(np.mean(found)) if found else np.nan

    @property
    def n_rows(self) -> int:
        return sum(self.about[name] for name in ("train", "dev", "test"))

    @property
    def sweep(self) -> Mapping[str, float]:
        """The best of the shared radii tried, as Epoxy-fixed-r keeps it; NaN where none was."""
        tried = [point for each in self.facts("Epoxy-fixed-r") for point in each.get("sweep", ())]
        nothing = dict.fromkeys(("radius", "coverage", "dev_score"), np.nan)
        return max(tried, key=lambda point: point["dev_score"], default=nothing)


def _written(form: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: "–" if np.isnan(value) else form(value)


_points = _written("{:.1f}".format)
_signed = _written("{:+.1f}".format)
_number = _written("{:.3f}".format)
_time = _written(lambda value: f"{value:.3f}" if value < 10 else f"{value:,.0f}")

Cells = Mapping[str, Callable[[_DataSet], str]]
"""A table's columns: the header, and what stands below it for each data set."""


def _filled(
    title: str, note: str, cells: Cells, sets: Sequence[_DataSet], needs: str | None = None
) -> Table:
    """A table with a row for each data set on which the method it is about has run."""
    kept = [each for each in sets if needs is None or needs in each.entries]
    rows = tuple((each.name, *(cell(each) for cell in cells.values())) for each in kept)
    return Table(title, note, ("data", *cells), rows)


_LIFTS: Cells = {
    "coverage WS-LM": lambda s: _points(100 * s.fact("Epoxy", "coverage_before")),
    "coverage Epoxy": lambda s: _points(100 * s.fact("Epoxy", "coverage_after")),
    "1 − d(PT, DN)": lambda s: _number(s.drift("similarity")),
    "Epoxy vs WS-LM": lambda s: _signed(s.lift("Epoxy", "WS-LM")),
    "source accuracy": lambda s: (
        "–" if s.about["source_accuracy"] is None else _points(s.about["source_accuracy"])
    ),
    "accuracy vs TS-NFT": lambda s: _signed(s.above("TS-NFT")),
    "accuracy vs WS-NFT": lambda s: _signed(s.above("WS-NFT")),
    "Epoxy vs TS-NFT": lambda s: _signed(s.lift("Epoxy", "TS-NFT")),
    "Epoxy vs WS-NFT": lambda s: _signed(s.lift("Epoxy", "WS-NFT")),
    "N_train / N_dev": lambda s: _points(s.about["train"] / (s.about["dev"] or np.nan)),
    "Epoxy vs TS-FT": lambda s: _signed(s.lift("Epoxy", "TS-FT")),
    "Epoxy vs WS-FT": lambda s: _signed(s.lift("Epoxy", "WS-FT")),
}
_LIFTS_NOTE = (
    "Coverage: mean share of train rows a source votes on, in percent. Source accuracy: on the "
    "dev rows a source votes on, mean over sources. 1 − d(PT, DN): cosine similarity of vectors "
    "before and after fine-tuning on WS-LM's labels."
)


def _share(method: str, key: str) -> Callable[[_DataSet], str]:
    return lambda each: _points(each.value(method, key))


_PRECISION: Cells = {
    f"{method} {letter}": _share(method, key)
    for method in ("Epoxy", "WS-LM")
    for letter, key in (("P", "precision"), ("R", "recall"), ("F1", "f1"))
}
_PRECISION_NOTE = "Of the positive class; the mean over classes where there are more than two."

_DRIFT: Cells = {
    "min. pre-pool similarity": lambda s: _number(s.drift("pre_pool")),
    "1 − d(PT, DN)": lambda s: _number(s.drift("similarity")),
    "WS-FT vs WS-NFT": lambda s: _signed(s.lift("WS-FT", "WS-NFT")),
}
_DRIFT_NOTE = (
    "Pre-trained against fine-tuned (WS-FT) on the test rows. Pre-pool: the smallest similarity "
    "among a row's tokens or image cells, averaged over rows. Network:"
)

_SWEEP: Cells = {
    "best radius": lambda s: _number(s.sweep["radius"]),
    "dev score": lambda s: _points(s.sweep["dev_score"]),
    "coverage": lambda s: _points(100 * s.sweep["coverage"]),
}
_SWEEP_NOTE = (
    "The shared radius that does best on dev, the score there, and the mean coverage of the sources "
    "within it, in percent. The result's `runs[0].facts.sweep` of Epoxy-fixed-r holds every radius."
)

_ONCE: Cells = {
    "rows": lambda s: f"{s.n_rows:,}",
    "dimension": lambda s: str(s.about["dimension"]),
    "embedding (s)": lambda s: _time(s.fact("WS-FT", "seconds_per_1000_rows") * s.n_rows / 1000),
    "nearest votes (s)": lambda s: _time(s.value("Epoxy", "preprocessing_seconds")),
    "tuning (s)": lambda s: _time(s.value("Epoxy", "tuning_seconds")),
}
_ONCE_NOTE = (
    "Once per data set. The vectors come with the folder; embedding is what one pass of the "
    "fine-tuned columns' network over all rows takes at the rate measured on the test rows."
)

_DATA: Cells = {
    "train": lambda s: f"{s.about['train']:,}",
    "dev": lambda s: f"{s.about['dev']:,}",
    "test": lambda s: f"{s.about['test']:,}",
    "sources": lambda s: f"{s.about['sources']:,}",
    "classes": lambda s: str(len(s.about["classes"])),
    "covered": lambda s: f"{s.about['covered']:.0%}",
    "metric": lambda s: s.about["metric"],
}


def _scores(sets: Sequence[_DataSet], methods: Sequence[str]) -> Table:
    rows = [
        (f"{each.name} ({each.about['metric']})", *(_spread(each, method) for method in methods))
        for each in sets
    ]
    values = [[each.value(method) for method in methods] for each in sets]
    light = [method not in DEEP for method in methods]
    whole = [
        row for row in np.array(values).reshape(len(sets), -1) if np.isfinite(row[light]).all()
    ]
    if len(whole) > 1 and any(light):  # fine-tuned columns have a mean where all these sets do
        values.append(np.mean(whole, axis=0).tolist())
        rows.append((f"mean of {len(whole)}", *map(_points, values[-1])))
    note = (
        "Points on the test rows; F1 is that of the positive class. Mean and standard deviation "
        "over the seeds where a method is random. Bold: best of the row."
    )
    return Table("Scores", note, ("data", *methods), tuple(rows), tuple(map(_largest, values)))


def _seconds(sets: Sequence[_DataSet], methods: Sequence[str]) -> Table:
    rows = []
    for each in sets:
        ours, *slow = (each.value(name, "seconds") for name in ("Epoxy", "WS-FT", "Epoxy-FT"))
        times = [_time(each.value(method, "seconds")) for method in methods]
        known = [seconds for seconds in slow if seconds > 0]
        ratio = f"{min(known) / ours:,.0f} ×" if known and ours > 0 else "–"
        rows.append((each.name, *times, ratio))
    note = (
        "Seconds of one training: votes to the labels of all train rows, neighbours known and "
        "settings chosen; for end models also their own training. Last column: how many times "
        "longer the fastest fine-tuning on train labels takes than Epoxy."
    )
    return Table("Training seconds", note, ("data", *methods, "FT / Epoxy"), tuple(rows))


def _ablation(sets: Sequence[_DataSet]) -> Table:
    known = [each for each in sets if not np.isnan(each.lift("Epoxy", "Epoxy-fixed-r"))]
    values = [[each.value("Epoxy-fixed-r"), each.value("Epoxy")] for each in known]
    rows = [
        (each.name, *map(_points, pair), _signed(pair[1] - pair[0]))
        for each, pair in zip(known, values, strict=True)
    ]
    header = ("data", "Epoxy-fixed-r", "Epoxy", "lift")
    best = tuple(map(_largest, values))
    return Table("One radius or one per source", "", header, tuple(rows), best)


def _skipped(results: Results) -> Table:
    rows = tuple(
        (each["data"], each["method"] or "all", each["reason"]) for each in results["skipped"]
    )
    return Table("Not run", "", ("data", "method", "why"), rows, words=True)


def _largest(values: Sequence[float]) -> frozenset[int]:
    """Positions (counting the row's name) of the largest values as they are printed."""
    shown = [round(each, 1) for each in values]
    top = np.nanmax([*shown, -np.inf])
    return frozenset(index + 1 for index, each in enumerate(shown) if each == top)


def _spread(each: _DataSet, method: str) -> str:
    shown = _points(each.value(method))
    many = each.value(method, "seeds") > 1
    return f"{shown} ± {each.value(method, 'sd'):.1f}" if many else shown
