"""Exact inference on any task graph: sum-product and max-product on its junction tree.

All items are worked on at once; the cost is items × Σ over cliques of K^|clique|, so it is set by the
treewidth and not by the number of tasks. Tables are kept in logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import ParameterError
from .forward_backward import log, log_sum
from .graph import JunctionTree, TaskGraph

MAX_STATES = 1 << 20
"""Largest clique table: beyond it exact inference is hopeless, and we say so."""
_ENTRIES = 1 << 22  # table entries held at once, all items together


@dataclass(frozen=True, eq=False)
class TaskPrior:
    """Labels of one item before any source speaks: Pr(Y) = Π exp(potentials)."""

    tree: JunctionTree
    potentials: tuple[np.ndarray, ...]  # per clique, (K,) * |clique|, in logarithms
    singles: np.ndarray  # (n_tasks, n_classes) Pr(Y^t)
    pairs: np.ndarray  # (n_edges, n_classes, n_classes) Pr(Y^a, Y^b), edges in the graph's order

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.singles.shape[1])


def check_width(graph: TaskGraph, n_classes: int) -> None:
    """Refuse a graph whose largest clique has more joint labels than can be tabulated."""
    width = graph.treewidth
    if (width + 1) * np.log(n_classes) > np.log(MAX_STATES):
        raise ParameterError(
            f"the task graph has treewidth {width}: exact inference would need tables of "
            f"{n_classes}^{width + 1} joint labels, more than {MAX_STATES}; "
            "drop edges, or split the tasks into groups"
        )


def propagate(
    evidence: np.ndarray, prior: TaskPrior
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """Sum-product: marginals of every task, clique tables, and log Pr(votes) of every item.

    `evidence` is (n_items, n_tasks, n_classes), log Pr(votes on a task | its class). Items whose
    votes are impossible under the prior get equal shares.
    """
    tree = prior.tree
    tables = _tables(evidence, prior)
    upward = _collect(tables, tree, log_sum)
    total = np.zeros(len(evidence))
    for index in range(len(tables)):
        above = tree.parent[index]
        if above < 0:
            total = total + log_sum(tables[index].reshape(len(evidence), -1), axis=1)
            continue
        # the parent is complete now; what the child told it must not come back
        shared = _reduce(tables[above], tree.cliques[above], tree.separator[index], log_sum)
        with np.errstate(invalid="ignore"):
            message = shared - upward[index]
        message[np.isneginf(shared)] = -np.inf
        tables[index] = tables[index] + _spread(
            message, tree.separator[index], tree.cliques[index], prior.n_classes
        )
    shares = [_normalise(table) for table in tables]
    return _singles(shares, prior), shares, total


def most_likely(evidence: np.ndarray, prior: TaskPrior) -> np.ndarray:
    """The most likely joint labelling of every item; (n_items, n_tasks) class indices."""
    tree = prior.tree
    tables = _tables(evidence, prior)
    _collect(tables, tree, np.max)
    label = np.zeros(evidence.shape[:2], dtype=np.intp)
    for clique, shared, table in zip(tree.cliques, tree.separator, tables, strict=True):
        fixed = table
        for task in shared:
            chosen = label[:, task, None] == np.arange(prior.n_classes)
            fixed = np.where(_spread(chosen, (task,), clique, prior.n_classes), fixed, -np.inf)
        best = fixed.reshape(len(fixed), -1).argmax(axis=1)
        for task, value in zip(clique, np.unravel_index(best, table.shape[1:]), strict=True):
            if task not in shared:
                label[:, task] = value
    return label


def chunks(n_items: int, prior: TaskPrior) -> list[slice]:
    """Slices of items small enough for all their clique tables to be held at once."""
    per_item = sum(table.size for table in prior.potentials)
    step = max(1, _ENTRIES // max(1, per_item))
    return [slice(start, start + step) for start in range(0, n_items, step)]


def prior_of_joint(joint: np.ndarray, graph: TaskGraph) -> TaskPrior:
    """The paper's clique marginals of a distribution over joint labels, Π μ_C / Π μ_S."""
    tree = graph.junction_tree
    potentials = []
    for clique, shared in zip(tree.cliques, tree.separator, strict=True):
        table = marginal(joint, clique)
        below = marginal(joint, shared)[
            tuple(slice(None) if task in shared else None for task in clique)
        ]
        ratio = np.divide(table, below, out=np.zeros_like(table), where=below > 0)
        potentials.append(log(ratio))
    singles = np.stack([marginal(joint, (task,)) for task in range(graph.n_tasks)])
    pairs = np.array([marginal(joint, edge) for edge in graph.edges])
    return TaskPrior(tree, tuple(potentials), singles, pairs.reshape(-1, *(joint.shape[0],) * 2))


def marginal(joint: np.ndarray, tasks: tuple[int, ...]) -> np.ndarray:
    """Sum a joint table over all tasks but these."""
    return np.asarray(joint.sum(axis=tuple(i for i in range(joint.ndim) if i not in tasks)))


def prior_of_pairs(
    singles: np.ndarray, pairs: np.ndarray, graph: TaskGraph, *, sweeps: int = 200
) -> TaskPrior:
    """The least committed distribution with these edge marginals: the paper's f_G, moments matched.

    On a tree it is Π pairs / Π singles. On a graph with cycles, iterative proportional fitting goes
    from clique to clique until every edge agrees, or as near as pairs that contradict each other allow.
    """
    tree, n_classes = graph.junction_tree, singles.shape[1]
    if graph.is_tree:
        return TaskPrior(tree, _tree_potentials(singles, pairs, graph), singles, pairs)
    silent = np.zeros((1, graph.n_tasks, n_classes))
    inside = _edges_by_clique(graph)
    potentials = [np.zeros((n_classes,) * len(clique)) for clique in tree.cliques]
    before = np.inf
    for _ in range(sweeps):
        worst = 0.0
        for index, clique in enumerate(tree.cliques):
            prior = TaskPrior(tree, tuple(potentials), singles, pairs)
            now = propagate(silent, prior)[1][index][0]
            fitted, error = _fit_clique(now, clique, inside[index], singles, pairs)
            worst = max(worst, error)
            with np.errstate(invalid="ignore"):
                change = log(fitted) - log(now)
            potentials[index] = potentials[index] + np.where(now > 0, change, 0.0)
        if worst < 1e-12 or worst > 0.999 * before:
            break
        before = worst
    return _normalised(TaskPrior(tree, tuple(potentials), singles, pairs), silent)


def _tree_potentials(
    singles: np.ndarray, pairs: np.ndarray, graph: TaskGraph
) -> tuple[np.ndarray, ...]:
    tree, position = graph.junction_tree, {edge: at for at, edge in enumerate(graph.edges)}
    potentials = []
    for clique, shared in zip(tree.cliques, tree.separator, strict=True):
        edge = (clique[0], clique[-1])
        table = singles[clique[0]] if len(clique) == 1 else pairs[position[edge]]
        for task in shared:  # at most one: separators of a tree are single tasks
            below = singles[task][:, None] if task == clique[0] else singles[task]
            table = np.divide(table, below, out=np.zeros_like(table), where=below > 0)
        potentials.append(log(table))
    return tuple(potentials)


def _edges_by_clique(graph: TaskGraph) -> list[list[tuple[int, tuple[int, int]]]]:
    """The edges each clique is charged with, and their positions; a lone task needs none."""
    cliques = [set(clique) for clique in graph.junction_tree.cliques]
    inside: list[list[tuple[int, tuple[int, int]]]] = [[] for _ in cliques]
    for index, edge in enumerate(graph.edges):
        home = next(at for at, clique in enumerate(cliques) if clique.issuperset(edge))
        inside[home].append((index, edge))
    return inside


def _fit_clique(
    table: np.ndarray,
    clique: tuple[int, ...],
    edges: list[tuple[int, tuple[int, int]]],
    singles: np.ndarray,
    pairs: np.ndarray,
) -> tuple[np.ndarray, float]:
    """One turn of proportional fitting within a clique; and the largest miss before it."""
    worst = 0.0
    targets = [(tuple(clique.index(task) for task in edge), pairs[at]) for at, edge in edges]
    if len(clique) == 1:
        targets = [((0,), singles[clique[0]])]
    for axes, target in targets:
        now = marginal(table, axes)
        worst = max(worst, float(np.abs(now - target).max()))
        ratio = np.divide(target, now, out=np.zeros_like(now), where=now > 0)
        table = table * ratio[tuple(slice(None) if i in axes else None for i in range(table.ndim))]
    return table, worst


def _normalised(prior: TaskPrior, silent: np.ndarray) -> TaskPrior:
    """The same prior with total one, and singles as they came out."""
    singles, _, total = propagate(silent, prior)
    first = prior.potentials[0] - total[0]
    return TaskPrior(prior.tree, (first, *prior.potentials[1:]), singles[0], prior.pairs)


def _tables(evidence: np.ndarray, prior: TaskPrior) -> list[np.ndarray]:
    """Clique potentials with each task's evidence put where the task first appears."""
    tables = []
    for clique, new, potential in zip(
        prior.tree.cliques, prior.tree.new, prior.potentials, strict=True
    ):
        table = np.broadcast_to(potential, (len(evidence), *potential.shape))
        for task in new:
            table = table + _spread(evidence[:, task], (task,), clique, prior.n_classes)
        tables.append(table)
    return tables


def _collect(
    tables: list[np.ndarray],
    tree: JunctionTree,
    how: Callable[..., np.ndarray],
) -> list[np.ndarray]:
    """Send every clique's message to its parent, children first; returns the messages."""
    messages: list[np.ndarray] = [np.empty(0)] * len(tables)
    for index in range(len(tables) - 1, -1, -1):
        above = tree.parent[index]
        if above < 0:
            continue
        message = _reduce(tables[index], tree.cliques[index], tree.separator[index], how)
        messages[index] = message
        tables[above] = tables[above] + _spread(
            message, tree.separator[index], tree.cliques[above], message.shape[-1]
        )
    return messages


def _reduce(
    table: np.ndarray,
    clique: tuple[int, ...],
    keep: tuple[int, ...],
    how: Callable[..., np.ndarray],
) -> np.ndarray:
    """Sum or maximum over the tasks of a clique that are not kept; axis 0 is the item."""
    kept = [1 + at for at, task in enumerate(clique) if task in keep]
    rest = [1 + at for at, task in enumerate(clique) if task not in keep]
    moved = table.transpose([0, *kept, *rest])
    shape = moved.shape[: 1 + len(kept)]
    return np.asarray(how(moved.reshape(*shape, -1), axis=len(shape)))


def _spread(
    message: np.ndarray, tasks: tuple[int, ...], clique: tuple[int, ...], n_classes: int
) -> np.ndarray:
    """Reshape a message over some tasks so that it broadcasts over a clique's table."""
    shape = [n_classes if task in tasks else 1 for task in clique]
    return message.reshape(len(message), *shape)


def _normalise(table: np.ndarray) -> np.ndarray:
    flat = table.reshape(len(table), -1)
    top = flat.max(axis=1, keepdims=True)
    share = np.exp(flat - np.where(np.isneginf(top), 0.0, top))
    share[np.isneginf(top[:, 0])] = 1.0
    share /= share.sum(axis=1, keepdims=True)
    return np.asarray(share.reshape(table.shape))


def _singles(shares: list[np.ndarray], prior: TaskPrior) -> np.ndarray:
    n_tasks, n_classes = prior.singles.shape
    out = np.zeros((len(shares[0]), n_tasks, n_classes))
    for clique, new, share in zip(prior.tree.cliques, prior.tree.new, shares, strict=True):
        for task in new:
            axes = tuple(1 + at for at, other in enumerate(clique) if other != task)
            out[:, task] = share.sum(axis=axes)
    return out
