"""The loop under the default model: an edit, a radius, a hand label → every probability and score.

Part of `speed.py`. Beside each stands a refit of the same state from scratch in the same run, and how far
the two answers are apart. Half of the edits change 5 % of a source's votes and half 30 %, with dev
votes unchanged.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np

import epoxy
from speed_data import edited
from speed_session import splits, summary, timed

EDITS = 20
LABELS = (100, 2811)
MOST_ROWS = 100_000  # beyond, only the smaller number of labels is measured


def measure(vectors: np.ndarray, votes: np.ndarray, cache: Path) -> dict[str, Any]:
    """Open a session for each number of hand labels, then edit, move and label; neighbours are kept."""
    train, dev = splits(vectors, votes)
    truth = labels_of(vectors)
    rows = np.random.default_rng(1).permutation(len(vectors))[
        : dev.n_rows
    ]  # as `splits` draws them
    dev = epoxy.Split(dev.votes, dev.vectors, truth[rows])
    found: dict[str, Any] = {}
    for count in LABELS:
        if count <= dev.n_rows and (count == LABELS[0] or train.n_rows <= MOST_ROWS):
            some = dev.rows(np.arange(count))
            found[f"{count} labels"] = _loop(train, some, truth, cache)
    return found


def labels_of(vectors: np.ndarray) -> np.ndarray:
    """Made-up truth that vectors foretell: the side of a direction, one row in ten the other way."""
    rng = np.random.default_rng(5)
    side = vectors @ rng.normal(size=vectors.shape[1])
    return np.asarray((side > np.median(side)) ^ (rng.random(len(vectors)) < 0.1), dtype=int)


def _loop(train: epoxy.Split, dev: epoxy.Split, truth: np.ndarray, cache: Path) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    first, session = timed(lambda: epoxy.Session(train, dev, cache=cache))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    names = [each.name for each in session.state.workspace.sources if (each.own[0] >= 0).any()]

    def edit(number: int) -> float:
        source = session.state.workspace.source(names[number % len(names)])
        assert source is not None
        loans, share = source.loans[0], 0.3 if number % 2 else 0.05
        support = edited(loans.own >= 0, loans.distance, share, rng)
        said = loans.own[loans.own >= 0][0]
        column = np.where(support, np.where(loans.own >= 0, loans.own, said), -1)
        return session.set_votes(source.name, column).seconds

    def move(number: int) -> float:
        far = float(rng.uniform(0.05, 0.5))
        return session.set_radius(names[number % len(names)], far).seconds

    def label(number: int) -> float:
        row = int(rng.integers(train.n_rows))
        return session.label(row, train.classes[int(truth[row])], chosen="random").seconds

    times = {}
    for name, act in (("edit", edit), ("radius", move), ("label", label)):
        act(0)  # the first call may compile
        times[f"{name}_ms"] = summary([act(number) for number in range(EDITS)])
    refit, again = timed(session.refit)
    apart = max(
        float(np.abs(new - old).max())
        for new, old in zip(again.proba, session.outcome.proba, strict=True)
    )
    flips = sum(
        int((new != old).sum())
        for new, old in zip(again.labels, session.outcome.labels, strict=True)
    )
    return {
        "open_seconds": first,
        "open_peak_mb": peak,
        "refit_seconds": refit,
        **times,
        "apart_from_refit": apart,
        "labels_apart": flips,
    }
