"""A label model for labels on any graph: related attributes of an item, regions of an image, trees."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..errors import AlignmentError, LabelError, ParameterError
from ..persistence import State
from ..schema import Array, check_values
from ..shares import counted_shares
from ..votes import ABSTAIN, Split, Votes
from .balance import learn_pairs, learn_share, rake
from .counts import vote_counts
from .estimate import Meetings, estimate_tables
from .graph import TaskGraph
from .junction import (
    MAX_STATES,
    TaskPrior,
    check_width,
    chunks,
    most_likely,
    prior_of_joint,
    prior_of_pairs,
    propagate,
)
from .layout import Layout, layout_of
from .model import Balance, SequenceModel, alike, as_shares, check_shares
from .triplets import SOLVE


class Tasks(SequenceModel):
    """The paper's label model over a graph of tasks; inference is exact on its junction tree.

    Rows are elements: the tasks of one item are adjacent rows, in the graph's order. Votes that hold
    all tasks of an item in one row, each source attached to its task, are turned into this form by
    `graph.unfold(votes)`, and results turned back by `graph.fold(...)`. Items may lack their last
    tasks; votes that name their `sequences` are taken as named.

    Parameters
    ----------
    graph
        A `TaskGraph`.
    class_balance
        How labels fall before any source speaks: one share per class, for every task (None: equal
        shares), with edges learned from the votes; "learn" to learn the shares too; one K × K table
        of shares per edge, in the order of `graph.edges`; K ** n_tasks shares of joint labels in
        lexicographic order; or a `Split` whose true labels are counted.
    tied
        Whether a source is equally accurate on every task it votes on.
    dependencies, solve, trust
        As for `Chain`; `solve` takes "median" (default), "mean" or "overlap".
    compat
        "flyingsquid" follows the reference implementation's arithmetic, for trees.

    Examples
    --------
    >>> graph = TaskGraph(3, [(0, 1), (1, 2)], attach={s: i // 3 for i, s in enumerate("abcdefghi")})
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(rng.integers(0, 2, (500, 1)), 3, axis=1)
    >>> right = rng.random((500, 9)) < 0.75
    >>> wide = Votes(np.where(right, np.repeat(y, 3, axis=1), 1 - np.repeat(y, 3, axis=1)), list("abcdefghi"))
    >>> votes = graph.unfold(wide)
    >>> graph.fold(Tasks(graph).fit(votes).predict_proba(votes)).shape
    (500, 3, 2)
    """

    prior_: TaskPrior
    """Labels of an item before any source speaks."""

    def __init__(
        self,
        graph: TaskGraph,
        *,
        class_balance: Balance = None,
        tied: bool = True,
        dependencies: Any = (),
        solve: str | None = None,
        trust: float = 1.0,
        compat: str | None = None,
    ) -> None:
        self.graph = graph
        self.class_balance = class_balance
        self.tied = tied
        self.dependencies = dependencies
        self.solve = solve
        self.trust = trust
        self.compat = compat

    def predict_proba(self, votes: Votes) -> np.ndarray:
        """Pr(class of an element | all votes on its item); (n_rows, n_classes)."""
        evidence, item, task = self._items(self._check(votes))
        out = np.empty_like(evidence)
        for part in chunks(len(evidence), self.prior_):
            out[part] = propagate(evidence[part], self.prior_)[0]
        return np.asarray(out[item, task])

    def predict_joint(self, votes: Votes) -> np.ndarray:
        """The most likely labelling of each item as a whole, by name; (n_rows,)."""
        evidence, item, task = self._items(self._check(votes))
        out = np.empty(evidence.shape[:2], dtype=np.intp)
        for part in chunks(len(evidence), self.prior_):
            out[part] = most_likely(evidence[part], self.prior_)
        return np.asarray(np.asarray(self.classes_)[out[item, task]])

    def to_state(self) -> State:
        """Everything a fitted model is, as plain values and arrays."""
        state = super().to_state()
        values = dict(state.values)
        values["params"] = {k: v for k, v in values["params"].items() if k != "graph"}
        values["graph"] = {
            "n_tasks": self.graph.n_tasks,
            "edges": [list(edge) for edge in self.graph.edges],
            "attach": self.graph.attach,
        }
        arrays = state.arrays | {"singles": self.prior_.singles, "pairs": self.prior_.pairs}
        for index, table in enumerate(self.prior_.potentials):
            arrays[f"potential/{index}"] = table
        return State(values, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The model that `to_state` described."""
        graph_values = {"n_tasks": int, "edges": [[int]], "attach": (dict, None)}
        about = check_values(state.values.get("graph"), graph_values, "the saved graph")
        edges = [(a, b) for a, b in about["edges"]]
        graph = TaskGraph(about["n_tasks"], edges, attach=about["attach"])
        check_width(graph, len(state.values["classes"]))
        tree = graph.junction_tree
        arrays = {
            "singles": Array("f", f"{graph.n_tasks} classes", low=0, high=1, shares=1),
            "pairs": Array("f", f"{len(graph.edges)} classes classes", low=0, high=1, shares=2),
        }
        for index, clique in enumerate(tree.cliques):
            shape = " ".join(["classes"] * len(clique))
            arrays[f"potential/{index}"] = Array("f", shape, low=-np.inf)
        model = cls._restored(state, graph, values={"graph": dict}, arrays=arrays)
        tables = tuple(state.arrays[f"potential/{index}"] for index in range(len(tree.cliques)))
        model.prior_ = TaskPrior(tree, tables, state.arrays["singles"], state.arrays["pairs"])
        return model

    def _check_parameters(self, solvers: tuple[str, ...] = SOLVE) -> str:
        if not isinstance(self.graph, TaskGraph):
            raise ParameterError(f"Tasks needs a TaskGraph, got {type(self.graph).__name__}")
        return super()._check_parameters(solvers)

    def _fit_paper(self, votes: Votes, layout: Layout, barred: np.ndarray, how: str) -> None:
        share, prior = self._given(votes.n_classes)
        same, across = self._counts(votes, layout)
        known = share if prior is None else prior.singles.mean(axis=0)
        meetings = self._meetings(same, across, prior)
        tables, findings = estimate_tables(votes, meetings, how=how, barred=barred, share=known)
        self.findings_ += findings
        self.prior_ = prior or self._learn_prior(same, across, tables, share)
        self._keep(tables, self.prior_.singles.mean(axis=0), np.sum(same, axis=0), barred)

    def _fit_reference(self, votes: Votes, layout: Layout, how: str) -> None:
        graph, n_tasks = self.graph, self.graph.n_tasks
        if not graph.is_tree:
            raise ParameterError("compat='flyingsquid' covers trees of tasks; use compat=None")
        share, prior = self._given(votes.n_classes)
        if prior is None:
            assert share is not None  # the reference learns none
            pairs = np.tile(np.outer(share, share), (len(graph.edges), 1, 1))
            prior = prior_of_pairs(np.tile(share, (n_tasks, 1)), pairs, graph)
        attached = self._attached(votes)
        whole = layout.only_whole(n_tasks)
        self._keep_reference(votes, whole, prior.singles, how, attached)
        degree = np.array([len(each) for each in graph.neighbours])
        # a task held by one clique only has no separator, hence no factor to count wrongly
        self.extra_[attached.sum(axis=1) + degree <= 1] = 0.0
        self.prior_ = prior

    def _given(self, n_classes: int) -> tuple[np.ndarray | None, TaskPrior | None]:
        """Class shares (None: to be learned), and the whole prior where it was given."""
        balance, graph = self.class_balance, self.graph
        if balance is None or isinstance(balance, str):
            return self._given_shares(n_classes), None
        if isinstance(balance, Split):
            return None, self._counted(balance, n_classes)
        raw = as_shares(balance, "Tasks")
        if raw.shape == (len(graph.edges), n_classes, n_classes) and len(graph.edges):
            pairs = np.stack([check_shares(each, "Tasks") for each in raw])
            return None, self._of_pairs(pairs, None)
        shares = check_shares(raw, "Tasks")
        if shares.shape == (n_classes,) and graph.n_tasks > 1:
            return shares, None
        n_joint = n_classes**graph.n_tasks
        if n_joint > MAX_STATES or shares.size != n_joint:
            raise ParameterError(
                f"Tasks got a class_balance of shape {shares.shape}; expected {n_classes} shares of "
                f"classes, {len(graph.edges)} tables of {n_classes} × {n_classes}, or "
                f"{n_classes}^{graph.n_tasks} = {n_joint} of joint labels"
            )
        return None, prior_of_joint(shares.reshape((n_classes,) * graph.n_tasks), graph)

    def _counted(self, dev: Split, n_classes: int) -> TaskPrior:
        """Pairs of true labels per edge, with one pseudo-item per cell; exact shares for compat."""
        layout = self._layout(dev.votes)
        label = np.full((len(layout.starts), self.graph.n_tasks), ABSTAIN)
        label[layout.number, layout.position] = dev.truth
        if not (label >= 0).any(axis=0).all():
            raise LabelError("class balance from a split needs true labels of every task; give y")
        one = 0 if self.compat else 1

        def shares(codes: np.ndarray, n_codes: int) -> np.ndarray:
            return counted_shares(codes, n_codes, pseudo=one * n_codes)

        singles = np.stack([shares(each[each >= 0], n_classes) for each in label.T])
        pairs = []
        for a, b in self.graph.edges:
            known = (label[:, a] >= 0) & (label[:, b] >= 0)
            code = label[known, a] * n_classes + label[known, b]
            pairs.append(shares(code, n_classes**2).reshape(n_classes, n_classes))
        table = np.array(pairs).reshape(-1, n_classes, n_classes)
        return self._of_pairs(table, singles)

    def _of_pairs(self, pairs: np.ndarray, singles: np.ndarray | None) -> TaskPrior:
        """Pairs made to agree on every task they share, then the least committed joint."""
        graph, n_classes = self.graph, pairs.shape[1]
        sides: list[list[np.ndarray]] = [[] for _ in range(graph.n_tasks)]
        for (a, b), table in zip(graph.edges, pairs, strict=True):
            sides[a].append(table.sum(axis=1))
            sides[b].append(table.sum(axis=0))
        even = np.full(n_classes, 1 / n_classes)
        alone = np.tile(even, (graph.n_tasks, 1)) if singles is None else singles
        agreed = np.stack(
            [np.mean(s, axis=0) if s else alone[task] for task, s in enumerate(sides)]
        )
        raked = [
            rake(table, agreed[a], agreed[b])
            for (a, b), table in zip(graph.edges, pairs, strict=True)
        ]
        return prior_of_pairs(agreed, np.array(raked).reshape(-1, n_classes, n_classes), graph)

    def _learn_prior(
        self,
        same: list[np.ndarray],
        across: list[np.ndarray],
        tables: np.ndarray,
        share: np.ndarray | None,
    ) -> TaskPrior:
        n_classes = tables.shape[3]
        of_task = [0 if self.tied else task for task in range(self.graph.n_tasks)]
        pairs = [
            learn_pairs(counts, (tables[of_task[a]], tables[of_task[b]]), share)
            for (a, b), counts in zip(self.graph.edges, across, strict=True)
        ]
        singles = (
            np.tile(share, (self.graph.n_tasks, 1))
            if share is not None
            else np.stack(
                [
                    learn_share(np.einsum("ivjw->iv", counts) / len(counts), tables[of_task[task]])
                    for task, counts in enumerate(same)
                ]
            )
        )
        return self._of_pairs(np.array(pairs).reshape(-1, n_classes, n_classes), singles)

    def _counts(self, votes: Votes, layout: Layout) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """How votes meet on each task, and across each edge."""

        def rows(*tasks: int) -> list[np.ndarray]:
            held = layout.lengths > max(tasks)
            return [layout.starts[held] + task for task in tasks]

        def count(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            return vote_counts(votes.matrix, left, right, votes.n_classes)

        same = [count(*rows(task), *rows(task)) for task in range(self.graph.n_tasks)]
        return same, [count(*rows(a, b)) for a, b in self.graph.edges]

    def _meetings(
        self, same: list[np.ndarray], across: list[np.ndarray], prior: TaskPrior | None
    ) -> Meetings:
        if self.tied:
            pooled = ((0, 0, np.sum(across, axis=0)),) if across else ()
            rho = alike(prior.pairs.mean(axis=0)) if prior is not None and across else np.nan
            return Meetings((np.sum(same, axis=0),), pooled, (rho,) * len(pooled))
        links = tuple((a, b, c) for (a, b), c in zip(self.graph.edges, across, strict=True))
        each = (np.nan,) * len(links) if prior is None else tuple(map(alike, prior.pairs))
        return Meetings(tuple(same), links, each)

    def _layout(self, votes: Votes) -> Layout:
        check_width(self.graph, votes.n_classes)
        layout = layout_of(votes, self.graph.n_tasks)
        if layout.longest > self.graph.n_tasks:
            raise AlignmentError(
                f"an item has {layout.longest} rows, the task graph {self.graph.n_tasks} tasks; "
                "give one row per task, in the graph's order"
            )
        return layout

    def _items(self, votes: Votes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evidence per item and task, and where each row is found in it.

        A task an item lacks has no votes, hence no evidence, and is summed out.
        """
        layout = self._layout(votes)
        item, task = layout.number, layout.position
        evidence = np.zeros((len(layout.starts), self.graph.n_tasks, len(self.classes_)))
        if self.compat:  # there, silence on a task still carries its extra factor of the prior
            silent = np.full((self.graph.n_tasks, votes.n_sources), ABSTAIN)
            evidence[:] = self._row_evidence(silent, np.arange(self.graph.n_tasks))
        evidence[item, task] = self._row_evidence(votes.matrix, self._places(layout))
        return evidence, item, task

    def _attached(self, votes: Votes) -> np.ndarray:
        """Which source votes on which task; (n_tasks, n_sources) bool."""
        if self.graph.attach is None:
            return np.ones((self.graph.n_tasks, votes.n_sources), dtype=bool)
        attached = np.zeros((self.graph.n_tasks, votes.n_sources), dtype=bool)
        for index, source in enumerate(votes.sources):
            if source in self.graph.attach:
                attached[self.graph.attach[source], index] = True
        return attached
