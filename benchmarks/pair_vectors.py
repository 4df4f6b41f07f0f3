"""Vectors of sentences that say between whom, for a data folder whose label is a relation of two mentions.

    python benchmarks/pair_vectors.py FOLDER OUT [--model DIR-OR-NAME] [--first person1 --second person2]

Writes vectors-{split}.npy to OUT, for `quality.py --vectors spouse=OUT`. Needs the text extra.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from epoxy.encoders import Pair, embed
from epoxy.progress import bar


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--first", default="person1")
    parser.add_argument("--second", default="person2")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    splits = ("train", "dev", "test")
    tables = [pq.read_table(options.folder / f"{split}.parquet") for split in splits]
    found = embed(
        Pair(options.model, max_length=160, batch_size=64),
        *tables,
        column=["text", options.first, options.second],
        cache=False,
        progress=bar("embedding"),
    )
    for split, vectors in zip(splits, found, strict=True):
        np.save(options.out / f"vectors-{split}.npy", vectors.astype(np.float16))
        print(f"{split}: {len(vectors)} rows")


if __name__ == "__main__":
    main()
