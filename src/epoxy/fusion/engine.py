"""Fusion in a session: what depends on vectors alone is kept, everything else is learned anew at every edit.

So a session after edits equals a fresh fit by construction: both call `unlabelled.learn`, and where rows are
labelled `hand_labels.taught_by`. Of hand labels only the likest labelled rows are kept, since they depend on
no vote and no label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..diagnostics import Explanation, Report
from ..engines.base import Outcome
from ..extension import AUTO, Setting, as_settings
from ..mapped import blocks
from ..neighbors.workers import single_threaded_blas
from ..numerics import softmax
from ..scoring import positive_index
from ..votes import ABSTAIN
from ..workspace import TRAIN, Workspace
from . import decision
from .around import Vectors
from .fitted import AT_ONCE, Fitted, SeenRows
from .hand_labels import Taught, taught_by
from .sequence import Order, steps_of
from .unlabelled import Said, learn

if TYPE_CHECKING:
    from .fusion import Fusion

MOST_SILENCED = 500
"""Rows on which a source is silenced to see what its votes weigh."""


class Last(NamedTuple):
    """What the last update made, as explanations and decisions read it."""

    workspace: Workspace
    base: Fitted
    """The model without labels."""
    rows: list[SeenRows]
    said: list[Said]
    order: Order | None
    """What the order of rows says, where train has sequences."""

    def before(self) -> list[np.ndarray]:
        """Logits of every split without what hand labels taught."""
        if self.order is not None:
            return self.order.before
        return [self.base.summed(*each) for each in zip(self.rows, self.said)]


class FusionEngine:
    """The default model, kept in step with a workspace."""

    name, apart = "fusion", True
    _last: Last

    def __init__(self, model: Fusion, vectors: Vectors | None = None) -> None:
        self.parameters = model
        self.metric = model.metric
        self.vectors = vectors
        self._taught: Taught | None = None
        self._voted: tuple[Any, Any] | None = None  # sources and splits; the model without labels

    def settings(self, sources: Sequence[str]) -> list[Setting]:
        """The radii of the constructor; sources it does not name lend by the model's own rule."""
        radius = self.parameters.radius
        if radius is None:
            return [None] * len(sources)
        if isinstance(radius, Mapping):
            return as_settings({**dict.fromkeys(sources, AUTO), **radius}, sources)
        return as_settings(radius, sources)

    # one update

    def update(self, workspace: Workspace) -> Outcome:
        """Everything that follows from the votes, the vectors and the hand labels."""
        see = workspace.near.graphs is not None and len(workspace.splits[TRAIN].votes.matrix) > 0
        if not workspace.active and not (see and workspace.labels.count):
            nobody = tuple(workspace.columns(at, []) for at in range(len(workspace.splits)))
            cure = "add a labeling function" + (", or label some rows" if see else "")
            problem = f"no source is switched on; {cure}"
            return Outcome.none(workspace, np.empty(0), nobody, problem)
        with single_threaded_blas():  # small products must not wait for a second thread
            return self._updated(workspace)

    def _updated(self, workspace: Workspace) -> Outcome:
        self._take_up_vectors(workspace)
        given = (workspace.sources, workspace.splits)
        if self._voted is None or not all(map(is_, self._voted[0], given)):
            self._voted = None  # an update that fails leaves nothing behind
            learned = learn(self.parameters, workspace, self.vectors)
            self._voted = (given, (*learned, steps_of(workspace, *learned)))
        base, rows, said, steps = self._voted[1]
        fitted, held, noise = base, np.empty((0, len(base.prior))), self.parameters.noise
        if workspace.labels.count:
            if self.vectors is not None:
                self._taught = Taught.of(workspace, self.vectors, self._taught)
            known = None if self.vectors is None else self._taught
            fitted, held = taught_by(base, workspace, rows, said, known, noise)
            rows = [self._with_likest(fitted, at, each) for at, each in enumerate(rows)]
        proba, order = [_probabilities(fitted, *each) for each in zip(rows, said)], None
        if steps is not None:
            alone = [softmax(base.summed(*each)) for each in zip(rows, said)]
            order = Order.of(workspace, steps, alone, proba, held, noise)
            proba, held = order.proba, order.held
        self._last = Last(workspace, base, rows, said, order)
        rule = self._rule(workspace, proba)
        return self._concluded(replace(fitted, rule=rule), proba, held)

    def _take_up_vectors(self, workspace: Workspace) -> None:
        given = [split.vectors for split in workspace.splits]
        if workspace.near.graphs is None or any(each is None for each in given):
            self.vectors = None
            return
        known = self.vectors
        same = known is not None and len(known.given) == len(given)
        if known is None or not same or not all(map(is_, known.given, given)):
            apart, seed = self.metric == "cosine", self.parameters.seed
            self.vectors = Vectors.of(workspace.near, given, seed, apart=apart)
            self._voted = None

    def _with_likest(self, fitted: Fitted, at: int, rows: SeenRows) -> SeenRows:
        taught = fitted.corrected
        if taught is None or not taught.asks or self._taught is None:
            return rows
        return replace(rows, likest=self._taught.likest[at])

    def _concluded(self, fitted: Fitted, proba: list[np.ndarray], held: np.ndarray) -> Outcome:
        """What follows from a fitted model and its probabilities."""
        workspace, _, rows, _, order = self._last
        radii = np.full(len(workspace.active), np.nan)
        radii[fitted.columns] = fitted.radii
        extended = []
        for at, each in enumerate(rows):
            columns = [source.loans[at].own for source in workspace.active]
            for number, votes in zip(fitted.columns, each.votes):
                if not np.array_equal(votes, columns[number]):  # the same array: nothing is lent
                    columns[number] = votes
            extended.append(workspace.columns(at, columns))

        def make() -> Fusion:
            model = self.parameters.with_parts(fitted, workspace, vectors=self.vectors)
            model.chain_ = None if order is None else order.chain
            return model

        return Outcome(
            workspace,
            make,
            radii,
            tuple(extended),
            tuple(proba),
            tuple(map(fitted.rule, proba)),
            held,
            fitted.rule(held),
            unheard=fitted.unheard(workspace.names),
        )

    # decisions

    def _rule(self, workspace: Workspace, proba: list[np.ndarray]) -> decision.Rule:
        scoring, many = self.parameters.scoring, decision.n_heard(workspace.labels.noise)
        mean = proba[TRAIN].mean(axis=0)
        if scoring in decision.BALANCED:
            return decision.balanced_rule(mean)
        if scoring in decision.EVENED:
            return decision.macro_rule(mean, many)
        if scoring not in decision.OF_POSITIVE:
            return decision.Rule()
        positive = positive_index(self.parameters.positive, workspace.classes)
        assert positive is not None  # checked with the parameters
        base = self._last.base
        told, agreed = base.balance.agreed, None
        # where how sources agree speaks by itself, it has said so already
        if told is not None and len(told) == 2 and base.likelihood is None:
            agreed = float(told[positive])
        own, before = proba[TRAIN][:, positive], softmax(self._last.before()[TRAIN])
        return decision.f1_rule(own, before, positive, agreed, many)

    # reading

    def explain(self, outcome: Outcome, at: int, row: int) -> Explanation:
        """Every part of one row's probabilities, and who is behind it."""
        from .explanation import explain_row, with_sequence

        rows, order = self.seen(outcome).rows[at].take(np.array([row])), self._last.order
        model, split = outcome.model, outcome.workspace.split(at)
        shown = outcome.proba[at][row], int(outcome.decided[at][row])
        found = explain_row(model, split, row, rows, *shown)
        added = None if order is None else order.added[at]
        if added is None:
            return found
        given = model.chain_.given if at == TRAIN else None
        return with_sequence(found, added[:, row], split, row, given)

    def weight(self, outcome: Outcome, source: str) -> float | None:
        """What an own vote of an active source adds to the log-odds of its class on average.

        A vote counts in two parts, so the source is silenced on rows it votes on, with all that was learned
        left as it is. None for one that never votes; a copy of another adds nothing.
        """
        fitted: Fitted = outcome.model.fitted_
        place = np.flatnonzero(fitted.columns == outcome.workspace.names.index(source))
        if not len(place):
            return 0.0
        rows, column = self.seen(outcome).rows[TRAIN], int(place[0])
        voted = np.flatnonzero(rows.own[column] != ABSTAIN)
        if not len(voted):
            return None
        some = rows.take(voted[:: -(-len(voted) // MOST_SILENCED)])
        said, mute = some.own[column].astype(np.intp), np.arange(len(some.own))[:, None] == column
        silent = replace(
            some,
            own=np.where(mute, ABSTAIN, some.own),
            votes=np.where(mute, ABSTAIN, some.votes),
        )
        scale = fitted.scale(some)[:, None]  # as of rows with votes, with and without it
        both = [
            scale * fitted.summed(each, fitted.parts(each)) / fitted.scale(each)[:, None]
            for each in (some, silent)
        ]
        with_it, without = (_log_odds(each, said) for each in both)
        return float((with_it - without).mean())

    def seen(self, outcome: Outcome) -> Last:
        """What an update made of the workspace of an outcome."""
        if self._last.workspace is not outcome.workspace:  # a preview came between
            self.update(outcome.workspace)
        return self._last

    def report(self, outcome: Outcome, at: int, positive: str | None) -> Report:
        """What each source and each part does, and how good and calibrated the labels are."""
        from .model_report import write_report

        return write_report(self, outcome, at, positive)


def _probabilities(fitted: Fitted, rows: SeenRows, said: Said) -> np.ndarray:
    """Of rows of which it is known what the parts say without labels, some at a time."""
    found = np.empty((len(rows), len(fitted.prior)))
    for part in blocks(len(rows), AT_ONCE):
        some = rows if len(rows) <= AT_ONCE else rows.take(part)
        before = {name: each[part] for name, each in said.items()}
        found[part] = softmax(fitted.summed(some, fitted.parts(some, before)))
    return found


def _log_odds(logits: np.ndarray, said: np.ndarray) -> np.ndarray:
    """Of the classes said, against all others together; (n_rows,)."""
    at = np.arange(len(said))
    others = logits.copy()
    others[at, said] = -np.inf
    return np.asarray(logits[at, said] - np.logaddexp.reduce(others, axis=1))
