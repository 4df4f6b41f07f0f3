"""From a benchmark's results to the paper's tables, as values; pages only write them down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..heads.networks import DEFAULT_IMAGE, DEFAULT_TEXT
from .columns import COLUMNS, DEEP

__all__ = ["Sweep", "Table", "sweeps", "tables"]

Results = Mapping[str, Any]
Picked = float | None


@dataclass(frozen=True)
class Table:
    """Text cells with a header; the first column names the row."""

    title: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: tuple[frozenset[int], ...] = ()  # by row, the columns to stress
    words: bool = False  # cells are sentences, not numbers


@dataclass(frozen=True)
class Sweep:
    """How one shared radius changes dev score and coverage on one data set."""

    data: str
    radius: tuple[float, ...]
    lift: tuple[float, ...]  # points of dev score over WS-LM
    coverage: tuple[float, ...]  # mean share of rows a source votes on, 0 to 1


def tables(results: Results) -> tuple[Table, ...]:
    """Every table the results can fill, in the order of the paper."""
    book = _Book(results)
    made = (
        _scores(book),
        _seconds(book),
        _explanation(book),
        _precision(book),
        _drift(book),
        _ablation(book),
        _preprocessing(book),
        _data(book),
        _skipped(results),
    )
    return tuple(table for table in made if table.rows)


def sweeps(results: Results) -> tuple[Sweep, ...]:
    """The sweep figure's lines: Epoxy with one radius, on dev (the test labels are not asked)."""
    book = _Book(results)
    found = []
    for data in book.data:
        fixed, plain = book.entry(data, "Epoxy-fixed-r"), book.entry(data, "WS-LM")
        points = _fact(fixed, "sweep")
        base = None if plain is None else plain["runs"][0].get("dev_score")
        if not points or base is None:
            continue
        found.append(
            Sweep(
                data,
                tuple(point["radius"] for point in points),
                tuple(point["dev_score"] - base for point in points),
                tuple(point["coverage"] for point in points),
            )
        )
    return tuple(found)


class _Book:
    """Results by data set and method."""

    def __init__(self, results: Results) -> None:
        self.about = {each["data"]: each for each in results["data"]}
        self.data = [each["data"] for each in results["data"]]
        self.network = results["settings"]["network"] or f"{DEFAULT_TEXT}, images {DEFAULT_IMAGE}"
        self._entries = {(each["data"], each["method"]): each for each in results["results"]}
        present = {method for _, method in self._entries}
        self.methods = [column.name for column in COLUMNS if column.name in present]

    def entry(self, data: str, method: str) -> Mapping[str, Any] | None:
        return self._entries.get((data, method))

    def value(self, data: str, method: str, key: str = "mean") -> Picked:
        entry = self.entry(data, method)
        return None if entry is None else entry[key]

    def lift(self, data: str, method: str, over: str) -> Picked:
        ours, theirs = self.value(data, method), self.value(data, over)
        return None if ours is None or theirs is None else ours - theirs


def _scores(book: _Book) -> Table:
    rows, best = [], []
    for data in book.data:
        entries = [book.entry(data, method) for method in book.methods]
        rows.append((f"{data} ({book.about[data]['metric']})", *map(_spread, entries)))
        best.append(_largest([None if each is None else each["mean"] for each in entries]))
    whole = _mean_row(book)
    if whole is not None:
        rows.append(whole[0])
        best.append(whole[1])
    note = (
        "Points on the test rows; F1 is that of the positive class. Mean and standard deviation "
        "over the seeds where a method is random. Bold: best of the row."
    )
    return Table("Scores", note, ("data", *book.methods), tuple(rows), tuple(best))


def _mean_row(book: _Book) -> tuple[tuple[str, ...], frozenset[int]] | None:
    """Means over the sets that have every column without fine-tuning; fine-tuned where all do."""
    light = [method for method in book.methods if method not in DEEP]
    whole = [d for d in book.data if all(book.value(d, method) is not None for method in light)]
    if len(whole) < 2 or not light:
        return None
    means: list[Picked] = []
    for method in book.methods:
        values = [book.value(data, method) for data in whole]
        known = [value for value in values if value is not None]
        means.append(float(np.mean(known)) if len(known) == len(whole) else None)
    return (f"mean of {len(whole)}", *(_points(each) for each in means)), _largest(means)


def _seconds(book: _Book) -> Table:
    rows = []
    for data in book.data:
        cells = [_time(book.value(data, method, "seconds")) for method in book.methods]
        rows.append((data, *cells, _ratio(book, data)))
    note = (
        "Seconds of one training: votes to the labels of all train rows, neighbours known and "
        "settings chosen; for end models also their own training. Last column: how many times "
        "longer the fastest fine-tuning on train labels takes than Epoxy."
    )
    return Table("Training seconds", note, ("data", *book.methods, "FT / Epoxy"), tuple(rows))


def _ratio(book: _Book, data: str) -> str:
    ours = book.value(data, "Epoxy", "seconds")
    times = [book.value(data, method, "seconds") for method in ("WS-FT", "Epoxy-FT")]
    known = [each for each in times if each]
    if not ours or not known:
        return "–"
    return f"{min(known) / ours:,.0f} ×"


def _explanation(book: _Book) -> Table:
    """The paper's table of lifts with the quantities that explain them, one row per data set."""
    header = (
        "data",
        "coverage WS-LM",
        "coverage Epoxy",
        "1 − d(PT, DN)",
        "Epoxy vs WS-LM",
        "source accuracy",
        "accuracy vs TS-NFT",
        "accuracy vs WS-NFT",
        "Epoxy vs TS-NFT",
        "Epoxy vs WS-NFT",
        "N_train / N_dev",
        "Epoxy vs TS-FT",
        "Epoxy vs WS-FT",
    )
    rows = [_explanation_row(book, data) for data in book.data if book.entry(data, "Epoxy")]
    note = (
        "Coverage: mean share of train rows a source votes on, in percent. Source accuracy: on the "
        "dev rows a source votes on, mean over sources. 1 − d(PT, DN): cosine similarity of vectors "
        "before and after fine-tuning on WS-LM's labels."
    )
    return Table("Lifts, and what explains them", note, header, tuple(rows))


def _explanation_row(book: _Book, data: str) -> tuple[str, ...]:
    about, epoxy = book.about[data], book.entry(data, "Epoxy")
    accuracy = about["source_accuracy"]

    def above(method: str) -> Picked:
        other = book.value(data, method)
        return None if accuracy is None or other is None else accuracy - other

    return (
        data,
        _points(_percent(_fact(epoxy, "coverage_before"))),
        _points(_percent(_fact(epoxy, "coverage_after"))),
        _number(_drift_of(book, data, "similarity")),
        _signed(book.lift(data, "Epoxy", "WS-LM")),
        _points(accuracy),
        _signed(above("TS-NFT")),
        _signed(above("WS-NFT")),
        _signed(book.lift(data, "Epoxy", "TS-NFT")),
        _signed(book.lift(data, "Epoxy", "WS-NFT")),
        f"{about['train'] / about['dev']:.1f}" if about["dev"] else "–",
        _signed(book.lift(data, "Epoxy", "TS-FT")),
        _signed(book.lift(data, "Epoxy", "WS-FT")),
    )


def _precision(book: _Book) -> Table:
    header = ("data", *(f"{m} {k}" for m in ("Epoxy", "WS-LM") for k in ("P", "R", "F1")))
    rows = [
        (
            data,
            *(
                _points(book.value(data, method, key))
                for method in ("Epoxy", "WS-LM")
                for key in ("precision", "recall", "f1")
            ),
        )
        for data in book.data
        if book.entry(data, "Epoxy")
    ]
    note = "Of the positive class; the mean over classes where there are more than two."
    return Table("Precision, recall, F1", note, header, tuple(rows))


def _drift(book: _Book) -> Table:
    header = ("data", "min. pre-pool similarity", "1 − d(PT, DN)", "WS-FT vs WS-NFT")
    rows = [
        (
            data,
            _number(_drift_of(book, data, "pre_pool")),
            _number(_drift_of(book, data, "similarity")),
            _signed(book.lift(data, "WS-FT", "WS-NFT")),
        )
        for data in book.data
        if book.entry(data, "WS-FT")
    ]
    note = (
        "Pre-trained against fine-tuned (WS-FT) on the test rows. Pre-pool: the smallest similarity "
        f"among a row's tokens or image cells, averaged over rows. Network: {book.network}."
    )
    return Table("What fine-tuning changes", note, header, tuple(rows))


def _ablation(book: _Book) -> Table:
    rows, best = [], []
    for data in book.data:
        values = [book.value(data, method) for method in ("Epoxy-fixed-r", "Epoxy")]
        if None not in values:
            lift = _signed(book.lift(data, "Epoxy", "Epoxy-fixed-r"))
            rows.append((data, *(_points(each) for each in values), lift))
            best.append(_largest(values))
    header = ("data", "Epoxy-fixed-r", "Epoxy", "lift")
    return Table("One radius or one per source", "", header, tuple(rows), tuple(best))


def _preprocessing(book: _Book) -> Table:
    rows = []
    for data in book.data:
        entry = book.entry(data, "Epoxy")
        if entry is not None:
            about = book.about[data]
            n_rows = sum(about[name] for name in ("train", "dev", "test"))
            rate = _fact(book.entry(data, "WS-FT"), "seconds_per_1000_rows")
            embedding = None if rate is None else rate * n_rows / 1000
            times = (embedding, entry["preprocessing_seconds"], entry["tuning_seconds"])
            rows.append((data, f"{n_rows:,}", str(about["dimension"]), *map(_time, times)))
    header = ("data", "rows", "dimension", "embedding (s)", "nearest votes (s)", "tuning (s)")
    note = (
        "Once per data set. The vectors come with the folder; embedding is what one pass of the "
        "fine-tuned columns' network over all rows takes at the rate measured on the test rows."
    )
    return Table("One-time preprocessing", note, header, tuple(rows))


def _data(book: _Book) -> Table:
    header = ("data", "train", "dev", "test", "sources", "classes", "covered", "metric")
    rows = [
        (
            data,
            *(f"{about[name]:,}" for name in ("train", "dev", "test", "sources")),
            str(len(about["classes"])),
            f"{about['covered']:.0%}",
            about["metric"],
        )
        for data, about in book.about.items()
    ]
    return Table("Data", "", header, tuple(rows))


def _skipped(results: Results) -> Table:
    rows = tuple(
        (each["data"], each["method"] or "all", each["reason"]) for each in results["skipped"]
    )
    return Table("Not run", "", ("data", "method", "why"), rows, words=True)


def _fact(entry: Mapping[str, Any] | None, name: str) -> Any:
    return None if entry is None else entry["runs"][0]["facts"].get(name)


def _drift_of(book: _Book, data: str, name: str) -> Picked:
    entry = book.entry(data, "WS-FT")
    if entry is None:
        return None
    return float(np.mean([run["facts"]["drift"][name] for run in entry["runs"]]))


def _largest(values: Sequence[Picked]) -> frozenset[int]:
    """Positions (counting the row's name) of the largest values as they are printed."""
    shown = [None if each is None else round(each, 1) for each in values]
    known = [each for each in shown if each is not None]
    top = max(known, default=None)
    return frozenset(
        index + 1 for index, each in enumerate(shown) if each is not None and each == top
    )


def _spread(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "–"
    return f"{entry['mean']:.1f}" + (f" ± {entry['sd']:.1f}" if entry["seeds"] > 1 else "")


def _percent(share: Picked) -> Picked:
    return None if share is None else 100 * share


def _written(form: Callable[[float], str]) -> Callable[[Picked], str]:
    return lambda value: "–" if value is None else form(value)


_points = _written("{:.1f}".format)
_signed = _written("{:+.1f}".format)
_number = _written("{:.3f}".format)
_time = _written(lambda value: f"{value:.3f}" if value < 10 else f"{value:,.0f}")
