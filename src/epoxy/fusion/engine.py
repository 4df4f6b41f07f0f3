"""Fusion in a session: what depends on vectors alone, on labelled rows alone, on one column alone, is kept.

The walk of one edit: the column's loans (given by the workspace) → pair counts → which sources are
copies → class balance → what votes make of each row → `pupil` (one solve) → what pupil and majority
agree on → `echo` (one solve) and `regions` (one sum) → the correction on the labelled rows → every
probability. The features of the train rows are read three times, and nothing is searched. A hand label
starts at the correction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import Explanation, Report
from ..engines.base import Outcome
from ..extension import AUTO, Setting, as_settings
from ..neighbors.workers import single_threaded_blas
from ..numerics import softmax
from ..scoring import positive_index
from ..workspace import TRAIN, Workspace
from . import decision
from . import evidence as ev
from .choice import Crowd, looks_chosen, margin
from .fitted import Fitted, Rows
from .lesson import Said
from .teaching import Seen, Teaching, surely_better
from .unlabelled import Unlabelled

if TYPE_CHECKING:
    from .model import Fusion

FEWEST_TO_ASK = 10
"""Hand labels from which they may find vectors telling that votes do not."""


@dataclass(frozen=True, eq=False)
class Corrections:
    """What hand labels make of the model without labels."""

    rows: list[Rows]  # without features where they tell nothing
    said: Said
    base: Fitted  # without labels
    fitted: Fitted
    held: np.ndarray  # probabilities of labelled rows, held out


class FusionEngine:
    """The default model, kept in step with a workspace."""

    name, apart = "fusion", True
    lends = ev.LENDS

    def __init__(self, model: Fusion) -> None:
        self.parameters = model
        self.metric = model.metric
        self._base = Unlabelled(model)
        self._seen: Seen | None = None  # vectors, or what is seen of them elsewhere
        self._teaching = Teaching(None)
        self._voted: Any = None  # sources and splits, and the model without labels over them
        self._last: tuple[Any, list[Rows], list[dict[str, np.ndarray]], Any] = (None, [], [], None)

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
        if not workspace.active:
            problem = "no source is switched on; add a labeling function"
            nobody = tuple(workspace.columns(at, []) for at in range(len(workspace.splits)))
            return Outcome.none(workspace, np.empty(0), nobody, problem)
        with single_threaded_blas():  # small products must not wait for a second thread
            return self._updated(workspace)

    def _updated(self, workspace: Workspace) -> Outcome:
        given = (workspace.sources, workspace.splits)
        if self._voted is None or not all(map(is_, self._voted[0], given)):
            self._voted = None  # an update that fails leaves nothing behind
            self._voted = (given, self._base.update(workspace))
            self.see(self._base.vectors)
        return self._finish(workspace, self.corrected(workspace, *self._voted[1]))

    def corrected(
        self, workspace: Workspace, base: Fitted, rows: list[Rows], spoken: Said
    ) -> Corrections:
        """The model without labels as the hand labels correct it."""
        if base.pupil is None:
            return self._without_vectors(workspace, base, rows)
        said = [dict(each) for each in spoken]
        return Corrections(rows, said, base, *self._taught(workspace, base, rows, said))

    def _without_vectors(self, workspace: Workspace, base: Fitted, rows: list[Rows]) -> Corrections:
        """Votes alone: there are no vectors, or they foretell no vote, and then nothing is lent by them.

        Hand labels may still find vectors telling that votes at chance do not: they are asked both ways,
        and what foretells labels held out better is taken.
        """
        said = [base.of_votes(each) for each in rows]
        blind = [replace(each, features=None) for each in rows]
        taught = self._taught(workspace, base, blind, said)
        if self._seen is None or workspace.labels.count < FEWEST_TO_ASK:
            return Corrections(blind, said, base, *taught)
        sighted = replace(base, view=self._seen.view)
        other = self._taught(workspace, sighted, rows, said)
        if surely_better(workspace, other[1], taught[1]):
            return Corrections(rows, said, sighted, *other)
        return Corrections(blind, said, base, *taught)

    def _taught(
        self,
        workspace: Workspace,
        base: Fitted,
        rows: list[Rows],
        said: list[dict[str, np.ndarray]],
    ) -> tuple[Fitted, np.ndarray]:
        """The model as hand labels correct it, and their held-out probabilities."""
        if not workspace.labels.count:
            return base, np.empty((0, len(base.prior)))
        return self._teaching.correct(workspace, base, rows, said, self.parameters.noise)

    def see(self, vectors: Seen | None) -> None:
        """Teach over these vectors from now on."""
        self._seen = vectors
        if self._teaching.vectors is not vectors:
            self._teaching = self._teaching.over(vectors)

    def _finish(self, workspace: Workspace, made: Corrections) -> Outcome:
        rows, said, base, fitted, held = made.rows, made.said, made.base, made.fitted, made.held
        if fitted.hears_neighbours:
            rows = self._teaching.with_neighbours(rows)
        logits = []
        for part, spoken in zip(rows, said):
            second, learned = fitted.second(part)
            spoken |= second
            if fitted.hears_neighbours:
                assert part.nearby is not None
                spoken["neighbours"] = fitted.of_neighbours(part.nearby)
            logits.append(fitted.summed(part, spoken, learned))
        proba = tuple(map(softmax, logits))
        self._last = (workspace, rows, said, base)
        rule = self._rule(workspace, proba, held)
        radii = self._lending(workspace, base)
        return self.concluded(workspace, replace(fitted, rule=rule), radii, proba, held)

    def concluded(
        self,
        workspace: Workspace,
        fitted: Fitted,
        radii: np.ndarray,
        proba: tuple[np.ndarray, ...],
        held: np.ndarray,
    ) -> Outcome:
        """What follows from a fitted model and its probabilities."""
        rule = fitted.rule
        extended = tuple(
            workspace.columns(
                at, [each.loans[at].extend(far) for each, far in zip(workspace.active, radii)]
            )
            for at in range(len(workspace.splits))
        )
        return Outcome(
            workspace,
            lambda: self.parameters.with_parts(fitted, workspace),
            radii,
            extended,
            proba,
            tuple(map(rule, proba)),
            held,
            rule(held),
            unheard=fitted.unheard(workspace.names),
        )

    def _lending(self, workspace: Workspace, fitted: Fitted) -> np.ndarray:
        """How far each active source lends anything; copies lend nothing."""
        radii = np.full(len(workspace.active), np.nan)
        if workspace.near.spaces is not None:
            radii[fitted.columns] = fitted.lending
        return radii

    # decisions

    def _rule(
        self, workspace: Workspace, proba: tuple[np.ndarray, ...], held: np.ndarray
    ) -> decision.Rule:
        if not self.needs_rule(workspace):
            return decision.Rule()
        drawn, mean = self.drawn_at_random(workspace)[0], proba[TRAIN].mean(axis=0)

        def ranked(positive: int) -> decision.Ranking:
            return decision.RankedRows(proba[TRAIN], softmax(self._before()[TRAIN]), positive)

        return self.rule(workspace, self._last[3], drawn, held, mean, ranked)

    def needs_rule(self, workspace: Workspace) -> bool:
        """Whether anything else than the most probable class may be decided for."""
        scoring = self.parameters.scoring
        by_labels = scoring in decision.EVENED and bool(workspace.labels.count)
        return scoring in (*decision.BALANCED, *decision.OF_POSITIVE) or by_labels

    def positive(self, classes: tuple[str, ...]) -> int | None:
        """The class whose score counts; None where that of none does."""
        if self.parameters.scoring not in decision.OF_POSITIVE:
            return None
        return positive_index(self.parameters.positive, classes)

    def rule(
        self,
        workspace: Workspace,
        base: Fitted,
        drawn: np.ndarray,
        held: np.ndarray,
        mean: np.ndarray,
        ranked: Callable[[int], decision.Ranking],
    ) -> decision.Rule:
        """The rule of decision.

        `base` is the model without labels, `drawn` are the labelled rows drawn at random, and `mean` is
        of train rows.
        """
        if self.parameters.scoring in decision.BALANCED:
            return decision.balanced_rule(mean)
        if self.parameters.scoring in decision.EVENED:
            return decision.macro_rule(mean, int(drawn.sum()))
        positive = self.positive(workspace.classes)
        assert positive is not None  # checked with the parameters
        labels = workspace.labels
        many = decision.n_heard(labels.noise, drawn)
        drawn = drawn & (labels.noise == 0)  # what may be wrong is no truth to set a threshold by
        right = labels.labels[drawn] == positive
        shown = held[drawn, positive]
        heard, agreed = base.balance.agreed, None
        # where `agreement` speaks, it has said so already
        if heard is not None and len(heard) == 2 and base.agreement is None:
            agreed = float(heard[positive])
        return decision.f1_rule(ranked(positive), positive, agreed, shown, right, many)

    def _before(self) -> list[np.ndarray]:
        """Logits of every split without what hand labels taught."""
        _, rows, said, base = self._last
        return [base.summed(part, each) for part, each in zip(rows, said)]

    def drawn_at_random(self, workspace: Workspace) -> tuple[np.ndarray, str]:
        """Labelled rows taken as drawn at random, and why others are not, in words.

        Those told to be, and those whose choice is not known, while nothing tells them from others.
        """
        rows, labels = self._last[1], workspace.labels
        unknown = labels.representative & ~labels.told_random
        if not unknown.any():
            return labels.told_random, ""
        margins = [margin(each) for each in self._before()]
        votes = [each.votes.T for each in rows]
        mine = labels.gather(margins)[unknown]
        crowd = Crowd.of(mine, margins[TRAIN], rows[TRAIN].votes)
        features = gram = None
        if self._base.vectors is not None and rows[TRAIN].features is not None:
            features = labels.gather(self._base.vectors.matrices)[unknown]
            gram = self._base.vectors.gram
        why = looks_chosen(mine, labels.gather(votes)[unknown].T, crowd, features, gram)
        return (labels.told_random if why else labels.told_random | unknown), why

    # reading

    def explain(self, outcome: Outcome, at: int, row: int) -> Explanation:
        """Every expert's part in one row's probabilities, and who is behind it."""
        from .explanation import explain_row

        return explain_row(outcome, self.seen(outcome)[at], at, row)

    def weight(self, outcome: Outcome, source: str) -> float | None:
        """What an own vote of an active source adds to the log-odds of its class."""
        from .weighing import weight_of_source

        return weight_of_source(outcome, self.seen(outcome)[TRAIN], source)

    def seen(self, outcome: Outcome) -> list[Rows]:
        """The rows of every split of an outcome as the experts see them."""
        if self._last[0] is not outcome.workspace:  # a preview came between
            self.update(outcome.workspace)
        return self._last[1]

    def report(self, outcome: Outcome, at: int, positive: str | None) -> Report:
        """What each source and each expert does, and how good and calibrated the labels are."""
        from .report import write_report

        return write_report(self, outcome, at, positive)
