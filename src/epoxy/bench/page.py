"""From a benchmark's results to tables, and from tables to a page.

A number nobody measured is NaN, and is printed as a dash.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MissingExtra
from ..storage import make_folder
from .methods import COLUMNS, OURS

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Results = Mapping[str, Any]
LEAD = ("margin", "low", "high", "error")
_MOST = 5  # data sets side by side in a terminal


@dataclass(frozen=True, eq=False)
class PageTable:
    """Cells as text; the index names the rows."""

    title: str
    note: str
    cells: DataFrame
    best: Mapping[str, str | None] | None = None  # by row, the column to stress
    words: bool = False  # cells are sentences, not numbers


def tables(results: Results) -> list[PageTable]:
    """Every table the results can fill: what a reader asks first, then the rest."""
    frame = frame_of(results)
    steps = amounts(frame)
    whole = frame[frame["labels"] == "all labels"]
    made = [
        *([_scores(whole, _SCORES_NOTE)] if len(whole) else []),
        _first(frame, steps),
        *(_scores(frame[frame["labels"] == each]) for each in steps if each != "all labels"),
        _data(results),
        _skipped(results),
    ]
    return [each for each in made if len(each.cells)]


def frame_of(results: Results) -> DataFrame:
    """One row for each data set, method and amount of hand labels, in the order of the tables."""
    pd = need_pandas()
    frame = pd.DataFrame(
        [
            {**each, **dict(zip(LEAD, each.get("margin") or [np.nan] * 4, strict=True))}
            for each in results["results"]
        ]
    )
    told = [each["dev_rows"] for each in results["results"]]
    frame["labels"] = ["all labels" if each is None else f"{each} labels" for each in told]
    return frame


def amounts(frame: DataFrame) -> list[str]:
    """Amounts of hand labels, all of them last."""
    ordered = frame.sort_values("dev_rows", kind="stable", na_position="last")
    return list(dict.fromkeys(ordered["labels"]))


def wide(frame: DataFrame, value: str) -> DataFrame:
    """Data sets × methods of one figure, both in the order they come in."""
    found = frame.pivot(index="data", columns="method", values=value)
    order = dict.fromkeys([*(column.name for column in COLUMNS), *frame["method"]])
    named = [name for name in order if name in found]
    return found.reindex(index=list(dict.fromkeys(frame["data"])), columns=named)


def written(form: Callable[[float], str]) -> Callable[[float], str]:
    """A way to write numbers, with a dash for those nobody measured."""
    return lambda value: "–" if value is None or np.isnan(value) else form(value)


points, signed = written("{:.1f}".format), written("{:+.1f}".format)
seconds = written(lambda value: f"{value:.3f}" if value < 10 else f"{value:,.0f}")


def _scores(frame: DataFrame, note: str = "") -> PageTable:
    frame = frame.assign(shown=[_cell(each) for _, each in frame.iterrows()])
    cells = wide(frame, "shown").fillna("–")
    metric = dict(zip(frame["data"], frame["metric"], strict=True))
    leaders = {name: first(each) for name, each in frame.groupby("data", sort=False)}
    cells.index = [f"{name} ({metric[name]})" for name in cells.index]
    best = dict(
        zip(cells.index, [leaders[name] for name in wide(frame, "mean").index], strict=True)
    )
    means = wide(frame, "mean")
    usual = [each.name for each in COLUMNS if each.name in means]
    whole = means[usual].notna().all(axis=1)
    if whole.sum() > 1:
        cells.loc[f"mean of {whole.sum()}"] = means[whole].mean(skipna=False).map(points)
        spent = wide(frame, "seconds")[whole].mean(skipna=False)
        cells.loc["training seconds, mean"] = spent.map(seconds)
    labels = frame["labels"].iloc[0]
    title = "Scores" if labels == "all labels" else f"Scores with {labels}"
    return PageTable(title, note, cells, best)


_SCORES_NOTE = (
    "Points on the test rows; F1 is that of the positive class. ± standard deviation over seeds and "
    f"draws. ▼ significantly below {OURS}, ▲ significantly above (95 % paired bootstrap over test rows "
    f"and draws of dev rows). Bold: significantly first, {OURS} before every other column or another "
    "before it. WS-LM is the paper's label model in FlyingSquid's arithmetic for two classes (Triplet for "
    "more), and Epoxy and WS-NFT build on it; Triplet is this package's own arithmetic for the same "
    "model. LR-xv: logistic regression on vectors and one-hot votes of the hand-labelled rows; "
    "Self-train: the same, self-trained on train rows. Training seconds: votes to labels of all train "
    "rows, neighbours known and settings chosen; for end models also their own training. They are by the "
    "clock, and grow with whatever else the machine does."
)


def _cell(each: Series) -> str:
    shown = points(each["mean"]) + (f" ± {each['sd']:.1f}" if each["seeds"] > 1 else "")
    if each["low"] > 0:
        return f"{shown} ▼"
    return f"{shown} ▲" if each["high"] < 0 else shown


def _others(one: DataFrame) -> DataFrame:
    """Columns measured beside ours, the best first."""
    return one[one["method"] != OURS].sort_values("mean", ascending=False, kind="stable")


def first(one: DataFrame) -> str | None:
    """Who leads on a data set significantly: ours before every other, or another before ours."""
    others = _others(one)
    if not len(others) or others["high"].iloc[0] < 0:
        return str(others["method"].iloc[0]) if len(others) else None
    ours = one.loc[one["method"] == OURS, "mean"]
    low = others["low"].dropna()
    # what was not compared is no first, and none before a higher mean
    ahead = len(low) and (low > 0).all() and len(ours) and others["mean"].iloc[0] < ours.iloc[0]
    return OURS if ahead else None


def _first(frame: DataFrame, steps: Sequence[str]) -> PageTable:
    """Our margin over the best other column of each set, picked with hindsight."""
    pd = need_pandas()
    cells, margins = {}, {}
    for name, same in frame.groupby("data", sort=False):
        if OURS not in same["method"].to_numpy():
            continue
        parts = {each: same[same["labels"] == each] for each in steps}
        cells[name] = {each: _verdict(part) for each, part in parts.items()}
        margins[name] = {
            each: _others(part)["margin"].dropna().head(1).mean() for each, part in parts.items()
        }
    table = pd.DataFrame(cells).T
    if len(table):
        table.loc["mean margin"] = pd.DataFrame(margins).T.mean().map(signed)
    return PageTable(
        f"Is {OURS} first?",
        f"Points by which {OURS} leads the best other column of the row, picked with hindsight on test; "
        "95 % interval; which column that is. A lead whose interval holds 0 is none.",
        table,
        words=True,
    )


def _verdict(part: DataFrame) -> str:
    others = _others(part)
    measured = others[others["margin"].notna()]
    if not len(measured):
        return "–"
    best = measured.iloc[0]
    word = "first" if first(part) == OURS else "behind" if best["high"] < 0 else "level"
    margin, low, high = (f"{best[each]:+.1f}" for each in LEAD[:3])
    return f"{margin} [{low}, {high}] {best['method']}: {word}"


def _data(results: Results) -> PageTable:
    frame = need_pandas().DataFrame(results["data"]).set_index("data")
    cells = frame[["train", "dev", "test", "sources"]].map("{:,}".format)
    cells["classes"] = [str(len(each)) for each in frame["classes"]]
    cells["covered"], cells["metric"] = frame["covered"].map("{:.0%}".format), frame["metric"]
    return PageTable("Data", "", cells)


def _skipped(results: Results) -> PageTable:
    pd = need_pandas()
    frame = pd.DataFrame(results["skipped"], columns=["data", "method", "reason"]).fillna("all")
    joined = frame.groupby(["method", "reason"], sort=False)["data"].agg(", ".join).reset_index()
    cells = joined.set_index("data").rename(columns={"reason": "why"})
    return PageTable("Not run", "", cells, words=True)


def markdown(results: Results, more: Sequence[PageTable] = ()) -> str:
    """A page of all tables, and of `more`."""
    parts = ["# Benchmarks", "", *map(_no_tags, _preamble(results))]
    for table in (*tables(results), *more):
        parts += ["", f"## {_no_tags(table.title)}", ""]
        parts += [_no_tags(table.note), ""] if table.note else []
        parts += _markdown_table(table)
    return "\n".join(parts) + "\n"


def text(results: Results) -> str:
    """The scores, for a terminal: one method per line, few data sets at a time."""
    shown = []
    for table in tables(results):
        if table.title.startswith("Scores"):
            for start in range(0, len(table.cells), _MOST):
                part = table.cells.iloc[start : start + _MOST].T
                shown.append(f"{table.title}\n{part.to_string()}")
    return "\n\n".join(shown)


def write_page(results: Results, folder: str | Path) -> Path:
    """Write benchmarks.md; returns the file."""
    page = make_folder(folder, "the page") / "benchmarks.md"
    page.write_text(markdown(results), encoding="utf-8")
    return page


def _preamble(results: Results) -> list[str]:
    machine, settings = results["machine"], results["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    balance = settings["class_balance"] or "as the folder says, else counted on dev"
    runs = "quick: one seed" if settings["quick"] else f"{settings['seeds']} seeds"
    return [
        "Dev labels are the hand labels: they tune and fit. Test labels are read once, to score. Train "
        "labels are never read.",
        "",
        f"Run ({runs}; class balance: {balance}) at commit "
        f"`{results['commit'] or 'unknown'}`, {results['created'][:10]}, on {machine['processor']}, "
        f"{machine['cores']} cores; {versions}.",
        *(line for note in results["notes"] for line in ("", note)),
    ]


def _no_tags(line: str) -> str:
    """One line of Markdown that holds no HTML: names come from whoever made the data."""
    return html.escape(" ".join(str(line).split()), quote=False)


def _markdown_table(table: PageTable) -> list[str]:
    columns = list(table.cells.columns)
    rest = "---" if table.words else "---:"
    lines = [_piped(["data", *columns]), _piped(["---", *[rest] * len(columns)])]
    for name, row in table.cells.iterrows():
        stressed = (table.best or {}).get(str(name))
        cells = [f"**{row[each]}**" if each == stressed else row[each] for each in columns]
        lines.append(_piped([name, *cells]))
    return lines


def _piped(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(_no_tags(cell).replace("|", "\\|") for cell in cells) + " |"


def need_pandas() -> Any:
    """pandas, or what to install."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra.of("the benchmark", "pandas and matplotlib", "bench") from None
    return pandas
