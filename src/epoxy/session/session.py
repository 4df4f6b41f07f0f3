"""The interactive loop without any interface: edit a source, and every label is current.

An edit recomputes what depends on it and nothing else: one column, one row and column of the pair
counts, the closed-form model, the probabilities, the scores. States are values (`Version`), so undo
is a step back, and whoever watches is told the difference (`Change`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from .. import neighbors
from ..diagnostics import Explanation, Report
from ..errors import NotIdentifiable, ParameterError, UnknownName
from ..extension import Radius, as_radii, typical_distance
from ..label_models import LabelModel
from ..label_models.kernels import warm
from ..model import Epoxy, position_of
from ..progress import Progress, silent
from ..votes import ABSTAIN, Split, Votes
from ..weighting import Weighting, resolve_weighting
from .combining import Combining
from .reaching import Index
from .steps import (
    DEV,
    TRAIN,
    change_between,
    check_same,
    column_of,
    default_model,
    extended_votes,
    joined,
    stack,
    truth_of,
    with_source,
)
from .store import Store
from .versions import Change, Source, Version
from .working import Working

__all__ = ["Session"]


class Session:
    """A train split, a dev split and the current votes, always combined.

    Parameters
    ----------
    train, dev
        Splits with the same sources; dev's true labels are scored against.
    label_model
        Combines the extended votes; None for `Triplet` with the class balance of dev.
    radius
        Radii to start with, in any form `Reach.extend` takes; None for the typical distance between
        neighbours.
    metric, weighting
        How nearness is measured and who lends a vote; see `epoxy.reach`.
    positive
        The class that F1, precision and recall are of.
    graph
        Find every row's neighbours first, so that edits take milliseconds; False for a session that
        is only read.
    cache
        A folder in which neighbours are kept, by content.

    Examples
    --------
    >>> votes = Votes([[1, 1, -1], [-1, -1, 1], [0, -1, 0], [-1, 0, -1]] * 20, sources="abc")
    >>> train = Split(votes, [[1.0, 0.1], [1.0, 0.2], [0.1, 1.0], [0.2, 1.0]] * 20)
    >>> session = Session(train, radius=0.0)
    >>> change = session.set_radius("a", 0.1)
    >>> change.coverage
    (0.5, 1.0)
    >>> session.undo().what
    'undo radius of a'
    """

    def __init__(
        self,
        train: Split,
        dev: Split | None = None,
        *,
        label_model: LabelModel | None = None,
        radius: Radius | None = None,
        metric: str = "cosine",
        weighting: str | Weighting | None = None,
        positive: str | None = None,
        graph: bool = True,
        cache: str | Path | None = None,
        progress: Progress = silent,
    ) -> None:
        self.classes, self.metric, self.positive = train.classes, metric, positive
        self.weighting = resolve_weighting(weighting)
        self.label_model = default_model(dev) if label_model is None else label_model
        self.failures: tuple[Any, ...] = ()
        self.project: Any = None
        self.store: Store | None = None
        self.rows: Any = None
        self.meanings: dict[str, str | None] = {}  # fingerprints of the functions it voted with
        self._watchers: list[Callable[[Change], None]] = []
        self._past: list[tuple[Version, str]] = []  # what was, and the edit that ended it
        self._working = Working(len(self.classes))
        self._combining = Combining(self.label_model, self._working, self.classes)
        warm()
        neighbors.warm()
        splits = (train,) if dev is None else (train, dev)
        check_same(splits)
        if radius is None:
            radius = 0.0 if train.vectors is None else typical_distance(train, metric)
        radii = as_radii(radius, train.votes.sources)
        # what a train split knows of the truth is never looked at; labels given by hand are
        truth = (np.full(train.n_rows, ABSTAIN), *(truth_of(split) for split in splits[1:]))
        folder = None if cache is None else Path(cache)
        index = Index.over(splits, metric, graph=graph, cache=folder, progress=progress)
        start = Version(0, (), truth, splits, index)
        for at, name in enumerate(train.votes.sources):
            own = tuple(np.ascontiguousarray(split.votes.matrix[:, at]) for split in splits)
            # certain for every radius: a slider never waits for what can be known beforehand
            made = self._extended(self._source(index, name, own, np.inf), radii[at], index)
            start = replace(start, sources=(*start.sources, made))
        self._now = self._combining.combine(start, positive)

    @classmethod
    def open(cls, folder: str | Path, **options: Any) -> Self:
        """Open a project folder: vote, embed, and go on where the last session stopped."""
        from .opening import open_session

        session: Self = open_session(cls, folder, **options)
        return session

    # reading

    @property
    def version(self) -> int:
        """Counts edits; two sessions states with the same number are the same."""
        return self._now.number

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of all sources, switched on or off."""
        return tuple(source.name for source in self._now.sources)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the splits: train, and dev if there is one."""
        return ("train", "dev")[: len(self._now.splits)]

    @property
    def radii(self) -> dict[str, float | None]:
        """How far each source may speak; None for one that is not extended."""
        return {s.name: None if np.isnan(s.radius) else s.radius for s in self._now.sources}

    @property
    def probabilities(self) -> np.ndarray:
        """Pr(class) of every train row; (n_rows, n_classes)."""
        return self._of(TRAIN)

    @property
    def dev_probabilities(self) -> np.ndarray:
        """Pr(class) of every dev row; (n_rows, n_classes)."""
        return self._of(DEV)

    @property
    def scores(self) -> dict[str, float]:
        """How good the labels are on the rows whose truth is known; empty if none is."""
        return dict(self._now.scores)

    @property
    def problem(self) -> str:
        """Why there are no probabilities now; empty when there are."""
        return self._now.problem

    @property
    def votes(self) -> Votes:
        """The extended train votes of the sources that are switched on."""
        return extended_votes(self._now, TRAIN)

    def split(self, name: str = "train", *, every: bool = False) -> Split:
        """A split with its current own votes and true labels; `every` includes sources switched off."""
        at = self._split_number(name)
        now = self._now
        used = now.sources if every else now.active
        matrix = stack([source.own[at] for source in used], now.splits[at].n_rows)
        votes = Votes(
            matrix,
            [source.name for source in used],
            self.classes,
            sequences=now.splits[at].votes.sequences,
        )
        return Split(votes, now.splits[at].vectors, now.truth[at], now.splits[at].ids)

    def model(self) -> Epoxy:
        """The current state as a fitted `Epoxy`, to predict on other rows, save, or report."""
        now = self._now
        if now.label_model is None:
            raise NotIdentifiable(now.problem)
        train = self.split()
        model = Epoxy(self.label_model, self._radii(), self.weighting, metric=self.metric)
        model.train_, model.label_model_ = train, now.label_model
        model.radius_ = self._radii()
        model.reach_ = now.index.as_reach(TRAIN, now.active, train.votes, self.weighting)
        model.votes_ = extended_votes(now, TRAIN)
        return model

    def report(self, split: str = "dev") -> Report:
        """The per-source table of a split, with scores where truth is known."""
        name = split if split == "train" or len(self._now.splits) > 1 else "train"
        return self.model().report(self.split(name), positive=self.positive)

    def explain(self, row: Any, split: str = "train") -> Explanation:
        """Why one row has its label."""
        return self.model().explain(self.split(split), row)

    def subscribe(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Call `watcher` with every `Change`; returns a function that ends it."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    # editing

    def set_votes(self, source: str, column: Any, *, dev: Any = None) -> Change:
        """Replace one source's votes (or add a source): what an edit of its function does.

        `column` holds one vote per train row, as class indices with −1 or as names with None; `dev`
        the same for the dev rows, where the source's votes stay as they are when not given.
        """
        now, old = self._now, self._now.source(source)
        given = [column] if len(now.splits) == 1 else [column, dev]
        own = []
        for at, (split, each) in enumerate(zip(now.splits, given)):
            if each is None and old is not None:
                own.append(old.own[at])
                continue
            votes = np.full(split.n_rows, ABSTAIN) if each is None else each
            own.append(column_of(source, votes, split.n_rows, self.classes))
        radius = old.radius if old is not None else self._usual_radius()
        made = self._source(now.index, source, tuple(own), radius, old)
        verb = "votes of" if old is not None else "add"
        return self._commit(with_source(now, made), f"{verb} {source}", source)

    def set_radius(self, source: str | None, radius: float | None) -> Change:
        """Let a source (None: all of them) speak as far as `radius`; None leaves its votes alone."""
        value = as_radii([radius], ["radius"])[0]
        changed = [self._known(source)] if source is not None else list(self._now.sources)
        return self._move([(each, value) for each in changed], f"radius of {source or 'all'}")

    def set_radii(self, radii: Mapping[str, float | None], what: str = "radii") -> Change:
        """Set several radii in one edit."""
        values = as_radii(list(radii.values()), list(radii))
        return self._move([(self._known(name), each) for name, each in zip(radii, values)], what)

    def switch(self, source: str, on: bool) -> Change:
        """Switch a source off (its votes stay known) or on again."""
        made = replace(self._known(source), is_on=bool(on))
        return self._commit(
            with_source(self._now, made), f"{'on' if on else 'off'} {source}", source
        )

    def remove(self, source: str) -> Change:
        """Forget a source."""
        gone = self._known(source)
        kept = tuple(each for each in self._now.sources if each is not gone)
        return self._commit(replace(self._now, sources=kept), f"remove {source}", source)

    def label(self, row: Any, label: str | None, split: str = "train") -> Change:
        """Give (or with None take back) the true label of a row; only scores change."""
        at = self._split_number(split)
        row_number = position_of(self._now.splits[at], row)
        if label is not None and label not in self.classes:
            raise UnknownName.of("class", label, self.classes)
        truth = self._now.truth[at].copy()
        truth[row_number] = ABSTAIN if label is None else self.classes.index(label)
        known = tuple(truth if i == at else each for i, each in enumerate(self._now.truth))
        return self._commit(replace(self._now, truth=known), f"label of {row}", None)

    def append(self, more: Split) -> Change:
        """Add train rows, with a vote of every source and a vector each."""
        now = self._now
        train = now.splits[TRAIN]
        grown = joined(self.split(every=True), more)
        index = now.index.append(more)
        unknown = np.full(more.n_rows, ABSTAIN)
        truth = (np.concatenate([now.truth[TRAIN], unknown]), *now.truth[1:])
        shell = replace(now, splits=(grown, *now.splits[1:]), truth=truth, index=index, sources=())
        for at, source in enumerate(now.sources):
            own = (np.ascontiguousarray(grown.votes.matrix[:, at]), *source.own[1:])
            made = self._source(index, source.name, own, source.radius)
            shell = replace(shell, sources=(*shell.sources, replace(made, is_on=source.is_on)))
        return self._commit(shell, f"append {grown.n_rows - train.n_rows} rows", None)

    def undo(self) -> Change:
        """Take the last edit back."""
        if not self._past:
            raise ParameterError("there is no edit to undo")
        start = time.perf_counter()
        before = self._now
        earlier, what = self._past[-1]
        made = self._combining.combine(earlier, self.positive, before.number + 1)
        self._past.pop()
        self._now = made
        return self._tell(before, f"undo {what}", None, start)

    def forget_past(self) -> None:
        """Make the current state the one that undo stops at."""
        self._past.clear()

    # the graph of computation

    def _source(
        self,
        index: Index,
        name: str,
        own: tuple[np.ndarray, ...],
        radius: float,
        old: Source | None = None,
    ) -> Source:
        reached = index.reached(own, radius, old)
        shell = Source(name, own, reached, own, radius, True if old is None else old.is_on)
        return self._extended(shell, radius, index)

    def _extended(self, source: Source, radius: float, index: Index) -> Source:
        return index.with_radius(source, radius, self.weighting, len(self.classes))

    def _move(self, radii: Sequence[tuple[Source, float]], what: str) -> Change:
        now = self._now
        for source, radius in radii:
            now = with_source(now, self._extended(source, radius, now.index))
        return self._commit(now, what, radii[0][0].name if len(radii) == 1 else None)

    def _commit(self, version: Version, what: str, source: str | None) -> Change:
        start = time.perf_counter()
        before = self._now
        made = self._combining.combine(version, self.positive, before.number + 1)
        self._past.append((before.decided(), what))
        self._now = made
        return self._tell(before, what, source, start)

    def _tell(self, before: Version, what: str, source: str | None, start: float) -> Change:
        """Let the store and whoever watches know what came of an edit."""
        now = self._now
        if self.store is not None:
            self.store.record(before, now, what)
        change = change_between(before, now, what, source, start)
        for watcher in tuple(self._watchers):
            watcher(change)
        return change

    # small reads

    def _of(self, at: int) -> np.ndarray:
        if self._now.problem:
            raise NotIdentifiable(self._now.problem)
        if at >= len(self._now.probabilities):
            raise ParameterError("this session has no dev split; give one: Session(train, dev=dev)")
        return self._now.probabilities[at]

    def _known(self, name: str) -> Source:
        found = self._now.source(name)
        if found is None:
            raise UnknownName.of("source", name, self.sources)
        return found

    def _split_number(self, name: str) -> int:
        if name not in self.names:
            raise UnknownName.of("split", name, self.names)
        return self.names.index(name)

    def _radii(self) -> np.ndarray:
        return np.array([source.radius for source in self._now.active])

    def _usual_radius(self) -> float:
        """What a new source starts with: the middle of the others' radii."""
        radii = [s.radius for s in self._now.sources if not np.isnan(s.radius)]
        return float(np.median(radii)) if radii else 0.0
