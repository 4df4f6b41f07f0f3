"""How good the default model's labels are on real data, with few and with many hand labels.

    python benchmarks/quality.py                            this checkout, all sets with vectors
    python benchmarks/quality.py --tree ../base --tree .    two checkouts, cell by cell (the usual call)
    python benchmarks/quality.py --labels 0 20 all --draws 3 --sets spam sms
    python benchmarks/quality.py --labels "least sure" surest     50 labels that a tool chose
    python benchmarks/quality.py --test                     scored on test: at the end, not to choose by
    python benchmarks/quality.py --fit                      each cell by Fusion.fit, without a session
    python benchmarks/quality.py --jobs 2 --out FILE.csv    two sets at once; another file of rows

A checkout to compare with: `git worktree add ../base COMMIT`. Rows are kept in build/quality.csv by commit
and source, so that a tree is measured once, a run that was stopped goes on, and a changed file is
measured anew.

In every draw 60 % of dev may be labelled and the other 40 % score (with no label: all of dev, once); with
--test all of dev may be labelled and test scores. A number of labels is drawn at random from these, fewer
among more; "least sure" and "surest" are the 50 whose two best classes are nearest and farthest without
labels, and "covered", "conflict" and "one cell" 50 that have votes, have votes that differ, or lie
together. The model is told how these were chosen (but with --untold). Printed: points (accuracy or F1),
log loss, calibration error, and the seconds of an edit that gives the labels.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from runner import Row, arguments, compare, run, sets, spread

LABELS = ["0", "5", "20", "100", "all", "least sure", "surest"]
CHOSEN = ("least sure", "surest", "covered", "conflict", "one cell")
N_CHOSEN = 50


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--labels", nargs="*", default=LABELS)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--test", action="store_true", help="score on test")
    parser.add_argument("--fit", action="store_true", help="by Fusion.fit in place of a session")
    parser.add_argument("--untold", action="store_true", help="do not say how rows were chosen")
    options = parser.parse_args()
    way = "fit" if options.fit else "untold" if options.untold else "session"
    cells = [
        {"data": data, "on": "test" if options.test else "dev", "way": way, "labels": at, "draw": d}
        for data in options.sets or sets()
        for at in options.labels
        for d in range(1 if at == "0" else options.draws)
    ]
    frame = run(measure, cells, options)
    spread(frame, "labels", "points")
    compare(frame, "labels", ["points", "log_loss", "calibration_error", "seconds"])


def measure(name: str, cells: list[Row]) -> Iterator[Row]:
    """All labels of a data set on one session."""
    from tasks import Labelled, drawn, figures, fusion, indices, load

    data = load(name)
    dev, n_dev = data.dev, data.dev.n_rows
    on_test, by_fit = cells[0]["on"] == "test", cells[0]["way"] == "fit"
    rows, truth = dev, dev.truth
    if on_test:
        rows, truth = dev.followed_by(data.test), np.concatenate([truth, data.truth["test"]])
    known = None if by_fit else Labelled(data, rows)

    def answer(labelled: np.ndarray, word: str | None) -> tuple[np.ndarray, np.ndarray]:
        if known is not None:
            return known.answer(known.teach(labelled, dev.truth[labelled], chosen=word))
        model = fusion(data).fit(data.train, dev.rows(labelled) if len(labelled) else None)
        return model.predict_proba(rows), indices(model, rows)

    surely: list[np.ndarray] = []
    for cell in cells:
        pool, scored = drawn(data, cell["draw"])
        if on_test:
            pool = np.random.default_rng(cell["draw"]).permutation(n_dev)
            scored = np.arange(n_dev, rows.n_rows)
        at, word = cell["labels"], None
        if at == "0":
            pool, scored = pool[:0], scored if on_test else np.arange(n_dev)
        elif at in CHOSEN:
            if not surely and at in CHOSEN[:2]:
                surely.append(answer(pool[:0], None)[0])
            pool = chosen(dev, pool, at, cell["draw"], surely)
            word = None if cell["way"] == "untold" else at
        elif at != "all":
            pool = pool[: int(at)]
        started = time.perf_counter()
        proba, guess = answer(np.sort(pool), word)
        seconds = time.perf_counter() - started
        found = figures(data, proba[scored], guess[scored], truth[scored])
        yield cell | found | {"seconds": seconds, "labelled": len(pool), "scored": len(scored)}


def chosen(dev: Any, pool: np.ndarray, how: str, draw: int, surely: list[np.ndarray]) -> np.ndarray:
    """Rows of the pool as a tool would show them."""
    matrix = dev.votes.matrix[pool]
    if how in ("least sure", "surest"):
        top = np.sort(surely[0][pool], axis=1)
        order = pool[np.argsort(top[:, -1] - top[:, -2], kind="stable")]
        return order[:N_CHOSEN] if how == "least sure" else order[-N_CHOSEN:]
    if how == "covered":
        return pool[(matrix >= 0).any(axis=1)][:N_CHOSEN]
    if how == "conflict":
        fewest = np.where(matrix < 0, matrix.max(axis=1, keepdims=True), matrix).min(axis=1)
        return pool[fewest != matrix.max(axis=1)][:N_CHOSEN]
    from sklearn.cluster import KMeans

    cells = max(2, len(pool) // N_CHOSEN)
    far = KMeans(cells, n_init=1, random_state=draw).fit_transform(dev.vectors[pool])
    return pool[np.argsort(far[:, draw % cells], kind="stable")[:N_CHOSEN]]


if __name__ == "__main__":
    main()
