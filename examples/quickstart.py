"""Label handwritten digits with functions a person would write; no network, a few seconds.

    python examples/quickstart.py

Sixteen functions vote on one row in fifteen each. The label model alone, the votes extended to digits
that look alike, and the model that uses the 97 dev labels too are scored on 500 test digits.
"""

from __future__ import annotations

import epoxy
from epoxy.datasets import digits_lfs


def main() -> None:
    data = epoxy.datasets.load("digits")
    lfs = [each for each in vars(digits_lfs).values() if hasattr(each, "vote")]
    train, dev, test = data.prepare(lfs)

    alone = epoxy.Epoxy(radius={}).fit(train)
    extended = epoxy.tune(train, dev)
    fused = epoxy.Fusion().fit(train, dev)

    print(f"{train.votes.n_sources} functions, {train.votes.coverage.mean():.1%} coverage each")
    print(f"accuracy of the functions alone    {alone.score(test):.3f}")
    print(f"accuracy with votes extended       {extended.score(test):.3f}")
    print(f"accuracy of votes, vectors, labels {fused.score(test):.3f}")
    print(extended.search_)
    print(extended.explain(test, test.ids[0]))


if __name__ == "__main__":
    main()
