"""A video task with vectors: extension and smoothing both help, shown apart and together.

Films are cut into shots; frames of one shot look alike, and whether the searched-for event is on
stays for a while. Sources are sparse and err at random. Extension lends votes to frames that look
alike; the chain lets neighbouring frames inform each other. Radius and chain are chosen on the dev
films and scored on the test films.

    python examples/synthetic_video.py
"""

from __future__ import annotations

import numpy as np

from epoxy.label_models import Triplet
from epoxy.model import Epoxy
from epoxy.sequences import Chain
from epoxy.votes import Split, Votes

CLASSES = ("quiet", "event")
ACCURACY = (0.85, 0.75, 0.7, 0.8, 0.72)
COVERAGE = (0.15, 0.3, 0.25, 0.1, 0.2)
RADII = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)


def films(n_films: int, *, seed: int, looks: np.ndarray) -> Split:
    """Films of 80 to 200 frames: labels that stay, shots that look alike, sparse sources."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(80, 200, n_films)
    film = np.repeat(np.arange(n_films), lengths)
    fresh = np.r_[True, film[1:] != film[:-1]]
    label = np.empty(len(film), dtype=int)
    shot = np.empty(len(film), dtype=int)
    for frame in range(len(film)):
        turns = fresh[frame] or rng.random() < 0.04
        label[frame] = rng.integers(2) if fresh[frame] else label[frame - 1] ^ turns
        shot[frame] = rng.integers(40) if turns or rng.random() < 0.05 else shot[frame - 1]
    vectors = (
        looks[shot] + 0.6 * looks[40 + label] + 0.25 * rng.normal(size=(len(film), looks.shape[1]))
    )
    right = rng.random((len(film), len(ACCURACY))) < ACCURACY
    matrix = np.where(right, label[:, None], 1 - label[:, None])
    matrix[rng.random(matrix.shape) > COVERAGE] = -1
    return Split(Votes(matrix, classes=CLASSES, sequences=film), vectors, y=label)


def accuracy(model: Epoxy, split: Split) -> float:
    return float((model.predict_proba(split).argmax(axis=1) == split.y).mean())


def main() -> None:
    looks = np.random.default_rng(0).normal(size=(42, 24))
    train, dev, test = (
        films(count, seed=seed, looks=looks) for seed, count in enumerate((30, 4, 20), start=1)
    )
    print(f"{train.n_rows} train, {dev.n_rows} dev, {test.n_rows} test frames\n")
    print(f"{'':<24}{'dev':>8}{'test':>8}   radius")
    for name, label_model, radii in (
        ("neither", Triplet(), (0.0,)),
        ("extension alone", Triplet(), RADII),
        ("chain alone", Chain(), (0.0,)),
        ("extension and chain", Chain(), RADII),
    ):
        fitted = [Epoxy(label_model, radius=radius).fit(train) for radius in radii]
        scores = [accuracy(model, dev) for model in fitted]
        best = int(np.argmax(scores))  # ties go to the smaller radius
        print(f"{name:<24}{scores[best]:>8.3f}{accuracy(fitted[best], test):>8.3f}   {radii[best]}")


if __name__ == "__main__":
    main()
