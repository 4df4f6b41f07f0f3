"""Which rows to label: rows that `session.next` suggests, against rows drawn at random.

    python benchmarks/teaching.py                       all sets, scored on held-out dev rows, five draws
    python benchmarks/teaching.py --arms score mix teach --draws 1 --sets spam sms
    python benchmarks/teaching.py --tree ../base --tree .
    python benchmarks/teaching.py --test                scored on test, to report

Rows of dev are the pool: they are train rows of the session without a label, and `session.next(10,
purpose, among=pool)` picks ten at a time, each labelled with its truth and the word that came with it.
An arm is a purpose; "score" draws at random. After 10, 20, 50, 100 and 200 labels, as far as the pool
goes, the model is scored, and the accuracy that the session itself reports is compared with the truth. A
draw is another random order of the same pool. The area is the mean height of the curve over labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from runner import Row, arguments, run, sets

AMOUNTS, STEP = (10, 20, 50, 100, 200), 10


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument(
        "--arms", nargs="*", default=["score", "mix"], help="purposes; first: beside"
    )
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--test", action="store_true", help="score on test")
    options = parser.parse_args()
    on = "test" if options.test else "dev"
    cells = [
        {"data": data, "on": on, "arm": arm, "draw": draw, "labels": at}
        for data in options.sets or sets()
        for draw in range(options.draws)
        for arm in options.arms
        for at in AMOUNTS
    ]
    show(run(measure, cells, options), options.arms)


def measure(name: str, cells: list[Row]) -> Iterator[Row]:
    """The curves of a data set; a session serves all arms of a draw."""
    from epoxy import Session
    from tasks import bare, fusion, load, points, trial

    data = load(name)
    for draw in dict.fromkeys(cell["draw"] for cell in cells):
        pool, scored, truth = trial(data, draw, cells[0]["on"] == "test")
        n_train, order = data.train.n_rows, np.random.default_rng(draw).permutation(pool.n_rows)
        pool = pool.rows(order)
        names = [*(f"train-{at}" for at in range(n_train)), *(f"{draw}-{at}" for at in order)]
        train = bare(bare(data.train).followed_by(bare(pool)), names)
        session = Session(train, scored, fusion(data), positive=data.positive)
        for arm in dict.fromkeys(cell["arm"] for cell in cells if cell["draw"] == draw):
            wanted = [cell for cell in cells if (cell["draw"], cell["arm"]) == (draw, arm)]
            for count, guess, reported in curve(session, data, arm, pool.truth, names[n_train:]):
                found = {
                    "labelled": count,
                    "points": points(data, guess, truth),
                    "accuracy": float((guess == truth).mean()),
                    "reported": reported,
                }
                last = count == pool.n_rows
                for cell in wanted:
                    if cell["labels"] == count or (last and cell["labels"] > count):
                        yield cell | found


def curve(session: Any, data: Any, arm: str, truth: np.ndarray, names: list[str]) -> Iterator[Any]:
    """Labels of the rows scored and the session's own accuracy at each amount; labels are taken back."""
    from epoxy.session import Label, Several

    right = dict(zip(names, truth.tolist(), strict=True))
    among = range(session.probabilities.shape[0] - len(names), session.probabilities.shape[0])
    most, steps, given = min(max(AMOUNTS), len(names)), 0, 0
    while given < most:
        rows = session.next(min(STEP, most - given), arm, among=among)
        session.apply(
            Several(
                tuple(
                    Label("train", each.id, data.classes[right[each.id]], None, each.chosen)
                    for each in rows
                ),
                "labels",
            )
        )
        steps, given = steps + 1, given + len(rows)
        if given in AMOUNTS or given == most:
            yield given, session.dev_labels, session.scores.get("accuracy")
    for _ in range(steps):
        session.undo()


def area(curves: Any) -> float:
    """Mean height of the curve of means over the number of labels."""
    mean = curves.groupby("labelled")["points"].mean()
    return float(np.trapezoid(mean, mean.index) / (mean.index[-1] - mean.index[0]))


def show(frame: Any, arms: list[str]) -> None:
    """Areas by set and arm, and what each arm gains over the first."""
    for tree, mine in frame.groupby("tree", sort=False):
        table = mine.groupby(["data", "arm"]).apply(area, include_groups=False).unstack()[arms]
        gains = table[arms[1:]].sub(table[arms[0]], axis=0)
        print(f"\n{tree}: mean height of the curve\n{table.round(2).to_string()}")
        for arm in arms[1:]:
            print(
                f"{arm} over {arms[0]}: {gains[arm].mean():+.2f} in the mean of {len(gains)} sets"
            )
        off = (mine["reported"] - mine["accuracy"]).dropna()
        print(
            f"reported accuracy is off by {off.mean():+.3f} ± {off.std():.3f} in {len(off)} cases"
        )


if __name__ == "__main__":
    main()
