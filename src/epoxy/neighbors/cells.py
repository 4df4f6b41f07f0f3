"""Cells of near nodes, and how near each cell comes to each asking node.

A list of neighbours says who is near and nothing about anybody beyond, so a source that votes far
away has to be searched. This table says something about everybody: for each asking node and each
cell the best score of any node in the cell, rounded up to one byte. A search passes over every cell
whose best is worse than what it has; on real and synthetic data that leaves 2 to 10 % of a support.
The bound is a score that somebody attains. What the triangle inequality says of a cell's centre and
radius excludes nobody in hundreds of dimensions.

The scores go by while the lists are made, so the table costs a tenth of that time. Rejected: cells of
equal size (they cut across clusters, and a cell that lies in two is near for the wrong half).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from .cell_kernels import raise_peaks
from .centres import learned_centres, nearest_centre
from .space import Space
from .workers import single_threaded_blas

FROM = 1 << 15  # nodes from which cells pay; fewer are searched directly in no time
SIZE = 256  # nodes per cell, on average
MOST = 1024  # cells: the table has a byte for each and every node
SAMPLE = 32  # nodes per cell from which centres are learned
BLOCK = 4096
TOP = 255  # the highest code: as near as this, or nearer
FINEST = 2.0**-120  # a smaller step has no float32 inverse to reckon with
GUARD = 0.01  # steps by which float32 may miscompute a code


def worth_grouping(train: Space) -> bool:
    """Whether the space is large enough for cells."""
    return train.n_nodes >= FROM


@dataclass(frozen=True, eq=False)
class Grouping:
    """The nodes of a space in cells, and a scale of one byte for the scores between them."""

    cell: np.ndarray  # (n_nodes,) int16
    centre: np.ndarray  # (n_cells, dimension) float32
    scale: np.ndarray  # (2,) float32: code 0 is a score up to scale[0], each step is 1 / scale[1]

    @classmethod
    def of(cls, space: Space) -> Self:
        """Learn centres from a sample (k-means), and put every node to the nearest."""
        rng = np.random.default_rng(space.n_nodes)
        count = min(MOST, max(1, space.n_nodes // SIZE))
        sample = rng.permutation(space.n_nodes)[: SAMPLE * count]
        points = space.left[sample, : space.dimension]
        centre = learned_centres(points, count)
        cell = nearest_centre(space.left[:, : space.dimension], centre)
        return cls(cell, centre, _scale(space, sample))

    def append(self, grown: Space) -> Grouping:
        """The same cells, with the new nodes of a space that has grown."""
        fresh = grown.left[len(self.cell) :, : grown.dimension]
        cell = np.concatenate([self.cell, nearest_centre(fresh, self.centre)])
        return Grouping(cell, self.centre, self.scale)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of train, and how near each comes to each asking node."""

    grouping: Grouping
    peak: np.ndarray  # (n_onto_nodes, n_cells) uint8, codes of the best scores, rounded up

    def arrays(self) -> dict[str, np.ndarray]:
        """What is kept on disk."""
        of = self.grouping
        return {"cell": of.cell, "centre": of.centre, "scale": of.scale, "peak": self.peak}


class Peaks:
    """The best score of each cell, for a block of asking nodes, while tiles of scores go by."""

    def __init__(self, grouping: Grouping, table: np.ndarray) -> None:
        self.grouping = grouping
        self.table = table  # (n_cells, at least as many as ask) uint8

    @classmethod
    def none(cls, grouping: Grouping, asking: int) -> Self:
        """Nothing has gone by yet."""
        return cls(grouping, np.zeros((len(grouping.centre), asking), dtype=np.uint8))

    def offer(self, tile: np.ndarray, cell: np.ndarray) -> None:
        """Take a tile: its columns ask, its rows are nodes of these cells, best in order."""
        low, per_step = self.grouping.scale
        raise_peaks(tile, cell, low, per_step, self.table)

    def of(self, count: int) -> np.ndarray:
        """The finished rows of the first `count` asking nodes."""
        return np.ascontiguousarray(self.table[:, :count].T)


def _scale(space: Space, sample: np.ndarray) -> np.ndarray:
    """From the score that one pair in a hundred stays below to that of equal vectors."""
    with single_threaded_blas():  # the same on any number of threads
        some = space.left[sample[:BLOCK]] @ space.right[sample[:TOP]].T
    low, high = float(np.quantile(some, 0.01)), float(space.metric.score_of(0.0))
    step = max((high - low) / (TOP - 1), FINEST) if high > low else 1.0
    return np.array([low, 1.0 / step], dtype=np.float32)
