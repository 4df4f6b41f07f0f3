"""What each part of the default model buys: the model without it, on dev rows held out.

    python benchmarks/parts.py                           all parts, 0, 20, 100 and all labels, four draws
    python benchmarks/parts.py --parts "as it is" lending --labels 0 --sets spam sms

In every draw 60 % of dev may be labelled and the other 40 % score; with no label all of dev scores, once.
A part is taken out by changing what its module reads; nothing else is tuned again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

from runner import Row, arguments, run, sets

FUSION = "epoxy.fusion."


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--labels", nargs="*", default=["0", "20", "100", "all"])
    parser.add_argument("--draws", type=int, default=4)
    options = parser.parse_args()
    cells = [
        {"data": data, "part": part, "labels": at, "draw": draw}
        for data in options.sets or sets()
        for part in options.parts
        for at in options.labels
        for draw in range(1 if at == "0" else options.draws)
    ]
    frame = run(measure, cells, options)
    for figure in ("points", "log_loss"):
        table = frame.pivot_table(figure, ["data", "part"], "labels", sort=False)
        means = table.groupby(level="part", sort=False).mean()
        print(f"\n{figure}\n{(means - means.loc['as it is']).round(3).to_string()}")
        print(means.loc["as it is"].round(3).to_string())


def measure(name: str, cells: list[Row]) -> Iterator[Row]:
    """Every part of a data set, each on a session of its own."""
    from tasks import Labelled, drawn, figures, load

    data = load(name)
    dev, truth = data.dev, data.dev.truth
    for part in dict.fromkeys(cell["part"] for cell in cells):
        with ExitStack() as changes:
            for target, value in PARTS[part]().items():
                changes.enter_context(patch(FUSION + target, value))
            known = Labelled(data, dev)
            for cell in (each for each in cells if each["part"] == part):
                pool, scored = drawn(data, cell["draw"])
                if cell["labels"] == "0":
                    pool, scored = pool[:0], np.arange(dev.n_rows)
                elif cell["labels"] != "all":
                    pool = pool[: int(cell["labels"])]
                labelled = np.sort(pool)
                proba, guess = known.answer(known.teach(labelled, truth[labelled], chosen=None))
                yield cell | figures(data, proba[scored], guess[scored], truth[scored])


Changes = Callable[[], dict[str, Any]]


def silent(name: str) -> Changes:
    """A part that says nothing of any row."""

    def changes() -> dict[str, Any]:
        from epoxy.fusion.fitted import Fitted

        said = getattr(Fitted, name)

        def nothing(self: Any, rows: Any) -> np.ndarray:
            return np.zeros_like(said(self, rows))

        return {f"fitted.Fitted.{name}": nothing}

    return changes


def equal_shares() -> dict[str, Any]:
    """Every class as frequent as the others."""
    from epoxy.fusion.tally import Balance

    def guessed(votes: Any, counts: np.ndarray) -> Balance:
        found = np.full(votes.n_classes, 1 / votes.n_classes)
        return Balance(found, found, found)

    return {"tally.Balance.guessed": guessed}


PARTS: dict[str, Changes] = {
    "as it is": dict,
    "votes": silent("of_votes"),
    "vectors": silent("of_line"),
    "neighbours": silent("of_around"),
    "lending": lambda: {"lenders.BUDGET": 0.0},
    "class shares": equal_shares,
    "lean": lambda: {"unlabelled._leaning": lambda base, *_: base},
    "scales": lambda: {"fitted.SCALES": (1.0, 1.0)},
    "copies count once": lambda: {
        "unlabelled.distinct": lambda found: np.arange(len(found.sources))
    },
    "who is heard": lambda: {"lenders.ASKED": 0},
    "bias": lambda: {"correction.RIDGE_BIAS": 1e9},
    "likest labelled rows": lambda: {"hand_labels.LIKEST": 10**9},
    "correction": lambda: {
        f"{where}.{what}": 1e-6
        for where in ("correction", "hand_labels", "fitted")
        for what in ("LOUD_FEATURES", "LOUD_VOTES")
    },
}
"""What is taken out, and what is changed to take it out."""


if __name__ == "__main__":
    main()
