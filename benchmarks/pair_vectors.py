"""Vectors of sentences with a pair marked: for relations, the mean of all tokens does not say between whom.

    python benchmarks/pair_vectors.py FOLDER OUT --model DIR-OR-NAME [--first person1 --second person2]

One pass of a sentence encoder over the unchanged text; the vector is the mean of all tokens, the sum of
the means of the two mentions' tokens, and the mean of the tokens between them, side by side (3 × 384 for
MiniLM). Of several mentions the nearest pair is taken; where a mention is not found in the text, the mean
of all tokens stands in. Needs the torch extra.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

Span = tuple[int, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--first", default="person1")
    parser.add_argument("--second", default="person2")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        table = pq.read_table(options.folder / f"{split}.parquet")
        texts, first, second = (
            table[each].to_pylist() for each in ("text", options.first, options.second)
        )
        pairs = [nearest_pair(*each) for each in zip(texts, first, second, strict=True)]
        vectors = embed(texts, pairs, options.model)
        np.save(options.out / f"vectors-{split}.npy", vectors.astype(np.float16))
        missing = sum(pair is None for pair in pairs)
        print(f"{split}: {len(texts)} rows, {missing} without both mentions")


def nearest_pair(text: str, first: str, second: str) -> tuple[Span, Span] | None:
    """The two mentions with the fewest characters between them, or None."""
    found = [
        (max(a[0], b[0]) - min(a[1], b[1]), a, b)
        for a in _mentions(first, text)
        for b in _mentions(second, text)
        if a[1] <= b[0] or b[1] <= a[0]
    ]
    return min(found)[1:] if found else None


def _mentions(name: str, text: str) -> list[Span]:
    pattern = r"\s*".join(re.escape(word) for word in name.split())
    return [match.span() for match in re.finditer(pattern, text)] if pattern else []


def embed(texts: list[str], pairs: list[tuple[Span, Span] | None], name: str) -> np.ndarray:
    """One vector per text; long texts last, so that a batch pads little."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(name), AutoModel.from_pretrained(name).eval()
    vectors = None
    order = np.argsort([len(text) for text in texts], kind="stable")
    for start in range(0, len(order), 64):
        batch = order[start : start + 64]
        tokens = tokenizer(
            [texts[at] for at in batch],
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=160,
            return_offsets_mapping=True,
        )
        offsets = tokens.pop("offset_mapping").numpy()
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state.numpy()
        real = tokens["attention_mask"].numpy().astype(bool)
        for place, at in enumerate(batch):
            row = pool(hidden[place], offsets[place], real[place], pairs[at])
            vectors = np.zeros((len(texts), len(row)), np.float32) if vectors is None else vectors
            vectors[at] = row
    return np.empty((0, 0)) if vectors is None else vectors


def pool(
    hidden: np.ndarray, offsets: np.ndarray, real: np.ndarray, pair: tuple[Span, Span] | None
) -> np.ndarray:
    """Mean of all tokens, sum of the mentions' means, mean of what lies between."""
    mean = hidden[real].mean(axis=0)
    if pair is None:
        return np.concatenate([mean, 2 * mean, mean])
    words = real & (offsets[:, 1] > offsets[:, 0])

    def part(low: int, high: int) -> np.ndarray:
        inside = words & (offsets[:, 0] < high) & (offsets[:, 1] > low)
        return hidden[inside].mean(axis=0) if inside.any() else mean

    (a, b), (c, d) = pair
    return np.concatenate([mean, part(a, b) + part(c, d), part(min(b, d), max(a, c))])


if __name__ == "__main__":
    main()
