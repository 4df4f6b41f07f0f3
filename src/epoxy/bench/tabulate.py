"""From a benchmark's results to tables, as values; pages only write them down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from . import published
from .columns import CEILING, OURS
from .comparison import DataSet, Results, Table, compared, data_sets, number, points, signed, time
from .published import fit_of_lift


def tables(results: Results) -> tuple[Table, ...]:
    """Every table the results can fill: what a reader asks first, then the paper's, then the data."""
    sets = data_sets(results, None)
    network = results["settings"]["network"] or f"{DEFAULT_TEXT}, images {DEFAULT_IMAGE}"
    made = (
        *compared(results),
        _filled("How much is left", _CEILING_NOTE, _CEILING, sets, CEILING),
        *_paper(sets),
        _filled("Lifts, and what explains them", _LIFTS_NOTE, _LIFTS, sets, "Epoxy"),
        _filled("Precision, recall, F1", _PRECISION_NOTE, _PRECISION, sets, "Epoxy"),
        _filled("What fine-tuning changes", f"{_DRIFT_NOTE} {network}.", _DRIFT, sets, "WS-FT"),
        _filled("One-time preprocessing", _ONCE_NOTE, _ONCE, sets, "Epoxy"),
        _filled("Data", "", _DATA, sets),
        _skipped(results),
    )
    return tuple(table for table in made if table.rows)


DEFAULT_TEXT, DEFAULT_IMAGE = "all-MiniLM-L6-v2", "efficientnet-lite0"
Cells = Mapping[str, Callable[[DataSet], str]]
"""A table's columns: the header, and what stands below it for each data set."""


def _filled(
    title: str, note: str, cells: Cells, sets: Sequence[DataSet], needs: str | None = None
) -> Table:
    """A table with a row for each data set on which the method it is about has run."""
    kept = [each for each in sets if needs is None or needs in each.entries]
    rows = tuple((each.name, *(cell(each) for cell in cells.values())) for each in kept)
    return Table(title, note, ("data", *cells), rows)


_LIFTS: Cells = {
    "coverage WS-LM": lambda s: points(100 * s.fact("Epoxy", "coverage_before")),
    "coverage Epoxy": lambda s: points(100 * s.fact("Epoxy", "coverage_after")),
    "1 − d(PT, DN)": lambda s: number(s.drift("similarity")),
    "Epoxy vs WS-LM": lambda s: signed(s.lift("Epoxy", "WS-LM")),
    "source accuracy": lambda s: (
        "–" if s.about["source_accuracy"] is None else points(s.about["source_accuracy"])
    ),
    "accuracy vs TS-NFT": lambda s: signed(s.above("TS-NFT")),
    "accuracy vs WS-NFT": lambda s: signed(s.above("WS-NFT")),
    "Epoxy vs TS-NFT": lambda s: signed(s.lift("Epoxy", "TS-NFT")),
    "Epoxy vs WS-NFT": lambda s: signed(s.lift("Epoxy", "WS-NFT")),
    "N_train / N_dev": lambda s: points(s.about["train"] / (s.about["dev"] or np.nan)),
    "Epoxy vs TS-FT": lambda s: signed(s.lift("Epoxy", "TS-FT")),
    "Epoxy vs WS-FT": lambda s: signed(s.lift("Epoxy", "WS-FT")),
}
_LIFTS_NOTE = (
    "Coverage: mean share of train rows a source votes on, in percent. Source accuracy: on the "
    "dev rows a source votes on, mean over sources. 1 − d(PT, DN): cosine similarity of vectors "
    "before and after fine-tuning on WS-LM's labels."
)


def _share(method: str, key: str) -> Callable[[DataSet], str]:
    return lambda each: points(each.value(method, key))


_PRECISION: Cells = {
    f"{method} {letter}": _share(method, key)
    for method in ("Epoxy", "WS-LM")
    for letter, key in (("P", "precision"), ("R", "recall"), ("F1", "f1"))
}
_PRECISION_NOTE = "Of the positive class; the mean over classes where there are more than two."

_DRIFT: Cells = {
    "min. pre-pool similarity": lambda s: number(s.drift("pre_pool")),
    "1 − d(PT, DN)": lambda s: number(s.drift("similarity")),
    "WS-FT vs WS-NFT": lambda s: signed(s.lift("WS-FT", "WS-NFT")),
}
_DRIFT_NOTE = (
    "Pre-trained against fine-tuned (WS-FT) on the test rows. Pre-pool: the smallest similarity "
    "among a row's tokens or image cells, averaged over rows. Network:"
)

_ONCE: Cells = {
    "rows": lambda s: f"{s.n_rows:,}",
    "dimension": lambda s: str(s.about["dimension"]),
    "embedding (s)": lambda s: time(s.fact("WS-FT", "seconds_per_1000_rows") * s.n_rows / 1000),
    "nearest votes (s)": lambda s: time(s.value("Epoxy", "preprocessing_seconds")),
    "tuning (s)": lambda s: time(s.value("Epoxy", "tuning_seconds")),
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


def _best(each: DataSet) -> float:
    return each.value(each.baselines[0]) if each.baselines else np.nan


_CEILING: Cells = {
    "best baseline": lambda s: points(_best(s)),
    OURS: lambda s: points(s.value(OURS)),
    CEILING: lambda s: points(s.value(CEILING)),
    "share of the way": lambda s: points(
        100 * (s.value(OURS) - _best(s)) / ((s.value(CEILING) - _best(s)) or np.nan)
    ),
}
_CEILING_NOTE = (
    f"How far {OURS} goes, in percent, from the best baseline to {CEILING}: LR-xv on the true labels of "
    "all train rows."
)


def _paper(sets: Sequence[DataSet]) -> tuple[Table, ...]:
    """The paper's figures, and ours below them where a data set is one of its tasks."""
    if not any(each.name in published.SCORES for each in sets):
        return ()
    ours = {each.name: each for each in sets}
    rows = []
    for name, values in published.SCORES.items():
        rows.append((f"{name}, paper", *map(points, values)))
        if name in ours:
            found = [points(ours[name].value(method)) for method in published.METHODS]
            rows.append((f"{name}, ours", *found))
    theirs = np.array(list(published.SCORES.values()))
    rows.append(("Epoxy's mean lift, paper", *map(signed, (theirs[:, :1] - theirs).mean(axis=0))))
    lifts = [_mean([each.lift("Epoxy", name) for each in sets]) for name in published.METHODS]
    rows.append(("Epoxy's mean lift, ours", *map(signed, lifts)))
    spent = [time(published.SECONDS.get(name, np.nan)) for name in published.METHODS]
    rows.append(("training seconds, paper", *spent))
    seen = [(each.drift("similarity"), each.lift("Epoxy", "WS-LM")) for each in sets]
    seen = [pair for pair in seen if np.isfinite(pair).all()]
    theirs_fit = fit_of_lift(published.SIMILARITY, theirs[:, 0] - theirs[:, 2])
    ours_fit = fit_of_lift(*zip(*seen, strict=True)) if seen else np.nan
    note = (
        "The paper's vectors (BERT, ResNet-101, BiT-M), network and machine differ from ours, and so may "
        "the rows; means over its nine and our own data sets. R² of the lift over WS-LM against 1 − d(PT, "
        f"DN): {theirs_fit:.3f} in the paper (9 points), {number(ours_fit)} here ({len(seen)} points). "
        "Its text gives 13.1 as the mean lift over TS-FT, its table 14.3."
    )
    return (Table("Beside the paper", note, ("data", *published.METHODS), tuple(rows)),)


def _mean(values: Sequence[float]) -> float:
    known = [each for each in values if np.isfinite(each)]
    return float(np.mean(known)) if known else np.nan


def _skipped(results: Results) -> Table:
    names: dict[tuple[str, str], list[str]] = {}
    for each in results["skipped"]:
        names.setdefault((each["method"] or "all", each["reason"]), []).append(each["data"])
    rows = tuple((", ".join(sets), *why) for why, sets in names.items())
    return Table("Not run", "", ("data", "method", "why"), rows, words=True)
