"""Tennis rallies in video frames: what a chain over frames adds, honestly measured.

The votes are those of the paper's Tennis task (six sources per frame); only dev frames have true
labels, and there are no vectors, so nothing is extended here. Protocol: models are fitted on the train
votes alone; dev is cut into two halves of consecutive frames; settings are chosen by F1 on one half
and scored on the other, and the other way round. The model without a chain may choose among the same
settings, with windows of one frame.

    python examples/tennis.py [folder of data sets]
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet

from epoxy.sequences import Chain
from epoxy.votes import Split, Votes

DATA = Path(os.environ.get("EPOXY_SHARED_DATA", Path(__file__).parents[2] / "shared" / "data"))
CLASSES = ("no rally", "rally")
SOLVES = ("median", "em")
TRUSTS = (1.0, 0.3, 0.1, 0.05)
LENGTHS = (3, 5, 9, 14, None)


def read(home: Path) -> tuple[Votes, Split]:
    train, dev = (
        Votes(np.load(home / f"votes-{name}.npy"), classes=CLASSES) for name in ("train", "dev")
    )
    return train, Split(dev, y=parquet.read_table(home / "dev.parquet")["label"].to_pylist())


def f1(model: Chain, split: Split) -> float:
    found, truth = model.predict(split.votes) == "rally", split.y == 1
    return float(2 * (found & truth).sum() / max(1, found.sum() + truth.sum()))


def choose(train: Votes, tuning: Split, lengths: tuple[int | None, ...]) -> Chain:
    """The setting with the best F1 on the tuning half; ties go to the one tried first."""
    best, best_score = None, -1.0
    for solve, length in itertools.product(SOLVES, lengths):
        model = Chain(length, class_balance=tuning, solve=solve).fit(train)
        for trust in TRUSTS:
            model.set_params(trust=trust)  # trust only enters inference
            score = f1(model, tuning)
            if score > best_score:
                best, best_score = (length, solve, trust), score
    length, solve, trust = best
    return Chain(length, class_balance=tuning, solve=solve, trust=trust).fit(train)


def main() -> None:
    home = Path(sys.argv[1] if len(sys.argv) > 1 else DATA) / "tennis_L"
    if not home.is_dir():
        print(f"skipped: {home} is not on this machine; set EPOXY_SHARED_DATA")
        return
    train, dev = read(home)
    print(f"{train.n_rows} train frames, {dev.n_rows} dev frames, {train.n_sources} sources\n")

    print("nothing tuned, F1 on all of dev")
    for length in (1, *LENGTHS):
        model = Chain(length).fit(train)
        name = {1: "no chain", None: "one chain"}.get(length, f"windows of {length}")
        print(f"  {name:<14}{f1(model, dev):.3f}")

    half = dev.n_rows // 2
    halves = dev.rows(slice(0, half)), dev.rows(slice(half, None))
    print("\nchosen on one half of dev, F1 on the other half")
    for name, lengths in (("no chain", (1,)), ("chain", LENGTHS)):
        scores = []
        for tuning, held_out in (halves, halves[::-1]):
            model = choose(train, tuning, lengths)
            scores.append(f1(model, held_out))
            setting = f"length={model.length}, solve={model.solve}, trust={model.trust}"
            print(f"  {name:<10}{scores[-1]:.3f}   ({setting})")
        print(f"  {name:<10}{np.mean(scores):.3f}   mean of both halves")


if __name__ == "__main__":
    main()
