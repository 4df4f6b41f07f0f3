"""Pre-trained vectors of single tokens: sentence embeddings for the price of a sum.

A row is the weighted mean of its tokens' vectors: a token counts less the more usual it is, both in
English and among the train rows. Less the train rows' own mean, and of length one, because what is
compared is the direction; a row without a known token gets a coordinate of its own, for a vector of
zeros has none. Beside it, at half weight, stand the train rows' own words (`Lsa`): what a general
model of English cannot know of this text.

The weights (`words.npz`) were fitted so that means of token vectors give MiniLM's sentence vectors;
`benchmarks/build_words.py` makes them. They know English alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..errors import MissingExtra, NotFitted, StoreError
from ..progress import Progress, silent
from .encoder import Plain, texts
from .lsa import Lsa
from .pretrained import first_line, folder_fingerprint, is_installed

WEIGHTS = Path(__file__).with_name("words.npz")
SHA256 = "4769f36d7cafc165d862e2d2200830570863a150585debbf8433767c314684cd"
"""Of the weights, and so part of an encoder's identity."""
OWN = 0.5
"""The length of the rows' own words beside the pre-trained vector of length one."""

_WORD = re.compile(r"[^\W_]+|_|[^\w\s]")
_LONGEST = 100  # characters of a word; the tokenizer MiniLM was trained with has the same bound
_MOST_WORDS = 1 << 18  # whose tokens are remembered


class WordPiece:
    """Greedy longest pieces of a vocabulary, as uncased BERT cuts words."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.number = {token: at for at, token in enumerate(tokens)}
        self._known: dict[str, tuple[int, ...]] = {}

    def pieces(self, word: str) -> tuple[int, ...]:
        """The tokens of one word; none where some of it is no token."""
        found = self._known.get(word)
        if found is None:
            if len(self._known) >= _MOST_WORDS:
                self._known.clear()
            found = self._known[word] = self._cut(word)
        return found

    def _cut(self, word: str) -> tuple[int, ...]:
        found: list[int] = []
        start, stop = 0, len(word)
        while start < len(word) <= _LONGEST:
            piece = self.number.get("##" * (start > 0) + word[start:stop])
            if piece is not None:
                found.append(piece)
                start, stop = stop, len(word)
            elif stop - start == 1:
                return ()
            else:
                stop -= 1
        return tuple(found)

    def count(self, rows: Sequence[str]) -> Any:
        """How often each token stands in each row; sparse (n_rows, n_tokens)."""
        from scipy.sparse import csr_array

        numbers: list[int] = []
        ends = [0]
        for row in rows:
            text = row.lower()
            if not text.isascii():
                letters = unicodedata.normalize("NFD", text)
                text = "".join(each for each in letters if not unicodedata.combining(each))
            for word in _WORD.findall(text):
                numbers += self.pieces(word)
            ends.append(len(numbers))
        ones = np.ones(len(numbers), dtype=np.float32)
        counts = csr_array((ones, numbers, ends), shape=(len(rows), len(self.number)))
        counts.sum_duplicates()
        return counts


class _Words:
    """The weights that come with epoxy, weighted by what is usual in the rows."""

    def __init__(self) -> None:
        with np.load(WEIGHTS) as file:
            self.vectors, self.scale = (
                file["vectors"],
                file["scale"],
            )  # 8 bits, and how large one is
            self.usual = file["weight"]  # a / (a + p), p the token's share of English
            self.cut = WordPiece(file["tokens"].tobytes().decode().split("\n"))

    def fit(self, rows: Sequence[str]) -> None:
        seen = np.bincount(self.cut.count(rows).indices, minlength=len(self.usual))
        self.weight = self.usual * (np.log((1 + len(rows)) / (1 + seen)) + 1).astype(np.float32)

    def mean(self, rows: Sequence[str]) -> np.ndarray:
        counts = self.cut.count(rows)
        counts.data *= self.weight[counts.indices]
        used, columns = np.unique(counts.indices, return_inverse=True)
        weights = type(counts)((counts.data, columns, counts.indptr), (len(rows), len(used)))
        total = np.maximum(weights.sum(axis=1), 1e-9)
        return np.asarray(weights @ (self.vectors[used] * self.scale[used, None]) / total[:, None])


class _Model2Vec:
    """The weights of a model2vec model, by its own library."""

    def __init__(self, path: str) -> None:
        if not is_installed("model2vec"):
            raise MissingExtra(
                f"encoder 'static:{path}' needs model2vec; run: pip install model2vec"
            )
        try:
            self.model = import_module("model2vec").StaticModel.from_pretrained(path)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{path!r} cannot be read as a model2vec model ({first_line(error)}); "
                "give the folder that its save_pretrained wrote"
            ) from error

    def fit(self, rows: Sequence[str]) -> None:
        """Its tokens have weights of their own."""

    def mean(self, rows: Sequence[str]) -> np.ndarray:
        return np.asarray(self.model.encode(list(rows)), dtype=np.float32)


class Static(Plain):
    """Pre-trained token vectors, with the train rows' own words beside them.

    Parameters
    ----------
    path
        The folder of a model2vec model; the weights that come with epoxy when not given.

    Examples
    --------
    >>> rows = ["free money now", "a lovely song", "cash for nothing"]
    >>> free, song, cash = Static().fit(rows).encode(rows)
    >>> bool(free @ cash > free @ song)
    True
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else str(path)
        self.name = "static" if path is None else f"static:{path}"
        self._own = Lsa()
        self._centre: np.ndarray | None = None

    @property
    def settings(self) -> str:
        """What decides a vector besides the rows: both kinds of weights."""
        weights = SHA256 if self.path is None else folder_fingerprint(Path(self.path))
        return f"static {weights} own={OWN} {self._own.settings}"

    @cached_property
    def _model(self) -> Any:
        return _Words() if self.path is None else _Model2Vec(self.path)

    def fit(self, rows: Any, *, progress: Progress = silent) -> Self:
        """Learn from the train rows what is usual, their mean, and their own words."""
        train = self.prepare(rows)
        self._own.fit(train)
        progress(1, 2)
        self._model.fit(train)
        means = self._model.mean(train)
        known = means.any(axis=1)
        self._centre = means[known].mean(axis=0) if known.any() else np.zeros(means.shape[1])
        self.identity = f"{self.settings} {self._own.identity}"
        progress(2, 2)
        return self

    def prepare(self, rows: Any) -> list[str]:
        """Check that the rows are strings."""
        return texts(rows, "static")

    def encode(self, rows: Any, *, progress: Progress = silent) -> np.ndarray:
        """Embed the rows; (n_rows, dim)."""
        if self._centre is None:
            raise NotFitted(
                "static is not fitted yet, and reads what is usual from the train rows; "
                "call fit(train_rows) first, then encode every split with it"
            )
        wanted = self.prepare(rows)
        own = OWN * self._own.encode(wanted)
        means = self._model.mean(wanted)
        away = (means - self._centre) * means.any(axis=1, keepdims=True)
        length = np.linalg.norm(away, axis=1, keepdims=True)
        known = length > 1e-6
        away /= np.where(known, length, 1)
        progress(len(wanted), max(1, len(wanted)))
        return np.hstack([away * known, ~known, own], dtype=np.float32)

    def __repr__(self) -> str:
        return f"Static({'' if self.path is None else repr(self.path)})"
