"""A label model for labels on a small graph: related attributes of an item, regions of an image, trees.

The joint distribution over the labels of an item is one table, so that inference and fitting are sums over
its axes; a graph whose table would be too large is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ..errors import AlignmentError, LabelError, ParameterError, VoteError
from ..shares import counted_shares
from ..storage import Array, State, check_values
from ..votes import ABSTAIN, Split, Votes
from .element_model import Balance, ElementModel, as_shares, check_shares
from .inference import ENTRIES, log, marginal
from .layout import Layout, layout_of
from .movement import learn_pairs, learn_share, rake, ratio, shares_said, vote_counts

_MOST_STATES = 1 << 16  # joint labels of an item: beyond it one table is no way, and we say so
_SWEEPS = 200


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """T related labels per row, and which of them depend on each other directly.

    Parameters
    ----------
    n_tasks
        How many labels (elements) belong together.
    edges
        Pairs of tasks that depend on each other directly.
    attach
        For votes that hold all tasks of one item in one row: the task each source votes on.

    Examples
    --------
    >>> TaskGraph(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    TaskGraph(4 tasks, 4 edges)
    """

    n_tasks: int
    edges: tuple[tuple[int, int], ...]
    attach: Mapping[str, int] | None = None

    def __init__(
        self,
        n_tasks: int,
        edges: Iterable[tuple[int, int]],
        *,
        attach: Mapping[str, int] | None = None,
    ) -> None:
        if not isinstance(n_tasks, int | np.integer) or n_tasks < 1:
            raise ParameterError(f"a task graph needs at least one task, got n_tasks={n_tasks!r}")
        found = dict.fromkeys(_edge(each, int(n_tasks)) for each in edges)
        joined = None if attach is None else dict(attach)
        vars(self).update(n_tasks=int(n_tasks), edges=tuple(sorted(found)), attach=joined)
        for source, task in (self.attach or {}).items():
            if not isinstance(task, int | np.integer) or not 0 <= task < n_tasks:
                raise ParameterError(
                    f"source {source!r} is attached to task {task!r}; expected 0 to {n_tasks - 1}"
                )

    @classmethod
    def chain(cls, length: int) -> TaskGraph:
        """Tasks in a row, each linked to the next."""
        return cls(length, [(step, step + 1) for step in range(length - 1)])

    def unfold(self, votes: Votes) -> Votes:
        """Turn one row per item into one row per task: item i's tasks become rows i·T … i·T + T − 1.

        A source votes on the row of its own task and abstains on the others.
        """
        attach = self.attach or {}
        loose = [source for source in votes.sources if source not in attach]
        if loose:
            raise VoteError(
                f"sources {loose[:5]} are attached to no task; "
                f"name a task from 0 to {self.n_tasks - 1} for each in TaskGraph(attach=...)"
            )
        matrix = np.full((votes.n_rows, self.n_tasks, votes.n_sources), ABSTAIN, votes.matrix.dtype)
        task = np.array([attach[source] for source in votes.sources], dtype=np.intp)
        matrix[:, task, np.arange(votes.n_sources)] = votes.matrix
        flat = matrix.reshape(-1, votes.n_sources)
        return Votes(flat, votes.sources, votes.classes)

    def fold(self, probabilities: Any) -> np.ndarray:
        """Turn one row per task back into (n_items, n_tasks, …)."""
        table = np.asarray(probabilities)
        if len(table) % self.n_tasks:
            raise AlignmentError(
                f"{len(table)} rows are not a whole number of items of {self.n_tasks} tasks"
            )
        return table.reshape(-1, self.n_tasks, *table.shape[1:])

    def __repr__(self) -> str:
        return f"TaskGraph({self.n_tasks} tasks, {len(self.edges)} edges)"


def _edge(edge: tuple[int, int], n_tasks: int) -> tuple[int, int]:
    a, b = (int(end) for end in edge)
    if not (0 <= a < n_tasks and 0 <= b < n_tasks) or a == b:
        raise ParameterError(
            f"edge {edge!r} does not join two of the tasks 0 to {n_tasks - 1}; "
            "tasks are numbered from 0"
        )
    return (a, b) if a < b else (b, a)


class Tasks(ElementModel):
    """The paper's label model over a graph of tasks; inference is exact, task by task.

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

    prior_: np.ndarray
    """Pr(labels of an item) before any source speaks, (n_classes,) * n_tasks."""

    def __init__(
        self,
        graph: TaskGraph,
        *,
        class_balance: Balance = None,
        dependencies: Any = (),
        solve: str | None = None,
        trust: float = 1.0,
    ) -> None:
        self.graph = graph
        self.class_balance = class_balance
        self.dependencies = dependencies
        self.solve = solve
        self.trust = trust

    def predict_proba(self, votes: Votes) -> np.ndarray:
        """Pr(class of an element | all votes on its item); (n_rows, n_classes)."""
        evidence, item, task = self._items(self._check(votes))
        for some in self._chunks(len(evidence)):
            evidence[some] = marginals(self._scores(evidence[some]))
        return np.asarray(evidence[item, task])

    def predict_joint(self, votes: Votes) -> np.ndarray:
        """The most likely labelling of each item as a whole, by name; (n_rows,)."""
        evidence, item, task = self._items(self._check(votes))
        best = np.empty(evidence.shape[:2], dtype=np.intp)
        for some in self._chunks(len(evidence)):
            state = self._scores(evidence[some]).reshape(len(evidence[some]), -1).argmax(axis=1)
            best[some] = np.stack(np.unravel_index(state, self.prior_.shape), axis=1)
        return np.asarray(np.asarray(self.classes_)[best[item, task]])

    def _scores(self, evidence: np.ndarray) -> np.ndarray:
        """log Pr(labels, votes) of some items, one axis for each task behind that of the items."""
        score = log(self.prior_)[None]
        for task in range(self.graph.n_tasks):
            score = score + along(evidence[:, task], (0, 1 + task), score.ndim)
        return np.asarray(score)

    def _chunks(self, n_items: int) -> list[slice]:
        """Slices of items small enough for all their tables to be held at once."""
        step = max(1, ENTRIES // self.prior_.size)
        return [slice(start, start + step) for start in range(0, n_items, step)]

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
        return State(values, state.arrays | {"prior": self.prior_})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The model that `to_state` described."""
        graph_values = {"n_tasks": int, "edges": [[int]], "attach": (dict, None)}
        about = check_values(state.values.get("graph"), graph_values, "the saved graph")
        edges = [(a, b) for a, b in about["edges"]]
        graph = TaskGraph(about["n_tasks"], edges, attach=about["attach"])
        _check_size(graph, len(state.values["classes"]))
        shape = " ".join(["classes"] * graph.n_tasks)
        prior = {"prior": Array("f", shape, low=0, high=1, shares=graph.n_tasks)}
        model = cls._restored(state, graph, values={"graph": dict}, arrays=prior)
        model.prior_ = state.arrays["prior"]
        return model

    def _check_parameters(self) -> str:
        if not isinstance(self.graph, TaskGraph):
            raise ParameterError(f"Tasks needs a TaskGraph, got {type(self.graph).__name__}")
        return super()._check_parameters()

    def _fit(self, votes: Votes, layout: Layout, barred: np.ndarray, how: str) -> None:
        share, prior = self._given(votes.n_classes)
        same, across = self._counts(votes, layout)
        held = [layout.starts[layout.lengths > max(edge)] for edge in self.graph.edges]
        ends = zip(held, self.graph.edges, strict=True)
        rows = [(item + a, item + b) for item, (a, b) in ends] or [(np.empty(0, int),) * 2]
        before, after = (np.concatenate(each) for each in zip(*rows, strict=True))
        known = share if prior is None else _mean_shares(prior)
        table, _ = self._tables(votes, (before, after), how, barred, known)
        self.prior_ = self._learn_prior(same, across, table, share) if prior is None else prior
        self._keep(table, _mean_shares(self.prior_), np.sum(same, axis=0), barred)

    def _given(self, n_classes: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Class shares (None: to be learned), and the whole prior where it was given."""
        balance, graph = self.class_balance, self.graph
        if balance is None or isinstance(balance, str):
            return self._given_shares(n_classes), None
        if isinstance(balance, Split):
            return None, self._counted(balance, n_classes)
        raw = as_shares(balance, "Tasks")
        if raw.shape == (len(graph.edges), n_classes, n_classes) and len(graph.edges):
            pairs = np.stack([check_shares(each, "Tasks") for each in raw])
            return None, joint_of_pairs(graph, pairs)
        shares = check_shares(raw, "Tasks")
        if shares.shape == (n_classes,) and graph.n_tasks > 1:
            return shares, None
        n_joint = n_classes**graph.n_tasks
        if shares.size != n_joint:
            raise ParameterError(
                f"Tasks got a class_balance of shape {shares.shape}; expected {n_classes} shares of "
                f"classes, {len(graph.edges)} tables of {n_classes} × {n_classes}, or "
                f"{n_classes}^{graph.n_tasks} = {n_joint} of joint labels"
            )
        return None, shares.reshape((n_classes,) * graph.n_tasks)

    def _counted(self, dev: Split, n_classes: int) -> np.ndarray:
        """Pairs of true labels per edge, with one pseudo-item per cell."""
        layout = self._layout(dev.votes)
        label = np.full((len(layout.starts), self.graph.n_tasks), ABSTAIN)
        label[layout.number, layout.position] = dev.truth
        if not (label >= 0).any(axis=0).all():
            raise LabelError("class balance from a split needs true labels of every task; give y")

        def shares(codes: np.ndarray, n_codes: int) -> np.ndarray:
            return counted_shares(codes, n_codes, pseudo=n_codes)

        singles = np.stack([shares(each[each >= 0], n_classes) for each in label.T])
        pairs = []
        for a, b in self.graph.edges:
            known = (label[:, a] >= 0) & (label[:, b] >= 0)
            code = label[known, a] * n_classes + label[known, b]
            pairs.append(shares(code, n_classes**2))
        table = np.array(pairs).reshape(-1, n_classes, n_classes)
        return joint_of_pairs(self.graph, table, singles)

    def _learn_prior(
        self,
        same: list[np.ndarray],
        across: list[np.ndarray],
        table: np.ndarray,
        share: np.ndarray | None,
    ) -> np.ndarray:
        n_classes = table.shape[2]
        pairs = [learn_pairs(counts, (table, table), share) for counts in across]
        singles = [
            learn_share(shares_said(counts), table) if share is None else share for counts in same
        ]
        found = np.array(pairs).reshape(-1, n_classes, n_classes)
        return joint_of_pairs(self.graph, found, np.stack(singles))

    def _counts(self, votes: Votes, layout: Layout) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """How votes meet on each task, and across each edge."""

        def count(a: int, b: int) -> np.ndarray:
            held = layout.starts[layout.lengths > max(a, b)]
            return vote_counts(votes.matrix, held + a, held + b, votes.n_classes)

        same = [count(task, task) for task in range(self.graph.n_tasks)]
        return same, [count(a, b) for a, b in self.graph.edges]

    def _layout(self, votes: Votes) -> Layout:
        _check_size(self.graph, votes.n_classes)
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
        evidence[item, task] = self._row_evidence(votes.matrix, self._places(layout))
        return evidence, item, task


def marginals(score: np.ndarray) -> np.ndarray:
    """Pr(label of each task), of log probabilities up to a constant of each item; (items, tasks, classes).

    Items whose votes are impossible get equal shares.
    """
    n_items, *axes = score.shape
    top = score.reshape(n_items, -1).max(axis=1)
    share = np.exp(score - along(np.where(np.isneginf(top), 0.0, top), (0,), score.ndim))
    found = np.stack([marginal(share, (0, 1 + task)) for task in range(len(axes))], axis=1)
    found[np.isneginf(top)] = 1.0
    return np.asarray(found / found.sum(axis=2, keepdims=True))


def joint_of_pairs(
    graph: TaskGraph, pairs: np.ndarray, singles: np.ndarray | None = None
) -> np.ndarray:
    """The least committed distribution with these edge marginals: the paper's f_G, moments matched.

    Pairs are first made to agree on every task they share; `singles` are read of tasks without an
    edge. Iterative proportional fitting then goes from edge to edge until all agree (on a tree at once:
    Π pairs / Π singles), or as near as pairs that contradict each other allow.
    """
    n_classes = pairs.shape[1]
    sides: list[list[np.ndarray]] = [[] for _ in range(graph.n_tasks)]
    for (a, b), pair in zip(graph.edges, pairs, strict=True):
        sides[a].append(pair.sum(axis=1))
        sides[b].append(pair.sum(axis=0))
    alone = np.full((graph.n_tasks, n_classes), 1 / n_classes) if singles is None else singles
    share = [np.mean(s, axis=0) if s else alone[task] for task, s in enumerate(sides)]
    both = zip(graph.edges, pairs, strict=True)
    agreed = {(a, b): rake(pair, share[a], share[b]) for (a, b), pair in both}
    joint = np.ones((n_classes,) * graph.n_tasks)
    for task, each in enumerate(share):
        joint = joint * along(each, (task,), joint.ndim)
    before = np.inf
    for _ in range(_SWEEPS):
        worst = 0.0
        for edge, pair in agreed.items():
            now = marginal(joint, edge)
            worst = max(worst, float(np.abs(now - pair).max()))
            joint = joint * along(ratio(pair, now), edge, joint.ndim)
        if worst < 1e-12 or worst > 0.999 * before:
            break
        before = worst
    return np.asarray(joint / joint.sum())


def along(table: np.ndarray, axes: tuple[int, ...], n_axes: int) -> np.ndarray:
    """A table over some axes, in order, made to broadcast over all."""
    length = dict(zip(axes, table.shape, strict=True))
    return table.reshape([length.get(at, 1) for at in range(n_axes)])


def _mean_shares(joint: np.ndarray) -> np.ndarray:
    """Class shares averaged over tasks."""
    return np.asarray(np.mean([marginal(joint, (task,)) for task in range(joint.ndim)], axis=0))


def _check_size(graph: TaskGraph, n_classes: int) -> None:
    """Refuse a graph with more joint labels than one table can hold."""
    if graph.n_tasks * np.log(n_classes) > np.log(_MOST_STATES) + 1e-9:
        raise ParameterError(
            f"{graph.n_tasks} tasks of {n_classes} classes have {n_classes}^{graph.n_tasks} joint labels, "
            f"more than {_MOST_STATES}; split the tasks into groups, or use Chain for labels in a row"
        )
