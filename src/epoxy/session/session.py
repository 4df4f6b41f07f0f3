"""The interactive loop without any interface: edit a source, and every label is current.

An edit recomputes what depends on it and nothing else: one column, one row and column of the pair
counts, the closed-form model, the probabilities, the scores. States are values (`Version`), so undo
is a step back, and whoever watches is told the difference (`Change`).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from .. import neighbors
from ..diagnostics import Explanation, Report
from ..errors import (
    NotIdentifiable,
    ParameterError,
    UnknownName,
)
from ..extension import Radius, Reach, as_radii, typical_distance
from ..label_models import LabelModel
from ..label_models.base import posterior
from ..label_models.kernels import from_log_odds, sum_log_odds, warm
from ..model import Epoxy, position_of
from ..progress import Progress, silent
from ..votes import ABSTAIN, Split, Votes
from ..weighting import Weighting, resolve_weighting
from .reaching import Index
from .steps import (
    DEV,
    TRAIN,
    Told,
    check_same,
    column_of,
    coverage_of,
    default_model,
    flipped,
    joined,
    most_probable,
    stack,
    truth_of,
    with_source,
)
from .store import Store
from .versions import Change, Source, Version
from .working import Working

__all__ = ["Session"]

_FEW = 32  # sources up to which BLAS does not think of a second thread


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
        self._template = clone(self.label_model, safe=False)
        self.failures: tuple[Any, ...] = ()
        self.project: Any = None
        self.store: Store | None = None
        self.rows: Any = None
        self.meanings: dict[str, str | None] = {}  # fingerprints of the functions it voted with
        self._watchers: list[Callable[[Change], None]] = []
        self._past: list[Version] = []
        self._working = Working(len(self.classes))
        self._told: Told | None = None
        self._threads = ThreadpoolController()
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
            made = self._extended(self._source(start, name, own, np.inf), radii[at], index)
            start = replace(start, sources=(*start.sources, made))
        self._now = self._combine(start)

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
        return self._votes(TRAIN)

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
        model.reach_ = self._reach(TRAIN, train.votes)
        model.votes_ = self._votes(TRAIN)
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
        made = self._source(now, source, tuple(own), radius, old)
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
            made = self._source(shell, source.name, own, source.radius)
            shell = replace(shell, sources=(*shell.sources, replace(made, is_on=source.is_on)))
        return self._commit(shell, f"append {grown.n_rows - train.n_rows} rows", None)

    def undo(self) -> Change:
        """Take the last edit back."""
        if not self._past:
            raise ParameterError("there is no edit to undo")
        start = time.perf_counter()
        before = self._now
        made = self._combine(self._past[-1], before.number + 1)
        self._past.pop()
        self._now = made
        self._keep(before, made, f"undo {self._last}")
        return self._tell(before, f"undo {self._last}", None, start)

    def forget_past(self) -> None:
        """Make the current state the one that undo stops at."""
        self._past.clear()

    # the graph of computation

    def _source(
        self,
        version: Version,
        name: str,
        own: tuple[np.ndarray, ...],
        radius: float,
        old: Source | None = None,
    ) -> Source:
        support = own[TRAIN] != ABSTAIN
        alone = not support.any() or support.all()  # nothing to lend, or sources left alone
        speakers = None if alone else version.index.speakers(support)
        reached = tuple(
            version.index.nobody(at)
            if alone
            else version.index.reach(at, speakers, radius, old.reach[at] if old else None)
            for at in range(len(version.splits))
        )
        shell = Source(name, own, reached, own, radius, True if old is None else old.is_on)
        return self._extended(shell, radius, version.index)

    def _extended(self, source: Source, radius: float, index: Index) -> Source:
        """The same source with another radius; searches only what lies beyond the last one asked."""
        reached = tuple(index.widen(each, radius) for each in source.reach)
        said = source.said
        if not said or reached != source.reach:
            said = tuple(index.said(source.own[TRAIN], each) for each in reached)
        heard = Source(
            source.name, source.own, reached, source.own, float(radius), source.is_on, said
        )
        every = range(len(reached))
        extended = (index.extend(at, heard, self.weighting, len(self.classes)) for at in every)
        return replace(heard, extended=tuple(extended))

    def _move(self, radii: Sequence[tuple[Source, float]], what: str) -> Change:
        now = self._now
        for source, radius in radii:
            now = with_source(now, self._extended(source, radius, now.index))
        return self._commit(now, what, radii[0][0].name if len(radii) == 1 else None)

    def _combine(self, version: Version, number: int = 0) -> Version:
        """Fit the label model and read probabilities, labels and scores of a version."""
        if len(version.sources) <= _FEW:
            return self._combined(version, number)
        # products of some hundred rows are not worth waiting for a second thread, least of all a busy one
        with self._threads.limit(limits=1, user_api="blas"):
            return self._combined(version, number)

    def _combined(self, version: Version, number: int) -> Version:
        self._working.sync([source.extended[TRAIN] for source in version.active])
        try:
            model = self._fit(version)
        except NotIdentifiable as error:
            return version.combined(number, None, (), (), {}, str(error))
        proba = tuple(self._probabilities(model, version, at) for at in range(len(version.splits)))
        labels = tuple(most_probable(each) for each in proba)
        if self._told is None or self._told.truth is not version.truth:
            self._told = Told.of(version.truth)
        found = self._told.scores(proba, self.classes, self.positive)
        return version.combined(number, model, proba, labels, found)

    def _fit(self, version: Version) -> Any:
        model = copy.copy(self._template)  # clone() reads signatures: half a millisecond per edit
        names = tuple(source.name for source in version.active)
        if not names:
            raise NotIdentifiable("no source is switched on; add a labeling function")
        if hasattr(model, "fit_moments") and not model.needs_rows:
            return model.fit_moments(self._working.moments(names, self.classes))
        return model.fit(self._votes(TRAIN, version))

    def _probabilities(self, model: Any, version: Version, at: int) -> np.ndarray:
        if not hasattr(model, "log_likelihood_"):
            return np.asarray(model.predict_proba(self._votes(at, version)))
        alike = self._working.patterns() if at == TRAIN else None
        if alike is not None:
            return alike.spread(self._posterior(model, alike.votes))
        if at == TRAIN:
            return self._posterior(model, self._working.matrix)
        return self._posterior(model, np.stack([source.extended[at] for source in version.active]))

    def _posterior(self, model: Any, columns: np.ndarray) -> np.ndarray:
        """Probabilities of rows given as columns of votes; (n_rows, n_classes)."""
        table, prior = model.log_likelihood_, model.log_prior()
        if len(self.classes) == 2:
            odds = table[:, :, 1] - table[:, :, 0]
            return from_log_odds(sum_log_odds(columns, odds, float(prior[1] - prior[0])))
        return posterior(columns.T, table, prior)

    def _commit(self, version: Version, what: str, source: str | None) -> Change:
        start = time.perf_counter()
        before = self._now
        made = self._combine(version, before.number + 1)
        self._past.append(before.decided())
        self._now, self._last = made, what
        self._keep(before, made, what)
        return self._tell(before, what, source, start)

    def _keep(self, before: Version, now: Version, what: str) -> None:
        """Write what a person decided to the project's store, if there is one."""
        if self.store is None:
            return
        known = {source.name: (source.radius, source.is_on) for source in before.sources}
        settings = {source.name: (source.radius, source.is_on) for source in now.sources}
        changed = {
            name: value
            for name, value in settings.items()
            if str(known.get(name, value)) != str(value)  # NaN equals itself as text
        }
        if changed:
            self.store.set_sources(changed, what)
        for split, old, new in zip(now.splits, before.truth, now.truth):
            for row in np.flatnonzero(old != new) if len(old) == len(new) else ():
                label = None if new[row] == ABSTAIN else self.classes[new[row]]
                self.store.set_label(str(split.ids[row]), label)

    def _tell(self, before: Version, what: str, source: str | None, start: float) -> Change:
        now = self._now
        old, new = (each.source(source) if source else None for each in (before, now))
        change = Change(
            version=now.number,
            what=what,
            source=source,
            flipped=flipped(before, now),
            before=before.scores,
            after=now.scores,
            coverage=None if source is None else (coverage_of(old), coverage_of(new)),
            seconds=time.perf_counter() - start,
            searched=0.0 if new is None else now.index.searched(new.reach[TRAIN]),
            problem=now.problem,
        )
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

    def _votes(self, at: int, version: Version | None = None) -> Votes:
        now = self._now if version is None else version
        matrix = stack([source.extended[at] for source in now.active], now.splits[at].n_rows)
        names = tuple(source.name for source in now.active)
        return Votes.of_checked(matrix, names, self.classes, now.splits[at].votes.sequences)

    def _reach(self, at: int, votes: Votes) -> Reach:
        found: Reach = self._now.index.as_reach(at, self._now.active, votes, self.weighting)
        return found
