"""What the default model does where sources, vectors, labels or scores are not what they should be.

    python benchmarks/stress.py                             attacks without hand labels, all sets
    python benchmarks/stress.py --tree ../base --tree .     the same on two checkouts
    python benchmarks/stress.py --cases "as it is" wrong constant --labels 0 20 100 --draws 5
    python benchmarks/stress.py --cases "as it is" macro rare noise "two labellers" --labels 100 all
    python benchmarks/stress.py --test                      scored on test, to report

Without labels all of dev scores, else 40 % of it, and 60 % may be labelled; with --test all of dev and
test. `flipped` turns the broadest source round (each class becomes the next), `random` adds a source that
votes at random on 30 % of the rows, `copied` four copies of the broadest source, `random vectors` puts
noise in the place of vectors (beside `majority` and `triplet`, which do not look at them). `wrong` and
`constant` add a source on 60 % of the rows that is wrong four times in five, or always says the first
class; `copied 500` is the worst of the sources, each in turn with 500 copies. `macro` and `rare` (each
class of at least 15 rows against the rest) are scored by macro F1 and F1; the CSV also has F1 at one
half, and at the best threshold with hindsight. `noise` has one hand label
in ten wrong and is told so, `two labellers` are wrong as often, and label a third of the rows twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runner import Row, arguments, compare, run, sets, spread

ATTACKS = ["as it is", "flipped", "random", "copied", "random vectors", "majority", "triplet"]
OTHERS = ["wrong", "constant", "copied 500", "macro", "rare", "noise", "two labellers"]
WRONG, FEWEST = 0.1, 15
Columns = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--cases", nargs="*", default=ATTACKS, choices=ATTACKS + OTHERS)
    parser.add_argument("--labels", nargs="*", default=["0"], help="0, numbers, or all")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--test", action="store_true", help="score on test")
    options = parser.parse_args()
    on = "test" if options.test else "dev"
    once = ("as it is", "flipped", "copied", "copied 500", "majority", "triplet")
    cells = [
        {"data": data, "on": on, "case": case, "labels": at, "draw": draw}
        for data in options.sets or sets()
        for case in options.cases
        for at in options.labels
        for draw in range(1 if at == "0" and case in once else options.draws)
    ]
    frame = run(measure, cells, options)
    for at in options.labels:
        print(f"\n{at} hand labels")
        some = frame[frame["labels"] == at]
        spread(some, "case", "points")
        compare(some, "case", ["points", "log_loss"])


def measure(name: str, cells: list[Row]) -> Iterator[Row]:
    """Fit the model anew for every cell."""
    from tasks import bare, load, trial

    data = load(name)
    for cell in cells:
        pool, asked, truth = trial(data, cell["draw"], cell["on"] == "test")
        count = pool.n_rows if cell["labels"] == "all" else min(int(cell["labels"]), pool.n_rows)
        if not count and cell["on"] == "dev":
            asked, truth = bare(data.dev), data.dev.truth
        hand = pool.rows(np.arange(count)) if count else None
        for row in tried(data, cell["case"], hand, asked, truth, cell["draw"]):
            yield cell | row


def tried(data: Any, case: str, hand: Any, asked: Any, truth: np.ndarray, seed: int) -> Iterator:
    """The figures of one case."""
    from epoxy import MajorityVote, Triplet
    from tasks import figures, fusion, indices, points

    draw = np.random.default_rng(100 + seed)
    if case in ("majority", "triplet"):
        model = {"majority": MajorityVote, "triplet": Triplet}[case]().fit(data.train.votes)
        proba = model.predict_proba(asked.votes)
        yield figures(data, proba, proba.argmax(axis=1), truth)
    elif case == "macro":
        model = fusion(data)
        model.scoring, model.positive = "f1_macro", None
        yield {"points": macro(indices(model.fit(data.train, hand), asked), truth)}
    elif case == "rare":
        yield from rare(data, hand, asked, truth)
    elif case in ("noise", "two labellers"):
        yield noisy(data, hand, asked, truth, seed, two=case != "noise")
    elif case == "copied 500":
        sources = range(data.train.votes.n_sources)
        yield {"points": min(points(data, *copied(data, hand, asked, truth, s)) for s in sources)}
    else:
        train, more, rows = changed(data, case, hand, asked, truth, draw)
        model = fusion(data).fit(train, more)
        yield figures(data, model.predict_proba(rows), indices(model, rows), truth)


def changed(data: Any, case: str, hand: Any, asked: Any, truth: np.ndarray, draw: Any) -> list[Any]:
    """Train, hand-labelled and scored rows with other votes or vectors."""
    from epoxy import Split
    from tasks import fusion

    n_classes, broadest = len(data.classes), int(data.train.votes.coverage.argmax())
    called = None
    if case == "wrong":  # what train rows are, as far as can be told
        called = fusion(data).fit(data.train, data.dev).predict_proba(data.train).argmax(axis=1)

    def column(right: np.ndarray | None, n_rows: int) -> np.ndarray:
        other = draw.integers(1, n_classes, n_rows)
        said = draw.integers(0, n_classes, n_rows)
        if case == "constant":
            said[:] = 0
        elif case == "wrong":
            assert right is not None
            said = np.where(draw.random(n_rows) < 2 * WRONG, right, (right + other) % n_classes)
        return np.where(draw.random(n_rows) < (0.3 if case == "random" else 0.6), said, -1)

    def other(split: Any, right: np.ndarray | None) -> Any:
        if split is None or case == "as it is":
            return split
        matrix, vectors = split.votes.matrix, split.vectors
        if case == "random vectors":
            vectors = draw.normal(size=(split.n_rows, 64))
        elif case == "flipped":
            matrix = matrix.copy()
            mine = matrix[:, broadest]
            matrix[:, broadest] = np.where(mine < 0, -1, (mine + 1) % n_classes)
        elif case == "copied":
            matrix = matrix[:, [*range(matrix.shape[1]), *[broadest] * 4]]
        else:
            matrix = np.column_stack([matrix, column(right, split.n_rows)])
        return Split(votes_like(split, matrix), vectors, split.y)

    known = None if hand is None else hand.truth
    return [other(data.train, called), other(hand, known), other(asked, truth)]


def votes_like(split: Any, matrix: np.ndarray) -> Any:
    """Votes of the same classes."""
    from epoxy import Votes

    return Votes(matrix, classes=split.classes)


def copied(data: Any, hand: Any, asked: Any, truth: np.ndarray, at: int) -> tuple[Any, Any]:
    """Labels where one source comes 500 times more, and the truth."""
    from epoxy import Split
    from tasks import fusion, indices

    def more(split: Any) -> Any:
        if split is None:
            return None
        matrix = split.votes.matrix
        copies = np.repeat(matrix[:, at : at + 1], 500, axis=1)
        return Split(votes_like(split, np.hstack([matrix, copies])), split.vectors, split.y)

    rows = more(asked)
    return indices(fusion(data).fit(more(data.train), more(hand)), rows), truth


def macro(guess: np.ndarray, truth: np.ndarray) -> float:
    """F1 in the mean over the classes that are there."""
    from tasks import f1

    return float(np.mean([f1(guess == at, truth == at) for at in np.unique(truth)]))


def rare(data: Any, hand: Any, asked: Any, truth: np.ndarray) -> Iterator[Row]:
    """Each class against the rest, as a task scored by F1; the mean over classes."""
    from epoxy import Fusion, Split, Votes
    from tasks import f1, indices

    def against(split: Any, at: int) -> Any:
        if split is None:
            return None
        matrix = np.where(split.votes.matrix < 0, -1, split.votes.matrix == at)
        votes = Votes(matrix, split.votes.sources, ["rest", "this"])
        y = None if split.y is None else np.where(split.y < 0, -1, split.y == at)
        return Split(votes, split.vectors, y)

    found: list[Row] = []
    binary = len(data.classes) == 2
    for at in [1] if binary else range(len(data.classes)):
        real = truth == at
        if real.sum() < FEWEST or (binary and data.scoring != "f1"):
            continue
        rows = against(asked, at)
        model = Fusion(scoring="f1", positive="this").fit(
            against(data.train, at), against(hand, at)
        )
        shown = model.predict_proba(rows)[:, 1]
        hits = np.cumsum(real[np.argsort(-shown, kind="stable")])
        best = 200 * (hits / (np.arange(1, len(hits) + 1) + real.sum())).max()
        ruled, half = f1(indices(model, rows) == 1, real), f1(shown > 0.5, real)
        found.append({"points": ruled, "at_half": half, "at_best": float(best)})
    if found:
        yield {key: float(np.mean([each[key] for each in found])) for key in found[0]}


def noisy(data: Any, hand: Any, asked: Any, truth: np.ndarray, seed: int, *, two: bool) -> Row:
    """Hand labels of which one in ten is wrong, of somebody who says so or of two who do not."""
    from epoxy import Split
    from tasks import Labelled, figures, fusion, indices

    n_classes, said = len(data.classes), []
    for who in range(2):
        draw = np.random.default_rng(2 * seed + who)
        wrong, other = draw.random(hand.n_rows) < WRONG, draw.integers(1, n_classes, hand.n_rows)
        said.append(np.where(wrong, (hand.truth + other) % n_classes, hand.truth))
    if not two:
        told = Split(hand.votes, hand.vectors, said[0])
        model = fusion(data, noise=WRONG).fit(data.train, told)
        return figures(data, model.predict_proba(asked), indices(model, asked), truth)
    known = Labelled(data, Split(hand.votes, hand.vectors).followed_by(asked))
    edits = []
    for who in range(2):
        mine = np.flatnonzero(
            (np.arange(hand.n_rows) % 3 == 0) | (np.arange(hand.n_rows) % 2 == who)
        )
        edits.append(known.teach(mine, said[who][mine], by="ab"[who], chosen="random"))
    proba, guess = known.answer(*edits)
    return figures(data, proba[hand.n_rows :], guess[hand.n_rows :], truth)


if __name__ == "__main__":
    main()
