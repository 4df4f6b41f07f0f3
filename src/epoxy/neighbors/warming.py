"""Load the compiled kernels before somebody waits for them."""

from __future__ import annotations

import numpy as np

from ..progress import silent
from .asks import Ask, Support
from .build import rectangle
from .celled import celled_answer
from .cells import Cells, Grouping
from .coded import coded_answers, is_codable
from .column import Column
from .exact import nearest
from .graph import Graph
from .space import Space

__all__ = ["warm"]


def warm() -> None:
    """Run every inner loop once on a handful of rows.

    The first call in a process reads compiled code from disk, or compiles it where there is none
    yet (some seconds, once per machine). A session calls this while the user is still reading.
    """
    rng = np.random.default_rng(0)
    for metric in ("cosine", "euclidean"):
        space = Space(rng.normal(size=(200, 64)), metric)
        support = np.arange(len(space)) < 3
        nearest(space, support[:, None])
        graph = Graph.build(space, 4)
        Column.of(graph, support, radius=2.0).voting(np.arange(len(space)) < 5).reaching(3.0)
        graph.append(rng.normal(size=(3, 64)))
        everybody = np.arange(space.n_nodes)
        ask = Ask(Support(everybody[:9], everybody[:9].astype(np.int32)), everybody)
        if is_codable(space):
            coded_answers(space, space, [ask], silent)
        grouping = Grouping.of(space)
        peak = rectangle(space, space, 4, grouping=grouping).peak
        if peak is not None:
            celled_answer(space, space, ask, Cells(grouping, peak))
