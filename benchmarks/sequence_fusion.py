"""What the order of rows adds to Fusion on synthetic sequences, mistakes that persist included.

    python benchmarks/sequence_fusion.py

Seeds begin at 100; those below 3 were looked at when the constants of `fusion.sequence` were chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epoxy import Fusion, Split, Votes

SEEDS = range(100, 105)
CASES: dict[str, dict[str, Any]] = {
    "independent mistakes": {},
    "the same, with vectors": {"vectors": 0.6},
    "one vote in ten cast": {"cast": 0.1},
    "half of all mistakes stay": {"mistakes_stay": 0.5},
    "nine in ten stay": {"mistakes_stay": 0.9},
    "nine in ten stay, labels hardly": {"mistakes_stay": 0.9, "stays": 0.6},
    "labels in no order": {"stays": 0.0},
    "four classes": {"n_classes": 4},
    "four classes, nine in ten stay": {"n_classes": 4, "mistakes_stay": 0.9},
    "sequences of five": {"length": 5, "n_sequences": 600, "stays": 0.8},
    "three sequences of sixty": {"length": 60, "n_sequences": 3},
}


def sequences(
    seed: int,
    *,
    n_classes: int = 2,
    n_sequences: int = 30,
    length: int = 100,
    stays: float = 0.95,
    cast: float = 0.5,
    mistakes_stay: float = 0.0,
    vectors: float = 0.0,
) -> Split:
    """Labels that stay with probability `stays`, and six sources whose mistakes may stay too."""
    rng = np.random.default_rng(seed)
    n_rows = n_sequences * length
    first = np.arange(n_rows) % length == 0

    def held(values: np.ndarray, share: float) -> np.ndarray:
        kept = ~first & (rng.random(n_rows) < share)
        return values[np.maximum.accumulate(np.where(kept, 0, np.arange(n_rows)))]

    y = held(rng.integers(0, n_classes, n_rows), stays)
    columns = []
    for accuracy in 0.7 + rng.uniform(-0.1, 0.1, 6):
        # what is drawn of a row is drawn together, so that it stays together
        drawn = np.stack([rng.random(n_rows), rng.random(n_rows), rng.random(n_rows)], axis=1)
        luck, silent, slip = held(drawn, mistakes_stay).T
        wrong = (y + 1 + (slip * (n_classes - 1)).astype(int)) % n_classes
        columns.append(np.where(silent > cast, -1, np.where(luck < accuracy, y, wrong)))
    looks = None
    if vectors:
        looks = vectors * rng.normal(size=(n_classes, 16))[y] + rng.normal(size=(n_rows, 16))
    ids = np.repeat(np.arange(n_sequences), length)
    names = [str(label) for label in range(n_classes)]
    return Split(Votes(np.stack(columns, axis=1), classes=names, sequences=ids), looks, y)


def measured(split: Split) -> tuple[float, float]:
    """Accuracy and log loss."""
    proba = Fusion().fit(split).predict_proba(split)
    own = proba[np.arange(split.n_rows), split.truth]
    right = float((proba.argmax(axis=1) == split.y).mean())
    return right, float(-np.log(np.maximum(own, 1e-12)).mean())


def main() -> None:
    print(f"{'':<34}{'rows alone':>14}{'in order':>16}")
    for name, about in CASES.items():
        splits = [sequences(seed, **about) for seed in SEEDS]
        alone = np.mean([measured(each.without_sequences()) for each in splits], axis=0)
        order = np.mean([measured(each) for each in splits], axis=0)
        print(f"{name:<34}{alone[0]:>8.3f}, {alone[1]:.2f}{order[0]:>10.3f}, {order[1]:.2f}")


if __name__ == "__main__":
    main()
