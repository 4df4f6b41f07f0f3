"""One data set as methods may see it, and the judge who alone holds the truth of the test rows.

The protocol is in the types: a `BenchTask` carries no label of train or test, so no method can read one,
by design or by mistake; the `HiddenLabels` gets finished probabilities and returns numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..datasets import read_folder
from ..datasets.folder import Meta, read_json
from ..errors import LabelError, ParameterError, StoreError, UnknownName
from ..scoring import Score, positive_index, precision_recall_f1, ratios
from ..shares import checked_shares
from ..votes import Split

RESAMPLES = 1000


@dataclass(frozen=True)
class TaskScoring:
    """What a folder is scored by: `accuracy`, or `f1` of one class."""

    name: str
    positive: int | None  # the class of precision, recall and F1; None for their mean
    n_classes: int

    @classmethod
    def named(cls, name: str, positive: str | None, classes: Sequence[str]) -> Self:
        """The score a folder names; see `scoring.positive_index`."""
        if name not in ("accuracy", "f1"):
            raise UnknownName.of("scoring", name, ["accuracy", "f1"])
        return cls(name, positive_index(positive, classes), len(classes))

    @property
    def thresholded(self) -> bool:
        """Whether labels depend on a decision threshold: F1 of one of two classes."""
        return self.name == "f1" and self.n_classes == 2

    def threshold(self, probabilities: np.ndarray | None, truth: np.ndarray | None) -> float | None:
        """The threshold of the best F1 on these rows; rows of NaN are left out, 0.5 without rows."""
        if not self.thresholded or self.positive is None:
            return None
        if probabilities is None or truth is None:
            return 0.5
        known = np.isfinite(probabilities).all(axis=1)
        if not (truth[known] == self.positive).any():
            return 0.5
        return _best_threshold(probabilities[known, self.positive], truth[known] == self.positive)

    def value(self, probabilities: np.ndarray, truth: np.ndarray) -> float:
        """The score on dev, in points, at the best threshold there; what choices are made by."""
        known = np.isfinite(probabilities).all(axis=1)
        cut = self.threshold(probabilities, truth)
        return self.scores(self.labels(probabilities[known], cut), truth[known])["score"]

    def scores(self, guess: np.ndarray, truth: np.ndarray) -> dict[str, float]:
        """Accuracy, precision, recall, F1 and the score of the folder's scoring, in points."""
        parts = precision_recall_f1(guess, truth, self.positive, self.n_classes)
        precision, recall, f1 = (100 * each for each in parts)
        accuracy = float(100 * (guess == truth).mean()) if len(truth) else 0.0
        found = {"accuracy": accuracy, "precision": precision, "recall": recall, "f1": f1}
        return {"score": found[self.name], **found}

    def resampling(self, truth: np.ndarray, resamples: int) -> Score:
        """The score on rows drawn with replacement, the same for whatever is scored."""
        which = tuple(range(self.n_classes)) if self.positive is None else (self.positive,)
        return Score(self.name, truth, which, resamples=resamples)

    def labels(self, probabilities: np.ndarray, threshold: float | None) -> np.ndarray:
        """The class of each row: the most probable, or the positive one from the threshold on."""
        if probabilities.ndim != 2 or probabilities.shape[1] != self.n_classes:
            raise ParameterError(
                f"expected probabilities of {self.n_classes} classes, got shape "
                f"{probabilities.shape}"
            )
        if self.positive is None or not self.thresholded or threshold is None:
            return np.asarray(probabilities.argmax(axis=1))
        positive = probabilities[:, self.positive] >= threshold
        return np.where(positive, self.positive, 1 - self.positive)


@dataclass(frozen=True, eq=False)
class BenchTask:
    """A data set without the labels a method must not see."""

    name: str
    scoring: TaskScoring
    train: Split  # no y
    dev: Split | None  # labelled rows only
    test: Split  # no y
    rows: Mapping[str, list[str]] = field(default_factory=dict)  # texts by split, may be empty
    class_balance: tuple[float, ...] | None = None  # what the folder says, if anything
    fingerprint: str = ""

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        return self.train.classes

    @property
    def splits(self) -> dict[str, Split]:
        """Those there are, by name."""
        found = {"train": self.train, "dev": self.dev, "test": self.test}
        return {name: split for name, split in found.items() if split is not None}

    @property
    def positive(self) -> str | None:
        """The class F1 is of; None where it is the mean over classes."""
        at = self.scoring.positive
        return None if at is None else self.classes[at]

    @property
    def missing(self) -> dict[str, tuple[str, str]]:
        """What a column may need and the folder has not, in words, and what to add to it."""
        bare = [name for name, each in self.splits.items() if each.vectors is None]
        files = ", ".join(f"vectors-{name}.npy" for name in bare)
        cure = "dev.parquet with labels and votes-dev.npy"
        needs = {
            "dev": (self.dev is None, "dev rows with true labels", cure),
            "vectors": (bool(bare), "vectors", files),
            "rows": (not self.rows, "texts", "a column 'text' to every split"),
        }
        return {need: (what, cure) for need, (lacks, what, cure) in needs.items() if lacks}

    def with_dev_rows(self, count: int | None, seed: int) -> BenchTask:
        """With only `count` random dev rows and no texts; as it is where it has no more."""
        if count is None or self.dev is None or self.dev.n_rows <= count:
            return self
        keep = np.sort(np.random.default_rng(seed).permutation(self.dev.n_rows)[:count])
        return replace(self, dev=self.dev.rows(keep) if count else None, rows={})

    def describe(self) -> dict[str, Any]:
        """What the tables say about the data itself."""
        votes, dev = self.train.votes, self.dev
        return {
            "data": self.name,
            "metric": self.scoring.name,
            "classes": list(self.classes),
            "sources": votes.n_sources,
            "train": self.train.n_rows,
            "dev": 0 if dev is None else dev.n_rows,
            "test": self.test.n_rows,
            "dimension": 0 if self.train.vectors is None else int(self.train.vectors.shape[1]),
            "covered": float(votes.covered.mean()),
            "coverage": float(votes.coverage.mean()),
            "source_accuracy": None if dev is None else source_accuracy(dev),
        }


@dataclass(frozen=True, eq=False)
class HiddenLabels:
    """Holds the truth of the test rows; asked once per finished prediction."""

    scoring: TaskScoring
    truth: np.ndarray = field(repr=False)  # (n_test,)

    def score(self, guess: np.ndarray) -> dict[str, float]:
        """All scores of one finished prediction, in points."""
        if len(guess) != len(self.truth):
            raise ParameterError(
                f"a prediction has {len(guess)} rows, the test split {len(self.truth)}"
            )
        return self.scoring.scores(guess, self.truth)

    def resampled(self, guess: np.ndarray) -> np.ndarray:
        """The score in points on test rows drawn with replacement, the same for every prediction."""
        return 100 * self._resampling.scores(np.eye(self.scoring.n_classes)[guess])

    @cached_property
    def _resampling(self) -> Score:
        return self.scoring.resampling(self.truth, RESAMPLES)


def _best_threshold(score: np.ndarray, truth: np.ndarray) -> float:
    """Half-way between two neighbouring scores; on a tie the one nearest to 0.5.

    The counts of F1 are cumulative in the sorted scores.
    """
    order = np.argsort(-score, kind="stable")
    ranked, right = score[order], truth[order].cumsum()
    said = np.arange(1, len(ranked) + 1)
    last = np.r_[ranked[1:] != ranked[:-1], True]  # equal scores cannot be separated
    f1 = ratios(right, said, truth.sum())[2][last]
    cut = ranked[last]
    middle = (cut + np.r_[cut[1:], min(cut[-1], 0.0)]) / 2
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return float(middle[best[np.abs(middle[best] - 0.5).argmin()]])


def source_accuracy(split: Split) -> float | None:
    """Mean over sources of the share of right votes on the rows they vote on, in points."""
    if split.y is None:
        return None
    cast = split.votes.cast
    voting = cast.any(axis=0)
    if not voting.any():
        return None
    right = ((split.votes.matrix == split.y[:, None]) & cast).sum(axis=0)[voting]
    return float(100 * (right / cast.sum(axis=0)[voting]).mean())


def open_task(folder: str | Path) -> tuple[BenchTask, HiddenLabels]:
    """Read a data folder; the labels of train are dropped, those of test sealed in the judge."""
    home = Path(folder)
    found = read_folder(home)
    if not found.name or found.name.startswith(".") or set(found.name) & set("/\\\0"):
        raise StoreError(
            f"meta.json in {home} names the data set {found.name!r}; expected a name that can be a "
            "folder's, without slashes and not starting with a dot"
        )
    if "train" not in found.splits:
        raise StoreError(f"{home} has no train.parquet; a benchmark needs train rows and votes")
    keep = {name: np.flatnonzero(split.labelled) for name, split in found.splits.items()}
    keep["train"] = np.arange(found.train.n_rows)
    splits = {name: found.split(name).rows(rows) for name, rows in keep.items() if len(rows)}
    if "test" not in splits:
        raise LabelError(
            f"{home.name!r} has no test rows with true labels, so nothing can be scored; "
            "add test.parquet with labels and votes-test.npy"
        )
    scoring = TaskScoring.named(found.scoring, found.positive, found.classes)
    tables = {name: found.rows(name) for name in splits}
    texts = {}
    if all("text" in table.column_names for table in tables.values()):
        texts = {name: table["text"].take(keep[name]).to_pylist() for name, table in tables.items()}
    task = BenchTask(
        name=found.name,
        scoring=scoring,
        train=splits["train"],
        dev=splits.get("dev"),
        test=_sealed(splits["test"]),
        rows={name: [text or "" for text in each] for name, each in texts.items()},
        class_balance=_balance(home, found.classes),
        fingerprint=_fingerprint(home),
    )
    return task, HiddenLabels(scoring, splits["test"].truth)


def _sealed(split: Split) -> Split:
    return Split(split.votes, split.vectors, ids=split.ids)


def _balance(home: Path, classes: tuple[str, ...]) -> tuple[float, ...] | None:
    """What meta.json says under `class_balance`: shares in the order of the classes, or by name."""
    given = read_json(home / "meta.json", Meta).class_balance
    if given is None:
        return None
    return tuple(checked_shares(given, classes, f"meta.json in {home}").tolist())


def _fingerprint(home: Path) -> str:
    """Content of every file a benchmark reads."""
    total = hashlib.sha256()
    for path in sorted(home.iterdir()):
        if path.is_file() and path.suffix in (".json", ".npy", ".parquet"):
            total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:24]
