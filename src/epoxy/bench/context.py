"""What a column of the tables is, and what it is given: a task, a seed and a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..errors import EpoxyError
from ..extension import Reach, reach
from ..label_models import balance_of
from ..numerics import unit_rows
from ..votes import Split
from .task import BenchTask

Stage = Literal["preprocessing", "tuning", "training"]


@dataclass(frozen=True)
class BenchSettings:
    """What a benchmark run is asked to do.

    Parameters
    ----------
    methods
        Columns to run, by name; None for all.
    seeds
        Runs of whatever is random.
    quick
        One seed.
    class_balance
        Shares by class; `"dev"` counts the dev labels; `"tune"` lets the dev score choose (two
        classes); None takes what the folder's meta.json says, else `"dev"`.
    dev_rows
        Amounts of random dev rows, drawn anew with each seed; None for all, 0 for none.
    """

    methods: tuple[str, ...] | None = None
    seeds: int = 5
    quick: bool = False
    class_balance: tuple[float, ...] | Literal["dev", "tune"] | None = None
    dev_rows: tuple[int | None, ...] = (None,)


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method returns: probabilities on test, and on dev for the threshold."""

    test: np.ndarray  # (n_test, n_classes)
    # (n_dev, n_classes), not fitted on the row itself; NaN if unknown
    dev: np.ndarray | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    guess: np.ndarray | None = None  # (n_test,) of a method that decides by a rule of its own


@dataclass(frozen=True)
class BenchColumn:
    """One method of the tables: a small function from a context to a prediction."""

    name: str
    run: Callable[[Context], Prediction]
    needs: str = ""  # of the words "dev", "rows", "vectors"
    random: bool = False
    variant: str = ""  # what else determines its results

    def lacks(self, task: BenchTask) -> str | None:
        """Why this column cannot run on the task, and the cure, as a sentence; None if it can."""
        missing = [task.missing[need] for need in self.needs.split() if need in task.missing]
        if not missing:
            return None
        what, cures = (" and ".join(each) for each in zip(*missing, strict=True))
        return f"{self.name} needs {what}, and there are none; add {cures}"

    def takes(self, dev_rows: int | None) -> bool:
        """Whether it runs with so many dev rows: some need one, some are worth all alone."""
        if "rows" in self.needs:
            return dev_rows is None
        return dev_rows != 0 or "dev" not in self.needs


class Context:
    """One run of one column: the task with this seed's dev rows, and a clock."""

    def __init__(
        self,
        task: BenchTask,
        settings: BenchSettings,
        seed: int = 0,
        *,
        dev_rows: int | None = None,
    ) -> None:
        self.task = task.with_dev_rows(dev_rows, seed)
        self.settings = settings
        self.seed = seed
        self.seconds: dict[str, float] = {}
        """By stage, so far."""

    @contextmanager
    def clock(self, stage: Stage) -> Iterator[None]:
        """Add the time spent inside to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    @cached_property
    def reaches(self) -> dict[str, Reach]:
        """Who is nearest, for the rows of every split."""
        train = self.task.train
        with self.clock("preprocessing"):
            return {
                name: reach(train, None if name == "train" else split)
                for name, split in self.task.splits.items()
            }

    @property
    def dev(self) -> Split:
        """The labelled dev rows, of a column that needs them."""
        assert self.task.dev is not None
        return self.task.dev

    @property
    def truth(self) -> np.ndarray:
        """The labels of the dev rows."""
        return self.dev.truth

    def vectors(self, split: Split) -> np.ndarray:
        """The vectors of a split, of a column that needs them."""
        assert split.vectors is not None
        return split.vectors

    def vectors_and_votes(self, split: Split) -> np.ndarray:
        """Unit vectors times 3 beside one column for each vote a source casts on train.

        The factor lets a vector say about as much as a few votes under one penalty.
        """
        train = self.task.train.votes.matrix
        cast = [train == label for label in range(len(self.task.classes))]
        labels, sources = np.nonzero(np.array([each.any(axis=0) for each in cast]))
        said = split.votes.matrix[:, sources] == labels
        vectors = 3 * unit_rows(self.vectors(split))
        return np.hstack([vectors, said]).astype(np.float32)

    def balances(self) -> list[np.ndarray]:
        """Class balances to try, the first being the default."""
        asked = self.settings.class_balance
        if asked is None:
            asked = self.task.class_balance or "dev"
        n_classes = len(self.task.classes)
        uniform = np.full(n_classes, 1 / n_classes)
        if not isinstance(asked, str):
            return [np.asarray(asked, dtype=float)]
        if self.task.dev is None:
            return [uniform]
        counted = balance_of(self.task.dev)
        if n_classes > 2:
            return [counted, uniform]
        if asked == "dev":
            return [counted]
        return [counted, *(np.array([1 - share, share]) for share in np.arange(0.1, 0.95, 0.05))]

    def best(self, candidates: Mapping[Any, Callable[[], np.ndarray]]) -> Any:
        """The key whose probabilities score best on dev; the first on a tie, or without dev.

        A candidate that cannot answer (a label model that is not identifiable) is passed over; if
        none can, the first one's error is raised.
        """
        if self.task.dev is None:
            return next(iter(candidates))
        found, failed = {}, []
        for key, answer in candidates.items():
            try:
                found[key] = self.task.scoring.value(answer(), self.truth)
            except EpoxyError as error:
                failed.append(error)
        if not found:
            raise failed[0]
        return max(found, key=found.__getitem__)
