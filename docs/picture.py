"""Draw docs/picture.png: votes on handwritten digits before and after extension, in two dimensions."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import TSNE

import epoxy
from epoxy.datasets import digits_lfs

INK = "#57606a"  # legible on white and on black


def main() -> None:
    """Tune on dev, lay the train rows out in the plane, draw both panels."""
    data = epoxy.datasets.load("digits")
    lfs = [value for value in vars(digits_lfs).values() if hasattr(value, "vote")]
    train, dev, _ = data.prepare(lfs)
    model = epoxy.tune(train, dev)
    flat = TSNE(random_state=0, perplexity=30).fit_transform(train.vectors)
    before = epoxy.MajorityVote().fit(train.votes).predict_proba(train.votes)
    panels = [
        ("functions vote", before, train.votes.covered),
        ("votes extended to near rows", model.predict_proba(train), model.votes_.covered),
    ]
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4))
    figure.patch.set_alpha(0)
    for axis, (title, proba, covered) in zip(axes, panels):
        axis.scatter(*flat[~covered].T, s=6, color="#8c959f", alpha=0.5, linewidths=0)
        best = proba.argmax(axis=1)
        axis.scatter(
            *flat[covered].T, s=9, c=best[covered], cmap="tab10", vmin=0, vmax=9, linewidths=0
        )
        for digit in range(10):
            rows = covered & (best == digit)
            if rows.sum() > 5:
                x, y = np.median(flat[rows], axis=0)
                axis.annotate(
                    str(digit), (x, y), fontsize=15, weight="bold", color=INK, ha="center"
                )
        axis.set_title(f"{title}: {covered.mean():.0%} of rows", color=INK, fontsize=11)
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(Path(__file__).with_name("picture.png"), dpi=110, transparent=True)


if __name__ == "__main__":
    main()
