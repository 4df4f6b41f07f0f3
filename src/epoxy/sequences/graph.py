"""Task graphs: which labels depend on each other, and the cliques exact inference works on."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import AlignmentError, ParameterError, VoteError
from ..votes import ABSTAIN, Votes


@dataclass(frozen=True, eq=False)
class JunctionTree:
    """Cliques of a triangulated graph, parents before children.

    `separator[c]` are the tasks clique c shares with its parent; the root, and the root of every
    part of a disconnected graph, shares none.
    """

    cliques: tuple[tuple[int, ...], ...]
    parent: tuple[int, ...]  # -1 for the root
    separator: tuple[tuple[int, ...], ...]

    @property
    def new(self) -> list[tuple[int, ...]]:
        """The tasks of each clique that no clique before it holds."""
        both = zip(self.cliques, self.separator, strict=True)
        return [tuple(task for task in clique if task not in shared) for clique, shared in both]

    @property
    def treewidth(self) -> int:
        """Size of the largest clique, less one."""
        return max(map(len, self.cliques)) - 1


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
    >>> graph = TaskGraph(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> graph.treewidth, graph.is_tree
    (2, False)
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
        object.__setattr__(self, "n_tasks", int(n_tasks))
        object.__setattr__(self, "edges", tuple(sorted(found)))
        object.__setattr__(self, "attach", None if attach is None else dict(attach))
        for source, task in (self.attach or {}).items():
            if not isinstance(task, int | np.integer) or not 0 <= task < n_tasks:
                raise ParameterError(
                    f"source {source!r} is attached to task {task!r}; expected 0 to {n_tasks - 1}"
                )

    @classmethod
    def chain(cls, length: int) -> TaskGraph:
        """Tasks in a row, each linked to the next."""
        return cls(length, [(step, step + 1) for step in range(length - 1)])

    @classmethod
    def tree(
        cls,
        n_tasks: int,
        edges: Iterable[tuple[int, int]],
        *,
        attach: Mapping[str, int] | None = None,
    ) -> TaskGraph:
        """A graph that must not hold a cycle; refuses one that does."""
        graph = cls(n_tasks, edges, attach=attach)
        closing = graph._closing_edge()
        if closing is not None:
            raise ParameterError(
                f"the graph was declared a tree, but edge {closing} closes a cycle; "
                "drop an edge of the cycle, or build it with TaskGraph(...)"
            )
        return graph

    @property
    def is_tree(self) -> bool:
        """Whether the graph holds no cycle (a forest counts)."""
        return self._closing_edge() is None

    @property
    def treewidth(self) -> int:
        """Size of the largest clique after triangulation, less one; 1 for chains and trees."""
        return self.junction_tree.treewidth

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """The tasks linked to each task."""
        return tuple(tuple(sorted(each)) for each in _linked(self.n_tasks, self.edges))

    @cached_property
    def junction_tree(self) -> JunctionTree:
        """Cliques by min-fill elimination, joined by the largest shared sets of tasks."""
        return _join(_eliminate(self.n_tasks, self.neighbours), self.n_tasks)

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

    def _closing_edge(self) -> tuple[int, int] | None:
        kept = forest(self.edges, self.n_tasks)
        return next((edge for edge in self.edges if edge not in kept), None)

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


def forest(edges: Iterable[tuple[int, int]], n_nodes: int) -> list[tuple[int, int]]:
    """The edges, taken in order, that close no cycle with those before them."""
    root = list(range(n_nodes))

    def top(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    kept = []
    for a, b in edges:
        ends = top(a), top(b)
        if ends[0] != ends[1]:
            root[ends[0]] = ends[1]
            kept.append((a, b))
    return kept


def _eliminate(n_tasks: int, neighbours: tuple[tuple[int, ...], ...]) -> list[frozenset[int]]:
    """Eliminate tasks in order of fewest added edges; return the maximal cliques this makes."""
    linked = [set(each) for each in neighbours]
    fill = [_fill(linked, task) for task in range(n_tasks)]
    queue = [(count, task) for task, count in enumerate(fill)]
    heapq.heapify(queue)
    gone = [False] * n_tasks
    cliques: list[frozenset[int]] = []
    while queue:
        count, task = heapq.heappop(queue)
        if gone[task] or count != fill[task]:
            continue  # an older entry: the task was eliminated or its fill has changed since
        gone[task] = True
        around = linked[task]
        clique = frozenset(around | {task})
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        for each in around:
            linked[each] |= around - {each}
            linked[each].discard(task)
        for each in around.union(*(linked[each] for each in around)):
            fill[each] = _fill(linked, each)
            heapq.heappush(queue, (fill[each], each))
    return cliques


def _fill(linked: list[set[int]], task: int) -> int:
    around = linked[task]
    return sum(len(around - linked[each]) - 1 for each in around) // 2


def _join(cliques: list[frozenset[int]], n_tasks: int) -> JunctionTree:
    """A maximum spanning forest on the sizes of shared sets, parents first."""
    holders: list[list[int]] = [[] for _ in range(n_tasks)]
    for index, clique in enumerate(cliques):
        for task in clique:
            holders[task].append(index)
    shared = {
        (a, b): len(cliques[a] & cliques[b])
        for held in holders
        for at, a in enumerate(held)
        for b in held[at + 1 :]
    }
    largest_first = sorted(shared, key=lambda pair: (-shared[pair], pair))
    return _rooted(cliques, _linked(len(cliques), forest(largest_first, len(cliques))))


def _linked(n_nodes: int, edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The nodes each node shares an edge with."""
    linked: list[list[int]] = [[] for _ in range(n_nodes)]
    for a, b in edges:
        linked[a].append(b)
        linked[b].append(a)
    return linked


def _rooted(cliques: list[frozenset[int]], links: list[list[int]]) -> JunctionTree:
    order: list[int] = []
    parent: dict[int, int] = {}
    for start in range(len(cliques)):
        if start in parent:
            continue
        parent[start] = -1
        stack = [start]
        while stack:
            here = stack.pop()
            order.append(here)
            for each in links[here]:
                if each not in parent:
                    parent[each] = here
                    stack.append(each)
    place = {clique: at for at, clique in enumerate(order)}
    return JunctionTree(
        cliques=tuple(tuple(sorted(cliques[each])) for each in order),
        parent=tuple(-1 if parent[each] < 0 else place[parent[each]] for each in order),
        separator=tuple(
            () if parent[each] < 0 else tuple(sorted(cliques[each] & cliques[parent[each]]))
            for each in order
        ),
    )
