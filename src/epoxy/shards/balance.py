"""The class balance that votes tell, from sums over shards."""

from __future__ import annotations

import numpy as np

from ..fusion.balance import Balance, from_sums, shares_voted
from ..fusion.skewness import Signed, sums_of_triples
from ..label_models.balance import Detectors, sum_of_triples
from ..label_models.moments import Moments
from .run import Run
from .runner import Summary
from .shard import Kept, Shard
from .voting import as_votes


def balance_voted(
    run: Run, kept: Kept, columns: np.ndarray, summary: Moments, name: str = ""
) -> Balance:
    """The class balance that votes tell; `name` tells stages of one run apart."""
    names = summary.sources
    (shares,) = run.stage(f"shares{name}", add_shares, kept, columns, names, summary.classes).total(
        "shares"
    )
    known: dict[tuple[bytes, ...], float] = {}

    def triples(of: Detectors) -> float:
        key = tuple(each.tobytes() for each in (of.source, of.named, of.sign))
        if key not in known:
            stage = run.stage(
                f"triples{name}-{len(known)}",
                add_triples,
                kept,
                columns,
                names,
                summary.classes,
                of,
            )
            known[key] = float(stage.total("triples")[0])
        return known[key]

    def cubes(of: Signed) -> np.ndarray:
        given = (kept, columns, names, summary.classes, of)
        return np.asarray(run.stage(f"cubes{name}", add_cubes, *given).total("cubes")[0])

    return from_sums(summary, shares, triples, cubes)


def add_shares(
    shard: Shard,
    kept: Kept,
    votes: Kept,
    columns: np.ndarray,
    names: tuple[str, ...],
    classes: tuple[str, ...],
) -> Summary:
    """Shares of votes, summed over a shard's rows."""
    own = as_votes(votes.load(shard, "votes")[columns], names, classes)
    return {"shares": shares_voted(own)}


def add_triples(
    shard: Shard,
    kept: Kept,
    votes: Kept,
    columns: np.ndarray,
    names: tuple[str, ...],
    classes: tuple[str, ...],
    of: Detectors,
) -> Summary:
    """Third moments of some detectors, summed over a shard's rows."""
    own = as_votes(votes.load(shard, "votes")[columns], names, classes)
    return {"triples": np.array(sum_of_triples(own, of))}


def add_cubes(
    shard: Shard,
    kept: Kept,
    votes: Kept,
    columns: np.ndarray,
    names: tuple[str, ...],
    classes: tuple[str, ...],
    of: Signed,
) -> Summary:
    """Third moments of votes as numbers, summed over a shard's rows."""
    own = as_votes(votes.load(shard, "votes")[columns], names, classes)
    return {"cubes": sums_of_triples(own, of)}
