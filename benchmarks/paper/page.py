"""docs/research/benchmarks.md from benchmarks/results: what a sceptic asks, in tables of few columns.

    python benchmarks/paper/page.py
    python benchmarks/paper/page.py --whole build     every table of `epoxy bench`, and the paper's below them

Published figures are of "Interactive Weak Supervision
with Pre-trained Embeddings" (Chen, Fu et al., 2020), its tables 1, 2 and those of the appendix. Its
vectors are BERT's and those of image networks; ours differ.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from epoxy import bench
from epoxy.bench.methods import OURS
from epoxy.bench.page import (
    PageTable,
    amounts,
    frame_of,
    markdown,
    points,
    seconds,
    signed,
    wide,
    written,
)

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
METHODS = [
    *("Epoxy", "Epoxy-fixed-r", "WS-LM", "MV-LM", "DP-LM", "TS-NFT"),
    *("WS-NFT", "TS-KNN", "WS-KNN", "TS-FT", "WS-FT", "Epoxy-FT"),
]
SCORES = {
    "spam": (89.6, 88.0, 83.6, 84.0, 86.0, 78.5, 87.2, 49.2, 48.4, 76.7, 90.0, 94.1),
    "weather": (82.0, 80.0, 78.0, 78.0, 78.0, 71.6, 74.4, 64.0, 58.0, 71.2, 85.6, 86.8),
    "spouse": (48.4, 43.9, 47.0, 46.6, 42.3, 17.7, 17.5, 0.0, 4.9, 20.4, 49.6, 51.3),
    "basketball, RN-101": (31.3, 23.8, 27.9, 17.7, 14.0, 18.8, 16.8, 0.0, 0.0, 26.8, 35.8, 36.7),
    "commercial, RN-101": (90.1, 89.1, 88.4, 83.7, 83.7, 73.6, 75.5, 30.7, 30.3, 90.9, 92.5, 93.0),
    "tennis, RN-101": (82.9, 82.6, 82.0, 80.8, 80.7, 76.7, 79.5, 43.5, 52.6, 57.6, 82.9, 83.1),
    "basketball, BiT-M": (42.5, 34.5, 27.9, 17.7, 14.0, 22.8, 23.2, 5.6, 10.2, 29.1, 33.8, 45.8),
    "commercial, BiT-M": (91.8, 90.5, 88.4, 83.7, 83.7, 71.7, 73.8, 29.3, 45.3, 93.2, 93.7, 94.4),
    "tennis, BiT-M": (83.1, 82.7, 82.0, 80.8, 80.7, 75.5, 79.0, 50.1, 52.1, 47.5, 83.7, 83.8),
}
"""Points by task (and vectors, where there are two), in the order of METHODS."""
SIMILARITY = (0.735, 0.677, 0.248, 0.562, 0.284, 0.113, 0.907, 0.559, 0.408)
"""1 − d(PT, DN) in the order of SCORES."""
SECONDS = {"Epoxy": 0.5, "WS-LM": 0.1, "TS-NFT": 1.2, "WS-NFT": 5.7} | {
    "TS-FT": 1243.0,
    "WS-FT": 5354.1,
    "Epoxy-FT": 4995.0,
}
"""Mean training seconds, on another machine."""
KNOWN = {
    ("imdb", 2500, 500, 2000): (
        "dev and test of imdb are one re-split: they share films with each other and not with train, so "
        "whatever learns from dev rows looks better than it would on new films. With 500 labels of train "
        "rows in their place an earlier Fusion had 76.9 and LR-xv 77.3."
    ),
    ("sms", 4571, 500, 500): "about 50 dev and 68 test texts of sms also occur in train.",
}
"""Notes by name and rows of train, dev and test."""
number = written("{:.3f}".format)


def fit_of_lift(similarity: np.ndarray, lift: np.ndarray) -> float:
    """R² of lift against similarity; NaN for fewer than three points."""
    if len(lift) < 3 or np.ptp(similarity) == 0 or np.ptp(lift) == 0:
        return float("nan")
    return float(np.corrcoef(similarity, lift)[0, 1] ** 2)


def facts_of(runs: pd.DataFrame) -> pd.DataFrame:
    """What Epoxy and the fine-tuned columns told besides scores; one row for each data set."""
    whole = runs[runs["dev_rows"].isna()]
    told = pd.json_normalize([json.loads(each) for each in whole["facts"]])
    told.index = pd.MultiIndex.from_frame(whole[["data", "method"]])
    wanted = ["coverage_before", "coverage_after", "drift.similarity", "drift.pre_pool"]
    wanted.append("seconds_per_1000_rows")
    means = told.reindex(columns=wanted).astype(float).groupby(level=[0, 1]).mean()
    known = means.index.get_level_values("method")
    return means[known == "Epoxy"].droplevel(1).combine_first(means[known == "WS-FT"].droplevel(1))


def against(frame: pd.DataFrame) -> PageTable:
    """Our mean margin over each column, and where it is behind."""
    steps = amounts(frame)
    known = frame[frame["margin"].notna()]
    cells = {
        method: {each: mean_lead(same[same["labels"] == each]) for each in steps}
        for method, same in known.groupby("method", sort=False)
    }
    note = (
        f"Mean over data sets of {OURS}'s lead in points ± 1.96 standard errors; sets on which it is "
        "significantly ahead / behind / how many were compared."
    )
    order = [
        name for name in wide(frame[frame["labels"] == steps[-1]], "mean").columns if name in cells
    ]
    order += [name for name in cells if name not in order]
    return PageTable(f"{OURS} against each column", note, pd.DataFrame(cells, columns=order).T)


def mean_lead(leads: pd.DataFrame) -> str:
    if not len(leads):
        return "–"
    error = 1.96 * np.sqrt((leads["error"] ** 2).sum()) / len(leads)
    ahead, behind = (leads["low"] > 0).sum(), (leads["high"] < 0).sum()
    return f"{leads['margin'].mean():+.1f} ± {error:.1f} ({ahead} / {behind} / {len(leads)})"


def precision(whole: pd.DataFrame) -> PageTable:
    cells = {
        f"{method} {key[0].upper() if key != 'f1' else 'F1'}": each[key]
        for method in ("Epoxy", "WS-LM")
        for each in [whole[whole["method"] == method].set_index("data")]
        for key in ("precision", "recall", "f1")
    }
    note = "Of the positive class; the mean over classes where there are more than two."
    shown = pd.DataFrame(cells).astype(float).map(points)
    kept = whole.loc[whole["method"] == "Epoxy", "data"]
    return PageTable("Precision, recall, F1", note, shown.reindex(index=list(kept)))


def paper_tables(results: dict, runs: pd.DataFrame) -> list[PageTable]:
    """What the paper's text and appendix tabulate, as far as columns were measured."""
    frame = frame_of(results)
    whole = frame[frame["labels"] == "all labels"]
    mean = wide(whole, "mean").reindex(columns=METHODS)
    about = pd.DataFrame(results["data"]).set_index("data").reindex(mean.index)
    facts = facts_of(runs).reindex(mean.index)
    sources, drift = about["source_accuracy"].astype(float), facts["drift.similarity"]
    lifts = {
        "coverage WS-LM": (100 * facts["coverage_before"]).map(points),
        "coverage Epoxy": (100 * facts["coverage_after"]).map(points),
        "1 − d(PT, DN)": drift.map(number),
        "Epoxy vs WS-LM": (mean["Epoxy"] - mean["WS-LM"]).map(signed),
        "source accuracy": sources.map(points),
        **{
            f"accuracy vs {name}": (sources - mean[name]).map(signed)
            for name in ("TS-NFT", "WS-NFT")
        },
        **{
            f"Epoxy vs {name}": (mean["Epoxy"] - mean[name]).map(signed)
            for name in ("TS-NFT", "WS-NFT")
        },
        "N_train / N_dev": (about["train"] / about["dev"].replace(0, np.nan)).map(points),
        **{
            f"Epoxy vs {name}": (mean["Epoxy"] - mean[name]).map(signed)
            for name in ("TS-FT", "WS-FT")
        },
    }
    fine = {
        "min. pre-pool similarity": facts["drift.pre_pool"].map(number),
        "1 − d(PT, DN)": drift.map(number),
        "WS-FT vs WS-NFT": (mean["WS-FT"] - mean["WS-NFT"]).map(signed),
    }
    rows = about[["train", "dev", "test"]].sum(axis=1)
    epoxy = whole[whole["method"] == "Epoxy"].set_index("data").reindex(mean.index)
    once = {
        "rows": rows.map("{:,}".format),
        "dimension": about["dimension"].astype(str),
        "embedding (s)": (facts["seconds_per_1000_rows"] * rows / 1000).map(seconds),
        "nearest votes (s)": epoxy["preprocessing_seconds"].map(seconds),
        "tuning (s)": epoxy["tuning_seconds"].map(seconds),
    }
    with_epoxy, tuned = mean["Epoxy"].notna(), mean["WS-FT"].notna()
    made = [
        against(frame),
        precision(whole),
        beside(mean, drift),
        PageTable("Lifts, and what explains them", LIFTS_NOTE, pd.DataFrame(lifts)[with_epoxy]),
        PageTable("What fine-tuning changes", DRIFT_NOTE, pd.DataFrame(fine)[tuned]),
        PageTable("One-time preprocessing", ONCE_NOTE, pd.DataFrame(once)[with_epoxy]),
    ]
    return [each for each in made if len(each.cells)]


LIFTS_NOTE = (
    "Coverage: mean share of train rows a source votes on, in percent. Source accuracy: on the "
    "dev rows a source votes on, mean over sources. 1 − d(PT, DN): cosine similarity of vectors "
    "before and after fine-tuning on WS-LM's labels."
)
DRIFT_NOTE = (
    "Pre-trained against fine-tuned (WS-FT) on the test rows. Pre-pool: the smallest similarity "
    "among a row's tokens or image cells, averaged over rows. Network: all-MiniLM-L6-v2, images "
    "efficientnet-lite0."
)
ONCE_NOTE = (
    "Once per data set. The vectors come with the folder; embedding is what one pass of the "
    "fine-tuned columns' network over all rows takes at the rate measured on the test rows."
)


def beside(mean: pd.DataFrame, drift: pd.Series) -> PageTable:
    """The paper's figures, and ours below them where a data set is one of its tasks."""
    theirs = pd.DataFrame(SCORES, index=METHODS).T
    if not set(theirs.index) & set(mean.index):
        return PageTable("Beside the paper", "", theirs.head(0))
    cells = {}
    for name in theirs.index:
        cells[f"{name}, paper"] = theirs.loc[name].map(points)
        if name in mean.index:
            cells[f"{name}, ours"] = mean.loc[name].map(points)
    lift = theirs.rsub(theirs["Epoxy"], axis=0)
    cells["Epoxy's mean lift, paper"] = lift.mean().map(signed)
    cells["Epoxy's mean lift, ours"] = mean.rsub(mean["Epoxy"], axis=0).mean().map(signed)
    cells["training seconds, paper"] = pd.Series(SECONDS).reindex(METHODS).map(seconds)
    seen = pd.DataFrame({"drift": drift, "lift": mean["Epoxy"] - mean["WS-LM"]}).dropna()
    theirs_fit = fit_of_lift(np.array(SIMILARITY), lift["WS-LM"].to_numpy())
    ours_fit = fit_of_lift(seen["drift"].to_numpy(), seen["lift"].to_numpy())
    note = (
        "The paper's vectors (BERT, ResNet-101, BiT-M), network and machine differ from ours, and so may "
        "the rows; means over its nine and our own data sets. R² of the lift over WS-LM against 1 − d(PT, "
        f"DN): {theirs_fit:.3f} in the paper (9 points), "
        f"{number(ours_fit)} here ({len(seen)} points). "
        "Its text gives 13.1 as the mean lift over TS-FT, its table 14.3."
    )
    return PageTable("Beside the paper", note, pd.DataFrame(cells).T)


LINES = ("Fusion", "LR-xv", "Self-train", "Boost-xv", "Epoxy", "MV-LM")
"""The columns of the figure."""


def draw_curves(results: dict, path: Path) -> None:
    """Scores by the number of hand labels as a figure."""
    frame = frame_of(results)
    steps = amounts(frame)
    frame = frame[frame["method"].isin(LINES)]
    sets = [each for each in frame.groupby("data", sort=False) if each[1]["method"].nunique() > 2]
    figure = Figure(figsize=(12, 2.4 * -(-len(sets) // 4)), layout="constrained")
    for at, (name, one) in enumerate(sets):
        axes = figure.add_subplot(-(-len(sets) // 4), 4, at + 1, title=name)
        lines = one.pivot(index="labels", columns="method", values="mean").reindex(steps)
        for mark, style, method in zip("os^Dx+", ("-", "--", ":", "-.", "--", ":"), LINES):
            if method in lines:  # by marker and dashes too: colour is never alone
                axes.plot(steps, lines[method], style, marker=mark, markersize=4, label=method)
        axes.set_xticks(steps, [each.removesuffix(" labels") for each in steps])
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    with rc_context({"svg.hashsalt": "epoxy"}):
        figure.savefig(path, metadata={"Date": None})


def write_whole(to: Path) -> None:
    """Every table of `epoxy bench`, the paper's below them, and the curves of single sets."""
    results = bench.read(RESULTS / "bench.json")
    runs = pd.read_csv(RESULTS / "bench.csv")
    sizes = {(each["data"], each["train"], each["dev"], each["test"]) for each in results["data"]}
    results["notes"] += [note for name, note in KNOWN.items() if name in sizes]
    draw_curves(results, to / "benchmarks.svg")
    page = markdown(results, paper_tables(results, runs))
    (to / "benchmarks.md").write_text(page, encoding="utf-8")


SCEPTIC = {
    "MV-LM": "majority vote",
    "WS-LM": "label model",
    "DP-LM": "Snorkel",
    "Epoxy": "Epoxy",
    "WS-NFT": "head on labels of WS-LM",
    "LR-xv": "head on hand labels",
    "Self-train": "self-trained",
    "Fusion": "Fusion",
}
"""What a sceptic asks for, by column of `epoxy bench`."""
NOTICE = "<!-- Written by benchmarks/paper/page.py from benchmarks/results; edit neither table nor number. -->"
INTRO = """# Benchmarks

{notice}

Points on test rows: accuracy, or F1 of the rare class (sms, spouse).
Hand labels are drawn from dev (50 to 2,811 rows), five draws; test is read once, to score; true labels of train rows are never read.
The default model was written anew after this; all figures of Fusion on this page are of the one before.
The new one was read on test at `863eeaf`, three draws (`benchmarks/results/quality.csv`): 74.8, 76.1, 77.5, 79.8 and 82.4 points in the mean of eleven sets with 0, 5, 20, 100 and all labels, where the one before has 74.5, 75.5, 76.9, 79.1 and 81.6.
{measured}
The seconds of a run, precision and recall, every set at every number of labels and the margins by set are in `benchmarks/results/bench.csv`, and as tables by `python benchmarks/paper/page.py --whole DIR`.

![Score on test by number of hand labels](../score-by-labels.png)
"""
MEANING = """*Label model* is the paper's in FlyingSquid's arithmetic, *Snorkel* Snorkel's, *Epoxy* the paper's pipeline with radii tuned on the hand labels.
A *head* is a linear layer on the vectors: on the label model's labels, or on the hand labels, votes beside the vectors; *self-trained* goes on with the rows it is sure of.
*Fusion* is the default model."""
LEAD = """Mean lead of Fusion over a column in points, and on how many of the sets it is significantly ahead and behind (95 % paired bootstrap over test rows and draws)."""


BESIDE = """## Beside the paper

By how many points Epoxy leads each of the paper's columns, mean over its nine tasks and over our sets; vectors, networks and rows differ."""


def table(cells: pd.DataFrame) -> str:
    """Markdown; the index is the first column."""
    head = [cells.index.name or "", *cells.columns]
    lines = [head, ["---", *["---:"] * len(cells.columns)]]
    lines += [[name, *row] for name, row in zip(cells.index, cells.to_numpy(), strict=True)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def lifts(results: dict) -> pd.DataFrame:
    """Epoxy's mean lift over each column, in the paper and here."""
    theirs = pd.DataFrame(SCORES, index=METHODS).T
    frame = frame_of(results)
    ours = wide(frame[frame["labels"] == "all labels"], "mean").reindex(columns=METHODS)
    told = {
        name: each.rsub(each["Epoxy"], axis=0).mean().drop("Epoxy").map(signed)
        for name, each in (("the paper", theirs), ("here", ours))
    }
    return pd.DataFrame(told).rename_axis("over")


def sceptic_tables(results: dict) -> list[str]:
    """Every set with all hand labels, the means by number of labels, and Fusion's leads."""
    frame = frame_of(results)
    frame = frame[frame["method"].isin(SCEPTIC)]
    rows = frame[frame["data"] != "spouse_paper_L"]  # the same rows as spouse, votes alone
    whole = wide(rows[rows["labels"] == "all labels"], "mean")[list(SCEPTIC)]
    whole.loc["mean"] = whole.mean(skipna=False)
    groups = rows.groupby(["method", "labels"])["mean"].agg(["mean", "size"])
    means = groups["mean"].where(groups["size"] == rows["data"].nunique()).unstack()
    steps = sorted(means.columns, key=lambda each: (each.startswith("all"), len(each), each))
    leads = rows[rows["margin"].notna()].groupby(["method", "labels"])
    told = leads.apply(
        lambda one: (
            f"{one['margin'].mean():+.1f} ({(one['low'] > 0).sum()}, {(one['high'] < 0).sum()})"
        ),
        include_groups=False,
    ).unstack()
    names = [name for name in SCEPTIC if name in told.index]
    return [
        f"## With all hand labels\n\n{MEANING}",
        table(whole.rename(columns=SCEPTIC).map(points)),
        "## By number of hand labels\n\nMean of the eleven sets; a dash where not every set was measured.",
        table(means.loc[list(SCEPTIC), steps].rename(index=SCEPTIC).map(points)),
        LEAD,
        table(told.loc[names, steps].fillna("–").rename(index=SCEPTIC)),
    ]


def study_tables() -> list[str]:
    """Answers, suggestions and rows to label: what else is measured, in a table each."""
    answers = pd.read_csv(RESULTS / "answers.csv")
    some = answers[answers["answers"] == 300]
    kinds = ["fusion_without", "classifier", "fusion", "calibration_error"]
    means = (
        some.groupby(["hand_wanted", "right", "data"])[kinds].mean().groupby(level=[0, 1]).mean()
    )
    means.columns = ["without answers", "head on the same labels", "Fusion", "calibration error"]
    told = means.round(dict.fromkeys(means.columns[:3], 1) | {means.columns[3]: 3}).reset_index()
    told = told.rename(columns={"hand_wanted": "hand labels", "right": "answers right"})
    told["answers right"] = told["answers right"].map("{:.0%}".format)
    told["hand labels"] = told["hand labels"].map("{:.0f}".format)
    told["calibration error"] = told["calibration error"].map("{:.3f}".format)
    found = pd.read_csv(RESULTS / "suggestions.csv")
    cases = found.drop_duplicates(["data", "hand", "seed"]).dropna(subset=["half"])
    cases = cases.groupby(["hand", "data"])[["full", "half", "plus"]].mean()
    mean = cases.groupby(level="hand").mean()
    judged = found[found["test_rows"] >= 50]
    share = judged["test_right"] / judged["test_rows"]
    judged = judged.assign(holds=share.between(judged["low"], judged["high"]))
    holds = judged.groupby("hand")["holds"].agg(lambda each: f"{each.sum()} of {len(each)}")
    lines = pd.DataFrame(
        {
            "lost": (mean["full"] - mean["half"]).map(points),
            "regained": (mean["plus"] - mean["half"]).map(signed),
            "90 % intervals that hold": holds,
        }
    ).rename_axis("hand labels")
    curves = pd.read_csv(RESULTS / "teaching.csv")
    curves = curves[curves["labels"].isin([10, 20, 50, 100, 200])]
    both = curves.groupby(["arm", "labels", "data"])["score"].mean().unstack("data").dropna(axis=1)
    shown = both.mean(axis=1).unstack("labels").map(points)
    shown = shown.rename(index={"random": "drawn at random", "mix": "as `next` suggests"})
    return [
        "## Answers that may be wrong\n\n300 simulated answers, or as many as dev has; some classes are "
        "answered worse than others, and nothing is told of who answers. Means over the sets that allow it.",
        table(told.set_index("answers right")),
        "![Score on test against money](../answers.png)",
        "## Suggested functions\n\nHalf of the functions of ten sets taken away (two draws), five suggestions "
        "added as they come; points on test. An interval holds if the share of right votes on test is inside.",
        table(lines),
        f"## Which rows to label\n\nMean score on test of {both.shape[1]} sets by number of labels, five draws.",
        table(shown),
    ]


def write(to: Path) -> None:
    """The page of the documentation: what a sceptic asks, each in a table of few columns."""
    results = bench.read(RESULTS / "bench.json")
    runs = pd.read_csv(RESULTS / "bench.csv")
    machine = results["machine"]
    measured = (
        f"Measured at commit `{results['commit'][:7]}` on {results['created'][:10]}, {machine['processor']}, "
        f"{machine['cores']} cores, other programs running."
    )
    stale = runs[runs["commit"].str[:7] != results["commit"][:7]]
    for commit, rows in stale.groupby("commit"):
        names = [SCEPTIC[name] for name in SCEPTIC if name in set(rows["method"])]
        if names:
            measured += f" Some runs of {', '.join(names)} at `{commit[:7]}`."
    parts = [
        INTRO.format(notice=NOTICE, measured=measured),
        *sceptic_tables(results),
        *study_tables(),
    ]
    parts += [BESIDE, table(lifts(results))]
    parts.append("## Notes\n\n" + "\n".join(f"- {note}" for note in KNOWN.values()))
    (to / "benchmarks.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "research")
    parser.add_argument("--whole", type=Path, help="write every table there instead")
    asked = parser.parse_args()
    write(asked.to) if asked.whole is None else write_whole(asked.whole)
