"""Vectors from the words of the train rows alone: TF-IDF and a truncated SVD, nothing to download.

Two choices matter for extension. Vectors have length one, because what is compared is their
direction. And a row none of whose words the fit has seen gets a coordinate of its own instead of a
zero vector: a zero vector has no direction, so one empty dev text would stop a whole run; with the
extra coordinate such rows are at distance 1 from every row with known words.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Self

import numpy as np

from ..errors import FrameError, NotFitted
from ..neighbors.workers import single_threaded_blas
from ..progress import Progress, silent
from .encoder import Plain, as_vectors, check_positive, fingerprint, texts

_BLOCK = 4_096  # rows per step: the unit of the progress bar
# words, and signs such as "!" or an emoji, which in short texts say as much as words do
_TOKEN = r"(?u)\w+|[^\w\s]"


class Lsa(Plain):
    """Latent semantic analysis of the train rows.

    Parameters
    ----------
    dim
        Length of the vectors (one more coordinate marks rows without known words); fewer where the
        rows or their vocabulary span less.
    words
        Size of the vocabulary, single words and pairs, most frequent first.
    seed
        Of the randomised SVD; the same seed and rows give the same vectors.

    Examples
    --------
    >>> rows = ["free money now", "money for free", "lovely song", "what a song"]
    >>> vectors = Lsa(dim=2).fit(rows).encode(["free money", "a lovely song"])
    >>> vectors.shape, bool(vectors[0] @ vectors[1] < 0.01)
    ((2, 3), True)
    """

    name = "lsa"

    def __init__(self, dim: int = 128, *, words: int = 50_000, seed: int = 0) -> None:
        check_positive("lsa", dim=dim, words=words)
        self.dim = dim
        self.words = words
        self.seed = seed
        self._tfidf: Any = None
        self._directions: np.ndarray | None = None  # (n_words, dim)

    @property
    def settings(self) -> str:
        """What decides a vector besides the rows: the parameters, the version of scikit-learn."""
        shown = f"dim={self.dim} words={self.words} seed={self.seed}"
        return f"lsa {shown} scikit-learn={version('scikit-learn')}"

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Learn the vocabulary and its directions from the train rows."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.utils.extmath import randomized_svd

        train = texts(rows, "lsa")
        tfidf = TfidfVectorizer(
            token_pattern=_TOKEN,
            ngram_range=(1, 2),
            max_features=self.words,
            sublinear_tf=True,
            dtype=np.float32,
        )
        try:
            weights = tfidf.fit_transform(train)
        except ValueError as error:
            raise FrameError(
                f"lsa found no words in the {len(train)} rows it was to learn from; "
                "fit it on train rows with text, and check which column they come from"
            ) from error
        progress(1, 2)
        rank = min(self.dim, *weights.shape)
        with (
            single_threaded_blas()
        ):  # thin products gain nothing by threads, and then depend on them
            found = randomized_svd(weights, rank, n_iter=5, random_state=self.seed)
        _, strength, directions = found
        # what the train rows do not span is rounding, and would place new rows at random
        spanned = strength > 1e-5 * strength[0]
        self._tfidf, self.identity = tfidf, f"{self.settings} rows={fingerprint(train)}"
        self._directions = np.ascontiguousarray(directions[spanned].T, dtype=np.float32)
        progress(2, 2)
        return self

    def prepare(self, rows: Any) -> list[str]:
        """Check that the rows are strings."""
        return texts(rows, "lsa")

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Place rows in the space of the train rows; (n_rows, dim + 1)."""
        if self._directions is None:
            raise NotFitted(
                "lsa is not fitted yet, so it has no space to place rows in; "
                "call fit(train_rows) first, then encode every split with it"
            )
        wanted = self.prepare(rows)
        rank = self._directions.shape[1]
        vectors = np.zeros((len(wanted), rank + 1), dtype=np.float32)
        for start in range(0, len(wanted), _BLOCK):
            block = self._tfidf.transform(wanted[start : start + _BLOCK]) @ self._directions
            length = np.linalg.norm(block, axis=1, keepdims=True)
            known = length > 1e-6  # TF-IDF rows have length 1: below this only rounding is left
            end = start + len(block)
            vectors[start:end, :rank] = np.where(known, block / np.where(known, length, 1), 0)
            vectors[start:end, rank] = ~known[:, 0]
            progress(end, len(wanted))
        return as_vectors(vectors, "lsa", len(wanted))

    def __repr__(self) -> str:
        return f"Lsa(dim={self.dim}, words={self.words}, seed={self.seed})"
