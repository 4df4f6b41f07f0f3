"""One data set as methods may see it, and the judge who alone holds the truth of the test rows.

The protocol is in the types: a `Task` carries no label of train or test, so no method can read one,
by design or by mistake; the `Judge` gets finished probabilities and returns numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import LabelError, ParameterError, StoreError
from ..votes import Split, Votes
from .scoring import Metric

__all__ = ["Judge", "Task", "open_task", "take"]

_SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, eq=False)
class Task:
    """A data set without the labels a method must not see."""

    name: str
    metric: Metric
    train: Split  # no y
    dev: Split | None  # labelled rows only
    test: Split  # no y
    rows: Mapping[str, Any] = field(default_factory=dict)  # texts or images by split, may be empty
    class_balance: tuple[float, ...] | None = None  # what the folder says, if anything
    fingerprint: str = ""

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names."""
        return self.train.classes

    def with_dev_rows(self, count: int | None, seed: int) -> Task:
        """The same task with only `count` random dev rows; as it is where it has no more."""
        if count is None or self.dev is None or self.dev.n_rows <= count:
            return self
        keep = np.sort(np.random.default_rng(seed).permutation(self.dev.n_rows)[:count])
        rows = dict(self.rows)
        if "dev" in rows:
            rows["dev"] = take(rows["dev"], keep)
        return replace(self, dev=self.dev.rows(keep), rows=rows)

    def describe(self) -> dict[str, Any]:
        """What the tables say about the data itself."""
        votes, dev = self.train.votes, self.dev
        return {
            "data": self.name,
            "metric": self.metric.name,
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
class Judge:
    """Holds the truth of the test rows; asked once per finished prediction."""

    metric: Metric
    truth: np.ndarray = field(repr=False)  # (n_test,)

    def score(self, probabilities: np.ndarray, threshold: float | None) -> dict[str, float]:
        """All scores of one finished prediction, in points."""
        if len(probabilities) != len(self.truth):
            raise ParameterError(
                f"a prediction has {len(probabilities)} rows, the test split {len(self.truth)}"
            )
        return self.metric.scores(probabilities, self.truth, threshold)


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


def open_task(folder: str | Path) -> tuple[Task, Judge]:
    """Read a folder in the shared form; the labels of train are dropped, those of test sealed."""
    home = Path(folder)
    meta = _read_meta(home)
    found = {name: _read_split(home, name, meta) for name in _SPLITS}
    if found["train"] is None:
        raise StoreError(f"{home} has no votes-train.npy; a benchmark needs train votes")
    test = _labelled(found["test"])
    if test is None:
        raise LabelError(
            f"{home.name!r} has no test rows with true labels, so nothing can be scored; "
            "add votes-test.npy and test.parquet with labels"
        )
    dev = _labelled(found["dev"])
    train, _ = found["train"]
    split = test[0]
    metric = Metric.named(str(meta.get("metric", "accuracy")), meta.get("positive"), train.classes)
    assert split.y is not None  # _labelled keeps only rows with a label
    task = Task(
        name=str(meta.get("name", home.name)),
        metric=metric,
        train=_sealed(train),
        dev=None if dev is None else dev[0],
        test=_sealed(split),
        rows=_all_rows(found["train"], dev, test),
        class_balance=_balance(meta, train.classes),
        fingerprint=_fingerprint(home),
    )
    return task, Judge(metric, split.y)


_Part = tuple[Split, Any]  # a split and its texts or images (None where there are none)


def _read_meta(home: Path) -> dict[str, Any]:
    path = home / "meta.json"
    if not path.is_file():
        raise StoreError(
            f"{home} is not a data folder: no meta.json in it; it should hold meta.json, "
            "votes-train.npy, votes-test.npy, test.parquet and, best, a dev split and vectors"
        )
    try:
        meta = json.loads(path.read_text("utf-8"))
        classes = meta["classes"]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error!r}); it should name the classes") from None
    if not isinstance(classes, list):
        raise StoreError(f"{path} holds classes={classes!r}; expected a list of names")
    return dict(meta)


def _read_split(home: Path, name: str, meta: Mapping[str, Any]) -> _Part | None:
    path = home / f"votes-{name}.npy"
    if not path.is_file():
        return None
    votes = Votes(_array(path), meta.get("sources"), meta["classes"])
    vectors = home / f"vectors-{name}.npy"
    images = home / f"images-{name}.npy"
    table = home / f"{name}.parquet"
    labels, texts = _read_table(table) if table.is_file() else (None, None)
    rows = _array(images) if images.is_file() else texts
    split = Split(votes, _array(vectors) if vectors.is_file() else None, labels)
    return split, rows


def _array(path: Path) -> np.ndarray:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (ValueError, OSError) as error:
        raise StoreError(f"{path} cannot be read ({error}); write it again with np.save") from None


def _read_table(path: Path) -> tuple[list[Any] | None, list[str] | None]:
    from pyarrow import ArrowInvalid, parquet

    try:
        table = parquet.read_table(path)
    except ArrowInvalid as error:
        raise StoreError(f"{path} cannot be read ({error}); write it again") from None
    labels = table["label"].to_pylist() if "label" in table.column_names else None
    texts = table["text"].to_pylist() if "text" in table.column_names else None
    return labels, None if texts is None else [text or "" for text in texts]


def _labelled(part: _Part | None) -> _Part | None:
    if part is None or not part[0].labelled.any():
        return None
    split, rows = part
    keep = np.flatnonzero(split.labelled)
    return split.rows(keep), None if rows is None else take(rows, keep)


def take(rows: Any, keep: np.ndarray) -> Any:
    """Some of the texts (a list) or images (an array), by position."""
    return rows[keep] if isinstance(rows, np.ndarray) else [rows[int(index)] for index in keep]


def _sealed(split: Split) -> Split:
    return Split(split.votes, split.vectors, ids=split.ids)


def _all_rows(train: _Part | None, dev: _Part | None, test: _Part) -> dict[str, Any]:
    """Texts or images by split, if train and test have them."""
    parts = {"train": train, "dev": dev, "test": test}
    rows = {name: part[1] for name, part in parts.items() if part is not None}
    rows = {name: each for name, each in rows.items() if each is not None}
    return rows if {"train", "test"} <= set(rows) else {}


def _balance(meta: Mapping[str, Any], classes: tuple[str, ...]) -> tuple[float, ...] | None:
    given = meta.get("class_balance")
    if given is None:
        return None
    if isinstance(given, Mapping):
        given = [given.get(name) for name in classes]
    try:
        shares = tuple(float(share) for share in given)
    except (TypeError, ValueError):
        shares = ()
    if len(shares) != len(classes):
        raise ParameterError(
            f"meta.json holds class_balance={meta['class_balance']!r}; "
            f"expected one share for each of {list(classes)}"
        )
    return shares


def _fingerprint(home: Path) -> str:
    """Content of every file a benchmark reads."""
    total = hashlib.sha256()
    for path in sorted(home.iterdir()):
        if path.is_file() and path.suffix in (".json", ".npy", ".parquet"):
            total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:24]
