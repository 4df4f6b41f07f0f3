"""The direct search with 8-bit codes: four times the multiplications per second, the same answers.

Each unit vector is turned by a fixed orthogonal matrix (so that no coordinate stands out), rounded to
8 bits, and the length r of what rounding missed is kept. By Cauchy-Schwarz a score from codes is off
by at most E = r + (1 + r)·r' for vectors that miss r and r', about 0.02. So whoever, with all its E,
scores less than another without cannot be nearest; the few who are left per row and source are
measured in float64. Rejected: one scale per vector (scores of a column could not be compared as
integers), and keeping only the best two as the float32 search does (the margin is too wide).
"""

from __future__ import annotations

import functools
import logging
import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from . import kernels
from .metrics import UNIT_ROUNDOFF
from .workers import Work, single_threaded_blas

if TYPE_CHECKING:
    from .space import Space

__all__ = ["Codes", "available"]

CLIP = 4.0  # coordinates of a turned unit vector are about normal: beyond this many deviations, cut
LARGEST_MISS = 0.03  # above, too many candidates survive and float32 is the better way
ASKING, ASKED = 64, 2048  # how many nodes are tried on how many to see how many survive
log = logging.getLogger(__name__)


def available() -> bool:
    """Whether this process can multiply 8-bit integers; `EPOXY_INT8=0` says no."""
    wanted = os.environ.get("EPOXY_INT8", "1") != "0"
    return wanted and kernels.active().__name__.endswith("numba_kernels") and _works()


@functools.cache
def _works() -> bool:
    """The processor has the instruction, we compile for it, and a trial gives the right numbers."""
    import llvmlite.binding as binding  # type: ignore[import-untyped]
    import numba

    elsewhere = numba.config.CPU_NAME or numba.config.CPU_FEATURES
    if elsewhere or not binding.get_host_cpu_features().get("avx512vnni", False):
        return False
    try:
        return _trial()
    except (numba.core.errors.NumbaError, RuntimeError) as failure:
        log.debug("no 8-bit multiplication here: %s", failure)
        return False


def _trial() -> bool:
    rng = np.random.default_rng(0)
    codes = rng.integers(-127, 128, (70, 64)).astype(np.int8)
    words, everything = codes.view(np.uint32), np.arange(70)
    total = codes.sum(axis=1, dtype=np.int32)
    tile = product(words, everything, packed_columns(words, everything, total))
    expected = codes.astype(np.int64) @ codes.T.astype(np.int64)
    return bool((tile[:70, :70] == expected).all())


def packed_rows(words: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Candidates as `multiply` wants them, six side by side."""
    from . import int8_kernels as int8

    out = np.empty((-(-len(nodes) // int8.ROWS), words.shape[1], int8.ROWS), dtype=np.uint32)
    int8.pack(words, nodes, np.uint32(0x80808080), out)
    return out


def packed_columns(
    words: np.ndarray, nodes: np.ndarray, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Queries as `multiply` wants them, 64 side by side, and where their sums start."""
    from . import int8_kernels as int8

    blocks = -(-len(nodes) // int8.COLUMNS)
    out = np.empty((blocks, words.shape[1], int8.COLUMNS), dtype=np.uint32)
    int8.pack(words, nodes, np.uint32(0), out)
    start = np.zeros(blocks * int8.COLUMNS, dtype=np.int32)
    start[: len(nodes)] = -128 * total[nodes]  # candidates are packed as unsigned, 128 too large
    return out, start


def product(
    words: np.ndarray, rows: np.ndarray, columns: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """All scores of some rows with packed columns, as integers."""
    from . import int8_kernels as int8

    packed = packed_rows(words, rows)
    out = np.empty((int8.ROWS * len(packed), len(columns[1])), dtype=np.int32)
    int8.multiply(packed, *columns, out)
    return out


@dataclass(frozen=True, eq=False)
class Codes:
    """The 8-bit codes of a space's nodes."""

    words: np.ndarray  # (n_nodes, padded / 4) uint32: four signed codes each
    total: np.ndarray  # (n_nodes,) int32, sum of the codes
    miss: np.ndarray  # (n_nodes,) float64, at least the length of what the codes miss
    scale: float  # what one code step stands for
    crowd: float  # how many of `ASKED` nodes the codes cannot tell from the nearest, on average

    @classmethod
    def of(cls, space: Space) -> Codes:
        """Encode the unit vectors of a space under cosine distance."""
        from . import int8_kernels as int8

        dimension = space.dimension
        padded = -(-dimension // 64) * 64
        scale = np.float32(CLIP / (127 * np.sqrt(dimension)))
        turn = _Turn(padded)
        codes = np.empty((space.n_nodes, padded), dtype=np.int8)
        total = np.empty(space.n_nodes, dtype=np.int32)
        miss = np.empty(space.n_nodes)

        def encode(part: slice) -> None:
            int8.encode(turn(space.left[part]), scale, codes[part], miss[part], total[part])

        Work([slice(at, at + 2048) for at in range(0, space.n_nodes, 2048)]).run(lambda: encode)
        miss += turn.error
        return cls(codes.view(np.uint32), total, miss, float(scale), _crowd(space, miss))

    @cached_property
    def typical_miss(self) -> float:
        """The miss that nine nodes in ten stay below."""
        return float(np.quantile(self.miss, 0.9)) if len(self.miss) else 0.0

    @cached_property
    def longest(self) -> float:
        """No coded vector is longer."""
        return 1.0 + float(self.miss.max(initial=0.0))

    def candidate_slack(self, nodes: np.ndarray, asking: Codes) -> np.ndarray:
        """A candidate's part of E, in steps of integer scores, rounded up: r'·(1 + r)."""
        steps = self.miss[nodes] * asking.longest / (self.scale * asking.scale)
        rounded: np.ndarray = np.ceil(steps).astype(np.int32)
        return rounded + 1

    def query_ease(self, nodes: np.ndarray) -> np.ndarray:
        """Twice a query's part of E, r, in the same steps: it lowers the floor below the best."""
        rounded: np.ndarray = np.ceil(2 * self.miss[nodes] / self.scale**2).astype(np.int32)
        return rounded + 1


def _crowd(space: Space, miss: np.ndarray) -> float:
    """Try it on a sample, in float32.

    Vectors that all point about the same way have scores closer together than the codes can tell.
    """
    if space.n_nodes < 2:
        return 0.0
    some = np.random.default_rng(space.n_nodes).permutation(space.n_nodes)[:ASKED]
    with single_threaded_blas():
        score = space.left[some[:ASKING]] @ space.right[some].T
    np.fill_diagonal(score, -np.inf)
    margin = np.float32(2 * np.median(miss))
    return float(np.mean((score >= score.max(axis=1, keepdims=True) - margin).sum(axis=1)))


class _Turn:
    """A fixed orthogonal map: each block of coordinates mixed by Hadamard's matrix, signs flipped."""

    def __init__(self, padded: int) -> None:
        self.padded = padded
        self.size = min(128, padded & -padded)
        mix = np.ones((1, 1))
        while len(mix) < self.size:
            mix = np.block([[mix, mix], [mix, -mix]])
        sign = np.random.default_rng(padded).choice([-1.0, 1.0], (self.size, 1))
        self.mix = (sign * mix / np.sqrt(self.size)).astype(np.float32)
        # rounding of the operands and of the sums, as a length: √size sums are off by at most this
        self.error = 1.05 * np.sqrt(self.size) * (self.size + 8) * UNIT_ROUNDOFF

    def __call__(self, unit: np.ndarray) -> np.ndarray:
        if unit.shape[1] < self.padded:
            unit = np.pad(unit, ((0, 0), (0, self.padded - unit.shape[1])))
        mixed: np.ndarray = unit.reshape(-1, self.size) @ self.mix
        return mixed.reshape(len(unit), self.padded)
