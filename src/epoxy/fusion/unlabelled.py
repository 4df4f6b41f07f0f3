"""The model without hand labels, kept in step with votes and vectors.

Votes and loans are tables of which one edit changes a row; pair counts, grades of loans and the support of
sources follow a column at a time, and what depends on vectors alone is made once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING

import numpy as np

from ..extension import far
from ..label_models.moments import Moments, moments_of
from ..shares import checked_shares
from ..votes import Votes
from ..workspace import TRAIN, Workspace
from . import decision
from . import evidence as ev
from .agreement import of_votes_alone
from .balance import Balance, guessed
from .calibration import SCALES
from .copies import distinct
from .fitted import Fitted, Readout, Rows, read
from .lesson import Said
from .matching import keeps_balance
from .stacked import Grading, Stacked
from .support import who_tell
from .teaching import vote_mean
from .vectors import Regressed, Vectors
from .witnesses import Witnesses

if TYPE_CHECKING:
    from .model import Fusion


_Summary = tuple[Moments, np.ndarray, dict[bytes, tuple[Moments, Balance]]]
"""Moments of all sources, those that are no copies, and what is known of some of these together."""


@dataclass(frozen=True, eq=False)
class _Learned:
    """What follows from votes and vectors, whatever radii are."""

    votes: list[np.ndarray]  # of every active source on every split
    vectors: Vectors | None
    balance: Balance
    heard: np.ndarray | None = None  # of the sources that are no copies; None for all
    support: np.ndarray | None = None
    pupil: Readout | None = None  # None where vectors tell nothing
    echo: Readout | None = None
    regions: Readout | None = None
    said: tuple[dict[str, np.ndarray], ...] = ()  # of every split, by the experts that need no loan


class Unlabelled:
    """What the experts say before any row is labelled."""

    def __init__(self, model: Fusion) -> None:
        self.parameters = model
        self.vectors: Vectors | None = None
        self._stacked: list[Stacked] = []
        self._counted: tuple[list[np.ndarray], Moments] | None = None
        self._summary: _Summary | None = None
        self._known: _Learned | None = None
        self._witnesses = Witnesses()
        self._grading = Grading()

    def update(self, workspace: Workspace) -> tuple[Fitted, list[Rows], Said]:
        """The model without labels, and what it says; kept while only hand labels change."""
        self._take_up_votes(workspace)
        self._take_up_vectors(workspace)
        columns = self._distinct(workspace)
        rows = [self._rows(at, columns) for at in range(len(workspace.splits))]
        votes = [each.own[at] for each in workspace.active for at in range(len(rows))]
        known = self._known
        if known is None or known.vectors is not self.vectors or not _same(known.votes, votes):
            self._known = None  # an update that fails leaves nothing behind
            self._known = self._learned(workspace, columns, rows, votes)
        known = self._known
        assert known is not None
        rows = [each.hearing(known.heard) for each in rows]
        base = self._started(workspace, columns, known, rows)
        if known.pupil is None:
            summary = self._summarised(workspace, columns, known.heard)[0]
            return keeps_balance(of_votes_alone(base, summary), rows[TRAIN]), rows, []
        said = [{**each, "reach": base.of_loans(part)} for each, part in zip(known.said, rows)]
        return keeps_balance(base, rows[TRAIN]), rows, said

    def _started(
        self, workspace: Workspace, columns: np.ndarray, known: _Learned, rows: list[Rows]
    ) -> Fitted:
        """What was learned, and how far sources may lend."""
        heard = np.ones(len(columns), dtype=bool) if known.heard is None else known.heard
        radii = np.array([far(workspace.active[at].radius) for at in columns])
        radii[~heard] = np.nan
        edges = self._grading.edges(workspace, columns[heard])
        mean = vote_mean(rows[TRAIN].cast, len(known.balance.shares))
        view = None if known.pupil is None or self.vectors is None else self.vectors.view
        scales = np.ones(3) if view is None else SCALES
        taught = (view, None, known.pupil, known.echo, mean, scales, None, decision.Rule())
        rest = (None, known.regions, known.support, known.heard)
        return Fitted(known.balance, columns, radii, edges, *taught, *rest)

    def _learned(
        self, workspace: Workspace, columns: np.ndarray, rows: list[Rows], votes: list[np.ndarray]
    ) -> _Learned:
        """What follows from votes and vectors, whatever radii are."""
        vectors, balance = self.vectors, self._summarised(workspace, columns, None)[1]
        found = _Learned(votes, vectors, balance)
        if vectors is None:
            return found
        table, taught = rows[TRAIN].votes, dict[bytes, Regressed]()

        def regress(kept: np.ndarray) -> tuple[np.ndarray, Regressed]:
            some = None if kept.all() else kept
            prior = self._summarised(workspace, columns, some)[1].shares
            if kept.tobytes() not in taught:
                voted = table if some is None else table[some]
                taught[kept.tobytes()] = vectors.regressed(voted, prior)
            return prior, taught[kept.tobytes()]

        first = who_tell((table >= 0).sum(axis=1), lambda kept: regress(kept)[1].tells)
        if first is None:
            return found
        own = {workspace.names[at]: workspace.active[at].own[TRAIN] for at in columns}
        heard, support = self._witnesses.judged(own, table, vectors, regress, first)
        lesson = regress(heard)[1]
        if not lesson.tells:
            return found
        pupil = lesson.readout
        found = replace(found, support=support)
        if not heard.all():
            balance = self._summarised(workspace, columns, heard)[1]
            found, rows = (
                replace(found, heard=heard, balance=balance),
                [x.hearing(heard) for x in rows],
            )
        return _taught(found, rows, vectors, pupil)

    def _take_up_vectors(self, workspace: Workspace) -> None:
        splits = workspace.splits
        if any(split.vectors is None for split in splits):
            self.vectors = None
        elif self.vectors is None or not self.vectors.are_of(splits):
            apart, known = self.parameters.metric == "cosine", self.vectors
            self.vectors = Vectors(splits, self.parameters.seed, apart=apart, known=known)

    def _take_up_votes(self, workspace: Workspace) -> None:
        sizes = [(len(workspace.active), split.n_rows) for split in workspace.splits]
        dtype = workspace.active[0].own[TRAIN].dtype
        if [each.votes.shape for each in self._stacked] != sizes:
            self._stacked = [Stacked.empty(*size, dtype) for size in sizes]
        for at, stacked in enumerate(self._stacked):
            stacked.sync([source.loans[at] for source in workspace.active])

    def _distinct(self, workspace: Workspace) -> np.ndarray:
        """The sources that are no copies; kept while no vote changes."""
        columns = [source.own[TRAIN] for source in workspace.active]
        known = self._counted
        names = workspace.names, workspace.classes
        if (
            known is None
            or not _same(known[0], columns)
            or (known[1].sources, known[1].classes) != names
        ):
            known = columns, moments_of(columns, workspace.splits[TRAIN].n_rows, *names)
        self._counted, counted = known, known[1]
        if self._summary is None or self._summary[0] is not counted:
            self._summary = counted, distinct(counted), {}
        return self._summary[1]

    def _summarised(
        self, workspace: Workspace, columns: np.ndarray, heard: np.ndarray | None
    ) -> tuple[Moments, Balance]:
        """Moments of the sources that are heard, and the balance; kept while no vote changes."""
        assert self._summary is not None
        counted, _, known = self._summary
        key = b"" if heard is None else heard.tobytes()
        if key not in known:
            mine = columns if heard is None else columns[heard]
            summary, votes = counted.only(mine), self._reduced(workspace, mine)
            balance = balance_of(
                self.parameters, workspace.classes, lambda: guessed(votes, summary)
            )
            known[key] = summary, balance
        return known[key]

    def _reduced(self, workspace: Workspace, columns: np.ndarray) -> Votes:
        matrix = self._stacked[TRAIN].votes
        if len(columns) < len(matrix):
            matrix = matrix[columns]
        names = tuple(workspace.names[at] for at in columns)
        return Votes.of_checked(matrix.T.copy(order="F"), names, workspace.classes)

    def _rows(self, at: int, columns: np.ndarray) -> Rows:
        stacked = self._stacked[at]
        tables = (stacked.votes, stacked.lent, stacked.distance, stacked.lender)
        if len(columns) < len(stacked.votes):
            tables = tuple(each[columns] for each in tables)
        if (seen := self.vectors) is None:
            return Rows(*tables)
        return Rows(*tables, seen.matrices[at], regions=seen.regions[at])


def _same(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    return len(first) == len(second) and all(map(is_, first, second))


def _taught(found: _Learned, rows: list[Rows], vectors: Vectors, pupil: Readout) -> _Learned:
    """What the experts that read vectors learn, and what all but `reach` say."""
    prior, said = found.balance.shares, []
    for each in rows:
        assert each.features is not None
        majority = ev.majority(ev.vote_counts(each.votes, len(prior)), prior)
        read_off = pupil.evidence(read(each.features, pupil.weights)[0])
        said.append({"majority": majority, "pupil": read_off})
    echo, regions = vectors.second(prior, said[TRAIN]["majority"], said[TRAIN]["pupil"])
    if regions is not None:
        for spoken, part in zip(said, rows):
            assert part.regions is not None
            spoken["regions"] = regions.evidence(part.regions.read(regions.weights))
    return replace(found, pupil=pupil, echo=echo, regions=regions, said=tuple(said))


def balance_of(model: Fusion, classes: tuple[str, ...], guess: Callable[[], Balance]) -> Balance:
    """The class balance told, or that of the votes."""
    given = model.class_balance
    return guess() if given is None else Balance.given(checked_shares(given, classes, "Fusion"))
